"""Flight-recorder dumps: who did not come, who stands behind, and when nobody is singled out."""

from pathlib import Path

import pytest

from engine.model.observation import Observation
from engine.pipeline import attribute
from rootrank.commands.attribute import open_book
from rootrank.local_case import read_case
from tests.engine.cases import book, case, meaning, seen

ROOT = Path(__file__).parents[2]
DUMPS = ROOT.parent / "shared" / "flight-recorder"
NAMES = ("fr_rank", "fr_blocked")
BOOK = book(
    *[
        meaning(name, "unknown", "confirm", 6, entity="rank", proof="inferred",
                alone="insufficient", manifestation="hang", tags=("collective_failure",))
        for name in NAMES
    ]
)  # fmt: skip


def counters(rank: int) -> Observation:
    return seen("fr_rank", None, source="flight_recorder", node="node-001", rank=rank,
                uri=f"dump_{rank}", fields={"pg": "0", "members": "0-3"})  # fmt: skip


def blocked(rank: int, seq: int, op: str = "nccl:all_reduce") -> Observation:
    return seen("fr_blocked", 50, source="flight_recorder", node="node-001", rank=rank,
                uri=f"dump_{rank}", line=2,
                fields={"pg": "0", "members": "0-3", "seq": str(seq), "op": op})  # fmt: skip


def suspects(*observations: Observation) -> list[int]:
    verdict = attribute(case(*observations), BOOK)
    assert verdict.domain == "unknown"
    return [item.rank for item in verdict.affected_ranks if item.role == "suspect"]


def test_a_member_that_holds_nothing_while_the_others_wait_did_not_come():
    dumps = [counters(rank) for rank in range(4)]
    assert suspects(*dumps, *[blocked(rank, 9) for rank in (0, 1, 3)]) == [2]


def test_a_rank_without_any_dump_is_the_absent_one():
    waiting = [rank for rank in range(4) if rank != 1]
    assert suspects(*map(counters, waiting), *[blocked(rank, 9) for rank in waiting]) == [1]


def test_the_lowest_first_open_number_stands_behind():
    assert suspects(*[blocked(rank, 9) for rank in (0, 1, 2)], blocked(3, 7)) == [3]


def test_equal_numbers_everywhere_single_out_nobody():
    assert suspects(*[blocked(rank, 9) for rank in range(4)]) == []


def test_point_to_point_operations_single_out_nobody():
    assert suspects(*[counters(r) for r in range(4)], blocked(0, 9, "nccl:send 0->1")) == []


@pytest.mark.skipif(not DUMPS.is_dir(), reason="the shared dumps are not here")
@pytest.mark.parametrize(
    ("bundle", "expected"), [("gpu_error_1st", [12, 14]), ("lock_gil_1st", [9, 14])]
)
def test_public_dumps_with_injected_faults(bundle, expected):
    rules = open_book(ROOT / "rules")
    verdict = attribute(read_case(DUMPS / bundle, book=rules).case, rules)
    assert [r.rank for r in verdict.affected_ranks if r.role == "suspect"] == expected
