"""Stacks of their own: state on disk, and the same events in another order."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rootrank.cli import main


def test_contradicting_states_give_the_same_verdict_in_either_order(
    tmp_path: Path, reopen: Any
) -> None:
    documents = []
    for order in (("FAILED", "NODE_FAIL"), ("NODE_FAIL", "FAILED")):
        with reopen(tmp_path / order[0]) as embedded:
            uri = embedded.bundle("043-node-failure-only")
            for state in order:
                embedded.send(embedded.workload(state), bundle_uri=uri)
            documents.append(embedded.verdict(embedded.key))
    assert documents[0] == documents[1]


def test_state_is_reloaded_and_duplicates_are_still_known(tmp_path: Path, reopen: Any) -> None:
    with reopen(tmp_path) as embedded:
        embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
        first = embedded.verdict(embedded.key)
    with reopen(tmp_path) as embedded:
        assert embedded.verdict(embedded.key) == first
        embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
        assert embedded.executions() == ["SUCCEEDED"]
        assert embedded.messages() == []
        embedded.send(
            embedded.workload("FAILED"), bundle_uri=embedded.bundle("043-node-failure-only")
        )
        assert embedded.current(embedded.key)["revision"] == 2


def test_run_prints_the_stored_verdict_and_show_and_list_find_it(
    tmp_path: Path, root: Path
) -> None:
    runner, state = CliRunner(), str(tmp_path / "state")
    event = str(root / "events/demo.json")
    ran = runner.invoke(main, ["run", event, "--state", state, "--format", "json"])
    assert ran.exit_code == 0, ran.output
    verdict = json.loads(ran.stdout)
    assert verdict["workload"]["job_id"] == "30911"
    assert "message received (revision 1, final)" in ran.stderr
    shown = runner.invoke(main, ["show", "30911", "--state", state, "--format", "json"])
    assert shown.stdout == ran.stdout
    listed = runner.invoke(main, ["list", "--state", state, "--format", "json"])
    (row,) = json.loads(listed.stdout)
    assert row["failure_class"] == verdict["failure_class"]
    other = runner.invoke(main, ["list", "--domain", "data", "--state", state, "--format", "json"])
    assert json.loads(other.stdout) == []
    text = runner.invoke(main, ["show", row["attempt_key"], "--state", state, "--format", "text"])
    assert text.exit_code == 0
    assert "node-003" in text.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("unknown-version", "version 9"),
        ("no-job-id", "job_id"),
        ("unknown-source", "no normaliser for acme.scheduler"),
        ("path-outside", "leaves the bundle"),
        ("not-json", "not JSON"),
    ],
)
def test_a_malformed_event_is_refused_with_place_and_reason(
    tmp_path: Path, root: Path, name: str, told: str
) -> None:
    event = root / "events/malformed" / f"{name}.json"
    ran = CliRunner().invoke(main, ["run", str(event), "--state", str(tmp_path)])
    assert ran.exit_code == 2
    assert told in ran.stderr
    assert str(event) in ran.stderr


def test_a_job_that_is_not_there_and_a_state_that_is_not_there_are_told_apart(
    tmp_path: Path,
) -> None:
    missing = CliRunner().invoke(main, ["show", "1", "--state", str(tmp_path / "none")])
    assert missing.exit_code == 2
    assert "no results yet" in missing.stderr


def test_nothing_leaves_this_machine(tmp_path: Path, reopen: Any) -> None:
    from botocore.awsrequest import AWSRequest
    from botocore.httpsession import URLLib3Session

    from rootrank.embedded.emulator import NetworkRefusedError

    with reopen(tmp_path):
        assert os.environ["AWS_EC2_METADATA_DISABLED"] == "true"
        request = AWSRequest("GET", "https://sts.amazonaws.com/").prepare()
        with pytest.raises(NetworkRefusedError):
            URLLib3Session().send(request)
