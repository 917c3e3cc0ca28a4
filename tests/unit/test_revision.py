"""What the table and the topic get of a verdict: light, bounded, without log lines."""

from typing import Any

import pytest

from engine.model.canonical import canonical_json
from engine.model.envelope import Envelope
from engine.model.verdict import Verdict, seal
from functions.attribute.revision import (
    ITEM_BYTES,
    MESSAGE_BYTES,
    automation,
    changed_fields,
    index_keys,
    indexed_nodes,
    message,
    message_attributes,
    revision_status,
    seen_order,
    table_item,
    written_order,
)


def verdict(**more: Any) -> Verdict:
    fields: dict[str, Any] = {
        "workload": {
            "scheduler": "slurm",
            "cluster": "research",
            "tenant": "team",
            "job_id": "7",
            "end": "2026-01-31T12:00:00Z",
        },
        "terminal_state": "failed",
        "manifestation": "crash",
        "domain": "gpu",
        "failure_class": "gpu_fallen_off_bus",
        "quality": {"level": "definitive"},
        "summary": "A GPU fell off the bus.",
        "rules": {"version": "1", "extraction_digest": "e", "reasoning_digest": "r"},
    }
    return seal({**fields, **more})


def envelope(of: Verdict) -> Envelope:
    return Envelope(
        attempt_key="team/research/slurm/7/r0",
        revision=1,
        status="final",
        published_at="2026-02-01T00:00:00Z",
        manifest_digest="sha256:0",
        verdict=of,
    )


def test_automation_is_supported_when_any_action_says_so() -> None:
    acting = verdict(
        actions=[
            {"action": "retry", "reason": "r"},
            {"action": "drain_node", "reason": "r", "evidence_supports_automation": True},
        ]
    )
    assert message_attributes(envelope(acting))["automation_supported"] == "true"
    assert message_attributes(envelope(verdict()))["automation_supported"] == "false"


def drained(*nodes: str) -> Verdict:
    return verdict(
        actions=[
            {"action": "drain_node", "target": node, "reason": "r",
             "evidence_supports_automation": True}
            for node in nodes
        ]
    )  # fmt: skip


def test_a_correction_announces_for_automation_only_what_is_new() -> None:
    first = automation(drained("node-1"), None)
    assert first["automation_new"] == ["drain_node node-1"]
    again = automation(drained("node-1"), first)
    assert again["automation_new"] == []
    corrected = envelope(drained("node-1")).model_copy(update={"status": "correction"})
    attributes = message_attributes(corrected, again["automation_new"])
    assert attributes["automation_supported"] == "false"
    final = message_attributes(envelope(drained("node-1")), again["automation_new"])
    assert final["automation_supported"] == "true"
    more = automation(drained("node-1", "node-2"), again)
    assert more["automation_new"] == ["drain_node node-2"]
    back = automation(drained("node-1"), automation(verdict(), more))
    assert back["automation_new"] == []


def test_what_an_older_release_announced_is_known_from_its_actions() -> None:
    item = table_item(envelope(drained("node-1")), verdict_key="v", envelope_key="e")
    assert automation(drained("node-1"), item)["automation_new"] == []
    assert automation(drained("node-2"), item)["automation_new"] == ["drain_node node-2"]


def test_an_action_has_one_deduplication_id_in_every_message() -> None:
    told = [
        message(
            envelope(drained("node-1")).model_copy(update={"revision": revision}),
            verdict_uri="s3://b/v",
            automated=["drain_node node-1"],
        )["automation"]
        for revision in (1, 2)
    ]
    assert told[0] == told[1]
    assert told[0][0]["key"] == "drain_node node-1"
    assert message(envelope(verdict()), verdict_uri="s3://b/v")["automation"] == []


def test_what_a_newer_pass_confirmed_is_newer_than_what_wrote_it() -> None:
    item = {"generation": 1, "collection": 1}
    assert seen_order(item) == written_order(item) == (1, 1)
    confirmed = {**item, "seen_generation": 2, "seen_collection": 1}
    assert (written_order(confirmed), seen_order(confirmed)) == ((1, 1), (2, 1))


def test_an_incident_is_an_attribute_only_where_there_is_one() -> None:
    assert "incident_id" not in message_attributes(envelope(verdict()))
    shared = verdict(history={"incident_id": "inc-1"})
    assert message_attributes(envelope(shared))["incident_id"] == "inc-1"


def test_changed_names_the_fields_that_differ() -> None:
    other = verdict(domain="host", summary="The node went away.")
    assert changed_fields(verdict(), other) == ("domain", "summary")
    assert changed_fields(None, other) == ()


@pytest.mark.parametrize(
    ("is_first", "was_final", "more", "status"),
    [
        (True, False, True, "provisional"),
        (True, False, False, "final"),
        (False, False, False, "final"),
        (False, False, True, "provisional"),
        (False, True, False, "correction"),
        (False, True, True, "correction"),
    ],
)
def test_a_final_verdict_is_corrected_and_never_quietly_replaced(
    is_first: bool, was_final: bool, more: bool, status: str
) -> None:
    found = revision_status(is_first=is_first, was_final=was_final, more_to_come=more)
    assert found == status


def test_an_item_and_a_message_stay_below_their_ceilings() -> None:
    actions = [
        {"action": "drain_node", "target": f"node-{number:05d}", "reason": "r" * 100}
        for number in range(2_000)
    ]
    big = envelope(verdict(actions=actions))
    item = table_item(big, verdict_key="v", envelope_key="e")
    assert len(canonical_json(item)) <= ITEM_BYTES
    assert (item["actions"], item["actions_omitted"]) == ([], 2_000)
    assert len(canonical_json(message(big, verdict_uri="s3://b/v"))) <= MESSAGE_BYTES


def test_nodes_to_act_on_are_indexed_before_victims() -> None:
    victims = [{"node": f"a-{number:03d}", "role": "victim"} for number in range(100)]
    many = verdict(affected_nodes=[*victims, {"node": "z-001", "role": "culprit"}])
    found = indexed_nodes(many)
    assert next(iter(found)) == "z-001"
    assert len(found) == 64


def test_index_keys_speak_of_cluster_day_class_and_end() -> None:
    assert index_keys(envelope(verdict())) == {
        "job_key": "7",
        "day_key": "team/research#2026-01-31",
        "class_key": "gpu_fallen_off_bus",
        "ended_key": "2026-01-31T12:00:00Z#team/research/slurm/7/r0",
    }
