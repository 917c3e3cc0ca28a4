"""Nothing that healthy, or noisy and still successful, jobs print becomes a cause.

`quiet-*` and `messages-*` bundles hold lines that mean nothing even when a job fails, `noisy-*`
troubles that jobs survive, so there only nobody may be accused. Files named `state-*` record the
success and are left out where a variant says otherwise. How the corpus was made: its README.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.extract.scanner import Scanner, build_scanner
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from engine.rulebook.book import Rulebook
from rootrank.local_case import load_book, read_case

CORPUS = Path(__file__).parents[1] / "healthy"
BUNDLES = sorted(path.parent for path in CORPUS.glob("*/workload.yaml"))
MIN_TEMPLATES = 2_000
VALUE = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
KNOWN_CAUSE = """\
Traceback (most recent call last):
  File "/home/user/train.py", line 77, in <module>
    main(config)
  File "/home/user/train.py", line 51, in main
    width = config["hidden_width"]
KeyError: 'hidden_width'
"""
HANG = """\
[rank3]:[E110 09:59:30.123 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=8121, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, \
Timeout(ms)=600000) ran for 600029 milliseconds before timing out.
[rank7]:[E110 09:59:31.123 ProcessGroupNCCL.cpp:616] [Rank 7] Watchdog caught collective operation \
timeout: WorkNCCL(SeqNum=8121, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, \
Timeout(ms)=600000) ran for 600048 milliseconds before timing out.
"""


@pytest.fixture(scope="module")
def book() -> Rulebook:
    return load_book()


@pytest.fixture(scope="module")
def scanner(book: Rulebook) -> Scanner:
    return build_scanner(book)


def _lines() -> Iterator[str]:
    for bundle in BUNDLES:
        for path in sorted(bundle.iterdir()):
            if path.name != "workload.yaml":
                yield from path.read_text(encoding="utf-8").splitlines()


def _bundle(source: Path, target: Path, *, state: str | None, trust: str, known: str = "") -> Path:
    """Copy a bundle with another state, its program's output also as a node's own log."""
    shutil.copytree(source, target)
    document: dict[str, Any] = yaml.safe_load((target / "workload.yaml").read_text("utf-8"))
    workload = document["workload"]
    if state != "COMPLETED":
        kept = [e for e in document["evidence"] if not e["path"].startswith("state-")]
        document["evidence"] = kept
        workload.pop("state")
        workload.pop("exit_code")
    if state == "FAILED":
        workload.update(state="FAILED", exit_code="1:0")
    for entry in document["evidence"]:
        if trust == "node" and entry["source"] == "applog":
            entry.update(source="syslog", node=workload["nodes"][0])
    if known:
        (target / "train.err").write_text(known, encoding="utf-8")
        document["evidence"].append({"path": "train.err", "source": "applog"})
    (target / "workload.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    return target


def _accused(verdict: Verdict) -> list[str]:
    named = [f"node {n.node}" for n in verdict.affected_nodes if n.role in ("culprit", "suspect")]
    ranks = [f"rank {r.rank}" for r in verdict.affected_ranks if r.role in ("culprit", "suspect")]
    return [*named, *ranks]


def test_the_corpus_has_enough_different_lines() -> None:
    assert len({VALUE.sub("#", line).strip() for line in _lines()}) >= MIN_TEMPLATES


@pytest.mark.parametrize("trust", ["workload", "node"])
@pytest.mark.parametrize("source", BUNDLES, ids=lambda path: path.name)
def test_a_completed_job_has_no_cause(
    source: Path, trust: str, tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    path = _bundle(source, tmp_path / "b", state="COMPLETED", trust=trust)
    verdict = attribute(read_case(path, book=book, scanner=scanner).case, book)
    assert (verdict.domain, verdict.root_causes, _accused(verdict)) == ("none", (), [])


@pytest.mark.parametrize("trust", ["workload", "node"])
@pytest.mark.parametrize("state", [None, "FAILED"])
@pytest.mark.parametrize("source", BUNDLES, ids=lambda path: path.name)
def test_without_a_recorded_success_it_still_accuses_nobody(
    source: Path, state: str | None, trust: str, tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    path = _bundle(source, tmp_path / "b", state=state, trust=trust)
    verdict = attribute(read_case(path, book=book, scanner=scanner).case, book)
    assert _accused(verdict) == []
    if not source.name.startswith("noisy-"):
        assert [cause.symptom for cause in verdict.root_causes] == []
        assert verdict.domain in ("unknown", "none")


@pytest.mark.parametrize("trust", ["workload", "node"])
@pytest.mark.parametrize("source", BUNDLES, ids=lambda path: path.name)
def test_a_failure_with_a_known_cause_keeps_that_cause(
    source: Path, trust: str, tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    path = _bundle(source, tmp_path / "b", state="FAILED", trust=trust, known=KNOWN_CAUSE)
    verdict = attribute(read_case(path, book=book, scanner=scanner).case, book)
    assert [cause.symptom for cause in verdict.root_causes] == ["value_error"]
    assert (verdict.domain, [n for n in _accused(verdict) if n.startswith("node")]) == (
        "application", [],
    )  # fmt: skip


@pytest.mark.parametrize("trust", ["workload", "node"])
@pytest.mark.parametrize("source", BUNDLES, ids=lambda path: path.name)
def test_a_hang_without_a_cause_finds_none_among_them(
    source: Path, trust: str, tmp_path: Path, book: Rulebook, scanner: Scanner
) -> None:
    path = _bundle(source, tmp_path / "b", state="FAILED", trust=trust, known=HANG)
    verdict = attribute(read_case(path, book=book, scanner=scanner).case, book)
    assert [name for name in _accused(verdict) if name.startswith("node")] == []
    if not source.name.startswith("noisy-"):
        assert [cause.symptom for cause in verdict.root_causes] == []
        assert (verdict.domain, verdict.quality.level) == ("unknown", "insufficient")
