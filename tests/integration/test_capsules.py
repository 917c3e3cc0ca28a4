"""Excerpts outlive the evidence: a rule that is written later still finds its line in them."""

import json
import shutil
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from rootrank.cli import main
from rootrank.results_source import results_of

RULE = """\
id: application/flux_shim
version: 1
kind: symptom
symptom: flux_shim_drained
title: 'The flux shim is drained'
domain: application
role: root
tier: 1
manifestation: crash
entity: rank
alone: definitive
tags: [python_exception]
about: 'A shim of ours that gives up.'
explanation: 'code {code}'
actions:
  - action: fix_application
    target: job
    reason: 'Refill it.'
sources:
  - 'our own shim'
signatures:
  - name: main
    sources: [applog]
    scan: 'flux shim drained'
    extract: 'flux shim drained, code (?P<code>\\d{1,4})'
    samples:
      - 'mesh setup failed: flux shim drained, code 88'
    near_misses:
      - 'flux shim filled'
"""
NEEDLE = (
    "2023-03-06T01:00:00Z mesh setup failed: flux shim drained, code 88 api_key=hunter2needle\n"
)
BEGIN = datetime(2023, 3, 5, 19, 40, 0)
FILLER = "{:%Y-%m-%dT%H:%M:%S}Z trainer: batch {} took 0.31 s on the usual path\n"


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def replayed(state: Path, *words: str | Path) -> dict[str, Any]:
    done = call("replay", "77", "--state", state, "--format", "json", *words)
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    return dict(row)


def log_text() -> str:
    lines = [FILLER.format(BEGIN + timedelta(seconds=n), n) for n in range(24_000)]
    return "".join([*lines[:8000], NEEDLE, *lines[8000:]])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder with one failed attempt, whose log is longer than a capsule."""
    folder = tmp_path_factory.mktemp("capsules")
    (folder / "bundle").mkdir()
    (folder / "bundle/train.log").write_text(log_text(), encoding="utf-8")
    workload = {
        "scheduler": "slurm", "job_id": "77", "state": "FAILED", "exit_code": "1:0",
        "start": "2023-03-05T19:30:10Z", "end": "2023-03-06T03:17:51Z", "tenant": "team-a",
        "nodes": ["n1"],
    }  # fmt: skip
    evidence = [{"path": "train.log", "source": "applog", "node": "n1", "rank": 0}]
    detail = {"version": 1, "workload": workload, "evidence": evidence, "bundle_uri": "bundle"}
    event = {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}
    (folder / "event.json").write_text(json.dumps(event), encoding="utf-8")
    (folder / "rules/application").mkdir(parents=True)
    (folder / "rules/application/flux_shim.yaml").write_text(RULE, encoding="utf-8")
    ran = call("run", folder / "event.json", "--state", folder / "state", "-q")
    assert ran.exit_code == 0, ran.output
    return folder


@pytest.fixture
def state(stored: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return shutil.copytree(stored / "state", tmp_path / "state")


def test_a_later_rule_finds_its_line_in_the_capsule_when_the_evidence_is_gone(
    stored: Path, state: Path
) -> None:
    shutil.rmtree(state / "s3/bundles")
    row = replayed(state, "--site-rules", stored / "rules")
    assert row["mode"] == "capsule"
    assert row["reason"].startswith("from excerpts: static, ")
    assert row["differences"]["failure_class"][1] == "flux_shim_drained"


def test_the_source_is_read_where_it_still_lies(stored: Path, state: Path) -> None:
    row = replayed(state, "--site-rules", stored / "rules")
    assert (row["mode"], row["reason"]) == ("source", None)
    forced = replayed(state, "--site-rules", stored / "rules", "--mode", "capsule")
    assert forced["mode"] == "capsule"
    assert forced["differences"]["failure_class"] == row["differences"]["failure_class"]


def test_evidence_from_a_capsule_stands_where_it_stood_and_says_that_it_is_partial(
    stored: Path, state: Path
) -> None:
    from functions.adapters.results import Selection
    from rootrank.commands.rule_options import loaded_book
    from rootrank.embedded.stack import open_storage
    from rootrank.kept import kept_scanner
    from rootrank.replaying import Replaying

    book = loaded_book(Path(__file__).parents[2] / "rules", stored / "rules")
    with open_storage(state) as names:
        results = results_of(names.table, names.bucket)
        (result,) = results.walk(Selection(job_id="77"), at_most=1)
        found = Replaying(results, book, lambda: kept_scanner(book)).replay(result, "capsule")
    assert found.verdict is not None
    (line,) = [e for e in found.verdict.evidence if "flux shim drained" in (e.text or "")]
    raw = log_text().encode()
    assert raw[line.byte_offset : line.byte_offset + line.byte_length] == NEEDLE.encode()[:-1]
    assert line.line == 8001
    assert "hunter2" not in line.text
    (applog,) = [each for each in found.verdict.coverage if each.source == "applog"]
    assert applog.state == "partial"
    assert "read from excerpts" in (applog.reason or "")


def test_without_capsules_and_evidence_nothing_is_judged(stored: Path, state: Path) -> None:
    shutil.rmtree(state / "s3/bundles")
    (capsules,) = (state / "s3").rglob("capsules")
    shutil.rmtree(capsules)
    row = replayed(state, "--site-rules", stored / "rules")
    assert row["mode"] == "none"
    forced = replayed(state, "--site-rules", stored / "rules", "--mode", "capsule")
    assert (forced["mode"], forced["reason"]) == (
        "none", "no excerpts of its evidence are stored",
    )  # fmt: skip


def test_a_plan_that_outlives_the_observations_gives_no_verdict_on_nothing(state: Path) -> None:
    (collected,) = (state / "s3").rglob("collected")
    shutil.rmtree(collected)
    assert replayed(state, "--mode", "reasoning")["mode"] == "none"
    assert replayed(state)["mode"] == "source"
    shutil.rmtree(state / "s3/bundles")
    assert replayed(state)["mode"] == "capsule"


def test_a_deleted_workload_takes_its_capsules_along(state: Path) -> None:
    assert list((state / "s3").rglob("capsules"))
    done = call("delete", "team-a/default/slurm/77", "--yes", "--state", state)
    assert done.exit_code == 0, done.output
    assert not list((state / "s3").rglob("capsules"))
