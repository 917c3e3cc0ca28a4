"""A site's sources through the whole pipeline, and one item of a plan on a login node."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from connectors.telemetry.files import SOURCE
from connectors.telemetry.settings import CLUSTER
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery
from functions.adapters.site_file import configured_site
from rootrank.cli import main
from rootrank.embedded.stack import open_stack

LOG = """\
2026-01-01T05:59:01Z step 100 loss 2.1
Traceback (most recent call last):
  File "train.py", line 10, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
WORKLOAD = {
    "scheduler": "slurm",
    "cluster": "a",
    "job_id": "700",
    "state": "FAILED",
    "exit_code": "1:0",
    "start": "2026-01-01T00:00:00Z",
    "end": "2026-01-01T06:00:00Z",
    "nodes": ["n1"],
}


@pytest.fixture
def sources(tmp_path):
    logs = tmp_path / "logs/700"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text(LOG)
    path = tmp_path / "sources.yaml"
    path.write_text(
        "version: 1\nclusters:\n  - name: a\n    files:\n"
        f"      - {{root: {tmp_path / 'logs'}, patterns: ['{{job_id}}/rank-{{rank}}.log']}}\n"
    )
    return path


@pytest.fixture
def site(sources, monkeypatch):
    monkeypatch.setenv("SOURCES", str(sources))
    configured_site.cache_clear()
    yield sources
    configured_site.cache_clear()


def attributed(folder: Path) -> dict:
    with open_stack(folder) as stack:
        stack.put_event(
            {
                "source": "rootrank.scheduler",
                "detail-type": "Job Completed",
                "detail": {"version": 1, "workload": WORKLOAD},
            }
        )
        stack.settle(60)
        query = ResultsQuery(stack.client("dynamodb"), stack.resources.table)
        current = query.current("default/a/slurm/700/t1767225600")
        store = ObjectStore(stack.client("s3"), stack.resources.bucket)
        return json.loads(store.get(current["verdict_key"])[0])


def test_an_event_without_a_bundle_is_explained_by_the_site_s_files(site, tmp_path):
    verdict = attributed(tmp_path / "state")
    assert verdict["failure_class"] == "cuda_oom"
    evidence = {(each["connector"], each["uri"]) for each in verdict["evidence"]}
    assert ("files", "files/700/rank-0.log") in evidence


def test_a_login_node_runs_one_item_of_a_plan(sources, tmp_path):
    item = {
        "item_id": "i-1",
        "connector": "files",
        "shard": "s",
        "source": "applog",
        "query": {CLUSTER: "a", SOURCE: "files"},
    }
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"item": item, "workload": WORKLOAD}))
    done = CliRunner().invoke(
        main, ["collect", "--item", str(task), "--output", str(tmp_path / "out"),
               "--sources", str(sources)],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out/i-1.report.json").read_text())
    assert (report["status"], report["observations"] > 0) == ("ok", True)


def test_an_item_of_a_cluster_that_the_site_does_not_know_is_bad_input(sources, tmp_path):
    item = {"item_id": "i-1", "connector": "files", "shard": "s", "query": {CLUSTER: "b"}}
    task = tmp_path / "task.json"
    task.write_text(json.dumps({"item": item, "workload": WORKLOAD}))
    done = CliRunner().invoke(main, ["collect", "--item", str(task), "--sources", str(sources)])
    assert done.exit_code == 2
    assert "no cluster 'b'" in done.output


def test_connectors_check_says_what_would_be_collected(sources):
    done = CliRunner().invoke(main, ["connectors", "check", "--sources", str(sources)])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)[0]["would_collect"] == ["applog: {job_id}/rank-{rank}.log"]
