"""Every case of every rule holds, every rule has one that fires and one that does not, in time."""

import time
from pathlib import Path

import pytest

from engine.extract.scanner import build_scanner
from engine.rulebook.cases import read_cases
from engine.rulebook.load import LoadedRule, load_rules
from engine.rulebook.lock import LOCK_NAME, check_lock, decode_lock
from engine.rulebook.shipped import load_shipped
from rootrank.rule_cases import CaseResult, run_cases
from rootrank.rule_coverage import CaseWatch, Coverage, cover
from rootrank.rule_samples import SampleRun, run_samples

RULES = Path(__file__).parents[2] / "rules"
MAX_SECONDS = 60  # of work; the clock on the wall depends on who else uses the machine


class _Run:
    """One run of all that `rootrank rules test` does."""

    def __init__(self) -> None:
        started = time.process_time()
        book = load_shipped(RULES)
        scanner = build_scanner(book)
        rules = load_rules(RULES)
        watch = CaseWatch(book, scanner)
        cases, _ = read_cases(RULES)
        self.results: list[CaseResult] = run_cases(cases, attribute_bundle=watch.attribute)
        self.samples: SampleRun = run_samples(rules, book=book, scanner=scanner)
        self.coverage: Coverage = cover(rules, rules, watch=watch)
        self.seconds = time.process_time() - started


@pytest.fixture(scope="module")
def run() -> _Run:
    return _Run()


@pytest.fixture(scope="module")
def rules() -> list[LoadedRule]:
    return load_rules(RULES)


def test_every_case_holds(run: _Run) -> None:
    wrong = [(r.case.path, r.case.line, r.differences, r.error) for r in run.results]
    assert len(wrong) > 200
    assert [item for item in wrong if item[2] or item[3]] == []


def test_every_sample_is_seen_and_no_near_miss(run: _Run) -> None:
    assert run.samples.texts > 3_000
    assert [str(problem) for problem in run.samples.problems] == []


def test_every_rule_has_a_firing_case(run: _Run) -> None:
    assert run.coverage.never_fire == ()


def test_every_rule_has_a_silent_case(run: _Run) -> None:
    assert run.coverage.never_silent == ()


def test_all_of_it_takes_less_than_a_minute(run: _Run) -> None:
    assert run.seconds < MAX_SECONDS


def test_no_rule_changed_under_its_locked_version(rules: list[LoadedRule]) -> None:
    lock = decode_lock((RULES / LOCK_NAME).read_text(encoding="utf-8"))
    assert [str(problem) for problem in check_lock(rules, lock)] == [], "run `rootrank rules lock`"
