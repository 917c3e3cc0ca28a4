"""What an attribution costs, from meters, and what a budget buys."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.model.plan import Plan, Report
from engine.model.workload import EvidenceSource
from functions.adapters.metering import Meter
from functions.attribute import costing
from functions.attribute.costing import Spent
from functions.scope.affordable import afford, limited, unafforded_reports
from tests.unit.test_planning import DIGESTS


def machine() -> dict[str, Any]:
    place = Path(__file__).parents[2] / "infra/statemachine/attribution.asl.json"
    found: dict[str, Any] = json.loads(place.read_text())
    return found


def longest(states: dict[str, Any], name: str, ends: frozenset[str]) -> int:
    """Return how many states the longest way from a state to one of `ends` enters."""
    state = states[name]
    following = {state.get("Next"), state.get("Default")} - {None}
    following |= {choice["Next"] for choice in state.get("Choices", ())}
    ways = [longest(states, each, ends) for each in sorted(following) if each not in ends]
    return 1 + max(ways, default=0)


def test_the_states_that_are_paid_for_are_those_of_the_machine() -> None:
    states = machine()["States"]
    once_more = longest(states, "Plan", frozenset({"Plan"}))
    assert once_more == costing.STATES_A_COLLECTION + 1  # the first of two, wait included
    child = states["Collect"]["ItemProcessor"]
    way = ["WhoCollects", "CollectItem"]
    assert child["StartAt"] == way[0]
    assert len(way) == costing.STATES_AN_ITEM


def test_an_attribution_costs_time_calls_and_states() -> None:
    spent = Spent(
        collected=[Meter(1000, 1024, {"s3.GetObject": 10})] * 2,
        planned=[Meter(500, 1024, {"dynamodb.GetItem": 1})],
        attributed=Meter(0, 1024, {}),
        reports=[Report(item_id="i", connector="static", shard="a", status="ok", bytes=7,
                        extraction_digest="x")],
    )  # fmt: skip
    outside = 2 * Decimal(100 * 512) / 1_024_000
    assert spent.gb_seconds() == Decimal("2.5") + outside
    assert spent.transitions() == 1 + 8 + 2 * 3
    told = spent.envelope()
    assert told.bytes_scanned == 7
    assert told.priced_on == "2025-07-21"
    assert Decimal("0.0003") < Decimal(told.usd_estimate) < Decimal("0.0006")
    assert spent.timings_ms() == {
        "attribute": 0, "collect_longest": 1000, "collect_total": 2000, "plan": 500,
    }  # fmt: skip


def test_requests_of_a_sites_own_sources_count_once() -> None:
    reports = [
        Report(item_id="i", connector=name, shard="a", status="ok", requests=5,
               extraction_digest="x")
        for name in ("loki", "static")
    ]  # fmt: skip
    with_them = Spent([], [], Meter(), reports).requests()
    assert with_them - Spent([], [], Meter()).requests() == 5


def test_a_meter_survives_as_metadata_and_rubbish_is_none() -> None:
    meter = Meter(12, 512, {"s3.PutObject": 3})
    assert Meter.read(meter.metadata()) == meter
    assert Meter.read({}) is None
    assert Meter.read({"meter": "[]"}) is None
    assert Meter.read({"meter": '{"ms": "x", "mb": 1, "calls": {}}'}) is None


def evidence(path: str, source: str) -> EvidenceSource:
    return EvidenceSource.model_validate({"path": path, "source": source})


def test_a_small_budget_reads_what_is_cheap_and_telling_and_says_what_it_left_out() -> None:
    entries = [evidence("rank-0.log", "applog"), evidence("rank-1.log", "applog"),
               evidence("dmesg", "syslog"), evidence("sacct.txt", "scheduler")]  # fmt: skip
    sizes = {"rank-0.log": 4 * 1024**3, "rank-1.log": 10**6, "dmesg": 10**6, "sacct.txt": 10**3}
    bought = afford(entries, sizes, Decimal("0.005"))
    assert [each.path for each in bought.evidence] == ["rank-1.log", "dmesg", "sacct.txt"]
    assert bought.notes == (
        "unafforded applog: 1 files of 4294967296 bytes were not read: the budget is $0.005",
    )
    assert bought.bytes_left is not None
    assert afford(entries, sizes, None).evidence == tuple(entries)


def test_what_could_not_be_paid_for_is_partial_coverage_of_its_source() -> None:
    notes = ("unafforded applog: 1 files of 9 bytes were not read: the budget is $0.01", "other")
    plan = Plan.model_validate(
        {
            "attempt_key": "a/b/c/d/r0", "generation": 1, "notes": notes,
            "workload": {"scheduler": "slurm", "job_id": "d"}, "rules_version": "1",
            "extraction_digest": DIGESTS.extraction, "reasoning_digest": DIGESTS.reasoning,
        }
    )  # fmt: skip
    (report,) = unafforded_reports(plan)
    assert (report.source, report.status) == ("applog", "partial")
    assert report.reason == "1 files of 9 bytes were not read: the budget is $0.01"
    assert limited(plan.items, 5) == []
