import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def accuracy():
    spec = importlib.util.spec_from_file_location("accuracy", ROOT / "scripts" / "accuracy.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy"] = module
    spec.loader.exec_module(module)
    return module


def scored(accuracy, got, want, right=True, **fields):
    return accuracy.judge(accuracy.Score("b", got=got, want=want, right=right, **fields))


def test_the_labelled_domain_with_a_cause_is_right(accuracy):
    got, want = "failed/storage/definitive/enospc", "failed/storage/definitive"
    assert scored(accuracy, got, want) == "right"


def test_an_open_verdict_on_an_open_case_is_right(accuracy):
    got, want = "failed/unknown/insufficient/x", "failed/unknown/ambiguous"
    assert scored(accuracy, got, want) == "right"


def test_an_open_verdict_on_a_closed_case_is_hedged(accuracy):
    got, want = "failed/unknown/insufficient/x", "failed/storage/definitive"
    assert scored(accuracy, got, want, right=False) == "hedged"


def test_an_accepted_but_open_verdict_on_a_closed_case_is_hedged(accuracy):
    got, want = "failed/application/ambiguous/x", "failed/application/definitive"
    assert scored(accuracy, got, want) == "hedged"


def test_another_domain_is_wrong(accuracy):
    got, want = "failed/network/probable/x", "failed/storage/definitive"
    assert scored(accuracy, got, want, right=False) == "wrong"


def test_a_stated_cause_for_an_open_case_is_wrong(accuracy):
    got, want = "failed/host/probable/x", "failed/unknown/insufficient"
    assert scored(accuracy, got, want, right=False) == "wrong"


def test_a_false_accusation_outweighs_a_right_domain(accuracy):
    got, want = "failed/gpu/definitive/x", "failed/gpu/definitive"
    assert scored(accuracy, got, want, falsely_accused=["node n1"]) == "falsely accused"


def test_a_bundle_that_cannot_be_read_is_wrong(accuracy):
    assert scored(accuracy, "", "", right=False, error="BundleError: x") == "wrong"


def test_the_page_lists_every_set_and_every_bundle_that_is_not_right(accuracy):
    outcomes = [
        accuracy.Outcome("tests/corpus", "b1", "gpu", "right", "a", "b"),
        accuracy.Outcome("tests/lab/captures", "k-1", "k", "wrong", "got/x", "want/y"),
    ]
    page = accuracy.page(outcomes)
    assert "| tests/corpus | 1 | 1 |  |  |  |" in page
    assert "- `k-1`: wrong; got got/x, want want/y" in page
