"""The walk through docs/engine.md is what the engine really does."""

from pathlib import Path

import pytest

from engine.pipeline import reason
from engine.report.document import Findings
from engine.report.story import moment
from rootrank.commands.attribute import open_book
from rootrank.local_case import read_case

ROOT = Path(__file__).parents[2]
TEXT = " ".join((ROOT / "docs/engine.md").read_text().split())


@pytest.fixture(scope="module")
def findings() -> Findings:
    book = open_book(ROOT / "rules")
    bundle = ROOT / "tests/corpus/007-xid119-gsp-timeout"
    return reason(read_case(bundle, book=book).case, book)


def test_the_device_and_its_rank_are_united_as_described(findings):
    assert findings.directory.rank_gpu[1] == "node-003|0000:20:00"
    assert findings.directory.gpus["node-003|0000:20:00"].index == 1
    assert findings.directory.rank_gpu[0] == "node-003|#0"
    assert "`node-003|0000:20:00` is device 1 and rank 1" in TEXT


def test_the_wait_is_dated_back_as_described(findings):
    (fault,) = [e for e in findings.episodes if e.symptom == "gpu_gsp_timeout"]
    waits = [e for e in findings.episodes if e.symptom == "watchdog_timeout"]
    latest = {moment(e.onset_latest) for e in waits}
    assert latest == {"2023-03-06T21:35:20Z"}
    assert moment(fault.onset_earliest) == "2023-03-06T21:34:31Z"
    assert fault.count == 8
    assert all(f"`{text}`" in TEXT for text in ("2023-03-06T21:35:20Z", "2023-03-06T21:34:31Z"))


def test_the_fault_explains_what_the_page_says_it_explains(findings):
    graph = findings.graph
    (start,) = [i for i, e in enumerate(graph.episodes) if e.symptom == "gpu_gsp_timeout"]
    below = {graph.episodes[i].symptom for i in graph.descendants(start)}
    assert {"watchdog_timeout", "hung_task", "worker_aborted", "cpp_terminate"} <= below


def test_no_rank_failed_first_and_one_cause_is_left(findings):
    assert findings.anchor.first_ranks == ()
    assert [cause.symptom for cause in findings.decision.causes] == ["gpu_gsp_timeout"]
    assert findings.decision.manifestation == "hang"
    assert findings.judgement.level == "definitive"
