"""What several events of one attempt say together, in any order."""

from itertools import permutations
from typing import Any

import pytest

from connectors.schedulers.scoped import ScopedEvent
from engine.model.identity import attempt_key
from engine.model.workload import Workload
from functions.scope.admission import complete, event_digest, is_success, merge


def event(state: str, exit_code: str = "1:0", **more: Any) -> ScopedEvent:
    detail = {key: more.pop(key) for key in ("bundle_uri", "evidence", "signal") if key in more}
    if "signal" in detail:
        detail["detection_signal"] = detail.pop("signal")
    workload = {"scheduler": "slurm", "job_id": "7", "state": state, "exit_code": exit_code}
    return ScopedEvent.model_validate(
        {"origin": "test", "workload": {**workload, **more}, **detail}
    )


def test_the_most_telling_state_leads_and_the_others_are_kept() -> None:
    scope = merge([event("FAILED"), event("NODE_FAIL", "0:0")])
    assert scope.workload.state == "NODE_FAIL"
    assert scope.other_states == (("FAILED", "1:0"),)


@pytest.mark.parametrize(
    ("telling", "vague"),
    [
        ("OUT_OF_MEMORY", "FAILED"),
        ("TIMEOUT", "CANCELLED by 0"),
        ("PREEMPTED", "CANCELLED"),
        ("FAILED", "COMPLETED"),
        ("FAILED", "RUNNING"),
        ("COMPLETED", "RUNNING"),
        ("SOME_NEW_STATE", "COMPLETED"),
    ],
)
def test_a_telling_state_leads_over_a_vague_one(telling: str, vague: str) -> None:
    assert merge([event(vague), event(telling)]).workload.state == telling


def test_the_order_of_events_changes_nothing() -> None:
    events = [
        event("FAILED", nodes=["a"]),
        event("NODE_FAIL", "0:0", end="2026-01-01T00:00:00Z"),
        event("CANCELLED", bundle_uri="s3://b/bundles/x/"),
        event("FAILED", "1:0", user="me"),
    ]
    merged = {merge(order).model_dump_json() for order in permutations(events)}
    assert len(merged) == 1


def test_what_the_leader_leaves_out_is_taken_from_the_others() -> None:
    scope = merge([event("NODE_FAIL"), event("FAILED", nodes=["a", "b"], user="me")])
    assert scope.workload.nodes == ("a", "b")
    assert scope.workload.user == "me"


def test_the_same_event_said_twice_changes_nothing() -> None:
    one = event("FAILED")
    assert merge([one, one]) == merge([one])
    assert event_digest(one) == event_digest(event("FAILED"))
    assert event_digest(one) != event_digest(event("FAILED", "2:0"))


def test_a_state_is_evidence_and_no_identity() -> None:
    assert attempt_key(event("FAILED").workload) == attempt_key(event("NODE_FAIL").workload)


def test_success_is_what_nobody_contradicts() -> None:
    assert is_success(merge([event("COMPLETED", "0:0")]))
    assert is_success(merge([event("SUCCEEDED", "0")]))
    assert not is_success(merge([event("COMPLETED", "1:0")]))
    assert not is_success(merge([event("COMPLETED", "0:0"), event("FAILED")]))
    assert not is_success(merge([event("RUNNING", "0:0", signal="hang")]))


def test_a_signal_counts_only_while_the_job_runs() -> None:
    running = event("RUNNING", "0:0", signal="hang")
    assert merge([running]).detection_signal == "hang"
    assert merge([running, event("FAILED")]).detection_signal is None


def test_the_bundle_fills_in_what_the_event_does_not_say() -> None:
    bundled = Workload(scheduler="slurm", job_id="7", state="FAILED", nodes=("n1",), world_size=4)
    found = complete(merge([event("NODE_FAIL")]), bundled)
    assert (found.state, found.nodes, found.world_size) == ("NODE_FAIL", ("n1",), 4)
