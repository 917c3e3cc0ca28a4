import importlib.util
from pathlib import Path

import pytest
import yaml

from engine.model.verdict import seal

SCRIPT = Path(__file__).parents[2] / "scripts" / "score.py"


@pytest.fixture(scope="module")
def score():
    spec = importlib.util.spec_from_file_location("score", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["score"] = module
    spec.loader.exec_module(module)
    return module


def verdict(domain="gpu", level="definitive", named=(), ranks=(), causes=()):
    def cause(each):
        return {
            "cause_id": each, "primary": False, "symptom": "s", "rule": "r", "domain": each,
            "title": "t", "explanation": "e", "entity": {"kind": "job", "id": "7"},
            "quality": "ambiguous", "evidence": (),
        }  # fmt: skip

    return seal(
        {
            "workload": {"scheduler": "slurm", "cluster": "c", "tenant": "t", "job_id": "7"},
            "terminal_state": "failed", "manifestation": "crash", "domain": domain,
            "failure_class": "x", "quality": {"level": level}, "summary": "s",
            "rules": {"version": "1", "extraction_digest": "e", "reasoning_digest": "r"},
            "affected_nodes": [{"node": name, "role": "suspect"} for name in named],
            "affected_ranks": [{"rank": rank, "role": "culprit"} for rank in ranks],
            "root_causes": [cause(each) for each in causes],
        }
    )  # fmt: skip


def scored(score, tmp_path, found, **expected):
    labels = {
        "terminal_state": "failed", "domain": "gpu", "quality": "definitive",
        "culprit_nodes": ["n1"],
        "culprit_ranks": [0], "culprit_gpus": [], "must_not_blame": {"domains": [], "nodes": []},
    }  # fmt: skip
    (tmp_path / "expected.yaml").write_text(yaml.safe_dump(labels | expected))
    return score.score_bundle(tmp_path, found)


def test_the_right_domain_and_the_right_node_are_right(score, tmp_path):
    assert scored(score, tmp_path, verdict(named=["n1"], ranks=[0])).right


def test_a_suspect_counts_as_named(score, tmp_path):
    result = scored(score, tmp_path, verdict(named=["n2"]))
    assert (result.falsely_accused, result.right) == (["node n2"], False)


def test_a_rank_that_is_not_labelled_is_falsely_accused(score, tmp_path):
    assert scored(score, tmp_path, verdict(ranks=[3])).falsely_accused == ["rank 3"]


def test_naming_nobody_is_no_false_accusation(score, tmp_path):
    result = scored(score, tmp_path, verdict())
    assert (result.right, result.missed_nodes) == (True, ["n1"])


def test_an_open_case_must_stay_open(score, tmp_path):
    closed = scored(score, tmp_path, verdict(), quality="insufficient")
    open_ = scored(score, tmp_path, verdict(level="insufficient"), quality="insufficient")
    assert (closed.right, open_.right) == (False, True)


def test_rivals_with_the_labelled_domain_answer_an_ambiguous_case(score, tmp_path):
    found = verdict(domain="unknown", level="ambiguous", causes=["gpu", "network"])
    assert scored(score, tmp_path, found, quality="ambiguous").right


def test_a_domain_that_must_not_be_blamed_is_an_accusation_even_beside_the_right_one(
    score, tmp_path
):
    found = verdict(domain="unknown", level="ambiguous", causes=["gpu", "network"])
    labels = {"quality": "ambiguous", "must_not_blame": {"domains": ["network"], "nodes": []}}
    assert scored(score, tmp_path, found, **labels).falsely_accused == ["domain network"]


def test_pci_addresses_are_compared_in_any_notation(score):
    assert score._bus("00000000:30:00.0") == score._bus("0000:30:00")
