"""replay, delete and backfill, as a person calls them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rootrank.cli import main

ROOT = Path(__file__).parents[2]
BUNDLE = "043-node-failure-only"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def event(folder: Path, job_id: str, state: str = "NODE_FAIL", **more: Any) -> Path:
    workload = {
        "scheduler": "slurm", "job_id": job_id, "state": state, "exit_code": "0:0",
        "start": "2023-03-05T19:30:10Z", "end": "2023-03-06T03:17:51Z", "tenant": "team-a",
    }  # fmt: skip
    body = {
        "source": "rootrank.scheduler", "detail-type": "Job Completed",
        "detail": {"version": 1, "workload": workload, **more},
    }  # fmt: skip
    path = folder / f"{job_id}.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with one attributed attempt of job 77."""
    folder = tmp_path_factory.mktemp("operations")
    shutil.copytree(ROOT / "tests/corpus" / BUNDLE, folder / "bundle")
    ran = call("run", event(folder, "77", bundle_uri="bundle"), "--state", folder / "state", "-q")
    assert ran.exit_code == 0, ran.output
    return folder


@pytest.fixture
def state(stored: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return shutil.copytree(stored / "state", tmp_path / "state")


def test_replay_with_the_same_rules_is_exact_and_the_same(state: Path) -> None:
    done = call("replay", "77", "--state", state, "--format", "json", "--check")
    (row,) = json.loads(done.stdout)
    assert (row["mode"], row["changed"], row["reason"]) == ("reasoning", [], None)
    assert done.exit_code == 0


def test_replay_from_the_source_reads_the_bundle_again_and_says_the_same(state: Path) -> None:
    done = call("replay", "77", "--state", state, "--mode", "source", "--format", "json")
    (row,) = json.loads(done.stdout)
    assert (row["mode"], row["differences"]) == ("source", {})


def test_replay_with_other_rules_tells_what_differs(state: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "overrides.yaml").write_text(
        "overrides:\n  - rule: scheduler/slurm_node_failed\n    status: deprecated\n"
        "    reason: tried without\n",
        encoding="utf-8",
    )
    done = call("replay", "77", "--state", state, "--site-rules", site, "--format", "text")
    assert done.exit_code == 0, done.output
    assert "differs  " in done.output
    assert "failure_class: slurm_node_failed -> " in done.output
    checked = call("replay", "77", "--state", state, "--site-rules", site, "--check")
    assert checked.exit_code == 1
    assert json.loads(checked.stdout)[0]["rules"][1].startswith("1.0.0+site.")


def test_replay_without_its_evidence_says_so(state: Path) -> None:
    shutil.rmtree(state / "s3/bundles")
    done = call("replay", "77", "--state", state, "--mode", "source", "--format", "text")
    assert "unknown  none" in done.output
    assert "is not stored any more" in done.output
    assert "1 result replayed" in done.output


def test_replay_of_an_unknown_job_is_invalid_input(state: Path) -> None:
    done = call("replay", "4711", "--state", state)
    assert done.exit_code == 2
    assert "no verdict for '4711'" in done.output


def test_delete_says_what_it_would_do_and_does_nothing(state: Path) -> None:
    done = call("delete", "team-a", "--state", state)
    assert done.exit_code == 0, done.output
    assert "would delete 1 attempt:" in done.output
    assert call("show", "77", "--state", state).exit_code == 0


def test_deleting_what_is_not_there_is_invalid_input(state: Path) -> None:
    done = call("delete", "team-b", "--yes", "--state", state)
    assert done.exit_code == 2
    assert "nothing is stored of 'team-b'" in done.output
    assert call("show", "77", "--state", state).exit_code == 0


def test_deleting_a_workload_leaves_nothing_of_it_and_all_of_others(
    state: Path, tmp_path: Path
) -> None:
    call("run", event(tmp_path, "78"), "--state", state, "-q")
    done = call("delete", "team-a/default/slurm/77", "--yes", "--state", state)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("deleted 1 attempt:")
    assert call("show", "77", "--state", state).exit_code == 2
    assert call("show", "78", "--state", state).exit_code == 0
    left = [p.as_posix() for p in (state / "s3").rglob("*") if p.is_file()]
    assert not [path for path in left if "/77/" in path or "/bundles/" in path]
    assert "/77/" not in (state / "table.jsonl").read_text(encoding="utf-8")


def test_deleting_a_tenant_leaves_neither_attempts_nor_days(state: Path) -> None:
    done = call("delete", "team-a", "--yes", "--state", state)
    assert done.exit_code == 0, done.output
    assert "team-a" not in (state / "table.jsonl").read_text(encoding="utf-8")
    assert not (state / "s3/team-a").exists()


@pytest.mark.parametrize("what", ["a/b", "bundles", "a//c/d", "a/b/c/d/e/f"])
def test_what_is_no_workload_is_not_deleted(state: Path, what: str) -> None:
    done = call("delete", what, "--yes", "--state", state)
    assert done.exit_code == 2
    assert "is neither a tenant" in done.output


def test_a_backfill_admits_each_event_once_however_often_it_runs(
    tmp_path: Path,
) -> None:
    events = [event(tmp_path, str(900 + number)) for number in range(3)]
    lines = tmp_path / "old.jsonl"
    lines.write_text("".join(path.read_text() + "\n" for path in events), encoding="utf-8")
    state = tmp_path / "state"
    for _ in range(2):
        done = call("backfill", lines, "--state", state)
        assert done.exit_code == 0, done.output
        assert "3 events admitted, 0 workflows failed, 0 events refused" in done.output
    rows = json.loads(call("list", "--state", state, "--format", "json").stdout)
    assert sorted((row["job_id"], row["revision"]) for row in rows) == [
        ("900", 1), ("901", 1), ("902", 1),
    ]  # fmt: skip


def test_a_backfill_with_one_bad_event_sends_none(tmp_path: Path) -> None:
    good = event(tmp_path, "1")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"source": "x", "detail-type": "y", "detail": {}}\nnot json\n')
    assert call("backfill", good, bad, "--state", tmp_path / "s").exit_code == 2
    bad.write_text('{"source": "x", "detail-type": "y", "detail": {}}\n')
    done = call("backfill", good, bad, "--state", tmp_path / "s")
    assert done.exit_code == 2
    assert "1 of 2 events cannot be admitted; none sent" in done.output
    assert not (tmp_path / "s").exists()
    assert "1 event can be admitted; none sent" in call("backfill", good, "--dry-run").output


def test_a_backfill_paces_what_it_sends_to_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    from moto import mock_aws

    from rootrank.commands import backfill

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    slept: list[float] = []
    with mock_aws():
        import boto3

        sqs = boto3.client("sqs")
        url = sqs.create_queue(QueueName="admission")["QueueUrl"]
        backfill._send([{"n": n} for n in range(25)], url, per_second=5, sleep=slept.append)
        told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert told["ApproximateNumberOfMessages"] == "25"
    assert slept == [2.0, 1.0]
