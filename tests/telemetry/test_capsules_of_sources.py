"""What a site's own source answered is not asked again: a later rule reads the excerpts of it."""

import json
import shutil

import pytest
from click.testing import CliRunner

from functions.adapters.site_file import configured_site
from rootrank.cli import main
from rootrank.embedded.stack import open_stack

WORKLOAD = {
    "scheduler": "slurm", "cluster": "a", "job_id": "91", "state": "FAILED", "exit_code": "1:0",
    "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T06:00:00Z", "nodes": ["n1"],
}  # fmt: skip
RULE = """\
id: site/shim_sulks
version: 1
kind: symptom
symptom: shim_sulks
title: 'The shim sulks'
domain: application
role: root
tier: 1
manifestation: crash
entity: job
alone: definitive
sources: ['our own shim']
signatures:
  - sources: [applog]
    scan: 'the shim sulks today'
    samples: ['the shim sulks today']
    near_misses: ['the shim sings today']
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    logs = tmp_path / "logs/91"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text("2026-01-01T05:59:58Z the shim sulks today\n")
    (tmp_path / "sources.yaml").write_text(
        "version: 1\nclusters:\n  - name: a\n    files:\n"
        f"      - {{root: {tmp_path}/logs, patterns: ['{{job_id}}/rank-{{rank}}.log']}}\n"
    )
    (tmp_path / "rules/site").mkdir(parents=True)
    (tmp_path / "rules/site/shim_sulks.yaml").write_text(RULE)
    monkeypatch.setenv("SOURCES", str(tmp_path / "sources.yaml"))
    configured_site.cache_clear()
    yield tmp_path
    configured_site.cache_clear()


def replayed(site):
    words = ["replay", "91", "--state", str(site / "state"), "--site-rules", str(site / "rules"),
             "--format", "json"]  # fmt: skip
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    return row


def attributed(site, **more):
    detail = {"version": 1, "workload": WORKLOAD, **more}
    with open_stack(site / "state") as stack:
        if "bundle_uri" in detail:
            detail["bundle_uri"] = stack.upload_bundle(site / "bundle", "sft")
        stack.put_event(
            {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}
        )
        stack.settle(120)


def test_without_a_bundle_all_is_read_from_capsules(site):
    attributed(site)
    shutil.rmtree(site / "logs")
    row = replayed(site)
    assert (row["mode"], row["reason"]) == ("capsule", "from excerpts: files")
    assert row["differences"]["failure_class"][1] == "shim_sulks"


def test_beside_a_bundle_that_is_read_again_the_rest_comes_from_capsules(site):
    (site / "bundle").mkdir()
    (site / "bundle/node.syslog").write_text("2026-01-01T05:00:00Z n1 kernel: quiet\n")
    evidence = [{"path": "node.syslog", "source": "syslog", "node": "n1"}]
    attributed(site, evidence=evidence, bundle_uri="bundle")
    shutil.rmtree(site / "logs")
    row = replayed(site)
    assert (row["mode"], row["reason"]) == ("source", "from excerpts: files")
    assert row["differences"]["failure_class"][1] == "shim_sulks"
