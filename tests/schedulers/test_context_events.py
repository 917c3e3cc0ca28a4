"""Events that end no job: what is kept of them, and which of them an attempt is told of."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.schedulers.context import (
    FORMS,
    context_keys,
    hours_of,
    join_context,
    parse_context,
    subject_of,
)
from engine.model.event import BusEvent

EVENTS = Path(__file__).parents[2] / "events"
INSTANCE = "i-0123456789abcdef0"
SAMPLES = sorted(EVENTS.glob("context-*.json"))
END = datetime(2026, 1, 31, 12, 10, tzinfo=UTC)


def sample(name):
    return parse_context(BusEvent.model_validate_json((EVENTS / name).read_bytes()))


def join(*events, instances=None, start=None, end=END, cluster="default"):
    known = {"gpu-1": INSTANCE} if instances is None else instances
    joined = join_context(events, instances=known, cluster=cluster, start=start, end=end)
    return {node: [each.detail_type for each in found] for node, found in joined.items()}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_a_context_event_with_a_subject(path):
    event = sample(path.name)
    assert event.subjects
    assert all(subject_of(key) in event.subjects for key in context_keys(event))


def test_every_kind_that_is_read_has_a_sample():
    kinds = {(event.source, event.detail_type) for event in (sample(p.name) for p in SAMPLES)}
    assert set(FORMS) == kinds


def test_descriptions_arns_and_tags_are_not_kept():
    text = "".join(sample(path.name).model_dump_json() for path in SAMPLES)
    assert "not stored" not in text
    assert "arn:" not in text


def test_an_event_without_a_machine_is_none():
    assert sample("malformed/context-no-instance.json") is None


def test_a_reclaimed_machine_is_joined_to_its_node():
    assert join(sample("context-spot-interruption.json")) == {
        "gpu-1": ["EC2 Spot Instance Interruption Warning"]
    }


def test_another_machine_or_another_time_is_not_joined():
    event = sample("context-spot-interruption.json")
    assert join(event, instances={"gpu-1": "i-0ffffffffffffffff"}) == {}
    assert join(event, end=datetime(2026, 1, 31, 15, 0, tzinfo=UTC)) == {}
    assert join(event, end=datetime(2026, 1, 31, 11, 0, tzinfo=UTC)) == {}
    assert join(event, start=datetime(2026, 1, 31, 12, 5, tzinfo=UTC)) == {}


def test_an_expiring_block_is_joined_only_where_an_own_machine_went():
    block, state = sample("context-capacity-block.json"), sample("context-instance-state.json")
    assert join(block) == {}
    assert join(block, state)[""] == ["Capacity Block Reservation Expiration Warning"]
    stranger = {"gpu-1": "i-0ffffffffffffffff"}
    assert join(block, state, instances=stranger) == {}


def test_a_clusters_own_event_is_joined_by_the_clusters_name():
    event = sample("context-hyperpod-cluster-state.json")
    assert join(event, cluster="hp") == {"": ["SageMaker HyperPod Cluster State Change"]}
    assert join(event, cluster="other") == {}


def test_the_order_in_which_events_are_read_changes_nothing():
    events = [sample(path.name) for path in SAMPLES]
    assert join(*events, cluster="hp") == join(*reversed(events), cluster="hp")


def test_the_hours_that_are_looked_at_span_the_end():
    hours = hours_of(None, datetime(2026, 1, 31, 0, 55, tzinfo=UTC))
    assert [each.strftime("%d %H") for each in hours] == ["30 23", "31 00", "31 01"]


def test_a_line_for_the_rules_holds_the_time_and_the_event_as_it_is_sent():
    text = sample("context-spot-interruption.json").text()
    stamp, body = text.split(" ", 1)
    assert stamp == "2026-01-31T12:00:00Z"
    assert json.loads(body) == {
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "detail": {"instance-id": INSTANCE, "instance-action": "terminate"},
    }


@pytest.mark.parametrize("end", [datetime.min, datetime.max])
def test_an_end_at_the_edge_of_the_calendar_has_its_hours(end: datetime) -> None:
    assert 2 <= len(hours_of(None, end.replace(tzinfo=UTC))) <= 4
