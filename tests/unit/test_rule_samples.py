"""Samples and near misses through the real collectors."""

from rule_texts import SYMPTOM, TIMEOUT, rule

from engine.extract.scanner import build_scanner
from engine.rulebook.compile import compile_rules
from rootrank.rule_samples import SampleRun, run_samples


def _run(tried: str, *compiled: str) -> SampleRun:
    book = compile_rules([rule(text) for text in compiled], version="1.0.0")
    return run_samples([rule(tried)], book=book, scanner=build_scanner(book))


def test_samples_are_seen_and_near_misses_are_not() -> None:
    assert _run(SYMPTOM, SYMPTOM, TIMEOUT) == SampleRun(2, ())


def test_a_sample_that_the_collectors_do_not_see_is_reported_in_its_place() -> None:
    [problem] = _run(SYMPTOM, TIMEOUT).problems
    assert str(problem) == (
        "gpu/bus_loss.yaml:17:15: samples 1 is not seen by the collectors (syslog)"
    )


def test_a_near_miss_that_the_collectors_see_is_reported_in_its_place() -> None:
    wider = SYMPTOM.replace(" has fallen off'", "'")
    [problem] = _run(SYMPTOM, wider).problems
    assert str(problem) == (
        "gpu/bus_loss.yaml:18:19: near_misses 1 is seen, and must not be (syslog)"
    )
