"""Every way through the state machine is taken, with the real handlers, to each of its ends."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from functions.adapters.notifier import Notifier
from functions.adapters.object_store import ObjectStore, StoreBusyError
from functions.attribute.judging import Judging

ROOT = Path(__file__).parents[2]
MACHINE = json.loads((ROOT / "infra/statemachine/attribution.asl.json").read_text())
Ways = set[tuple[str, str]]
taken: Ways = set()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries happen, their waiting does not."""
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))


def ways_of(machine: dict[str, Any]) -> Ways:
    """Return every step from a state to another that the definition has."""
    found = set()
    for name, state in machine["States"].items():
        ends = [state[key] for key in ("Next", "Default") if key in state]
        ends += [each["Next"] for each in (*state.get("Choices", ()), *state.get("Catch", ()))]
        found |= {(name, end) for end in ends}
    return found


def last_run(embedded: Any) -> list[str]:
    """Return the states that the newest execution of this test's attempt entered, in order."""
    client = embedded.stack.client("stepfunctions")
    listed = client.list_executions(stateMachineArn=embedded.stack.resources.machine_arn)
    own = [
        each
        for each in listed["executions"]
        if json.loads(client.describe_execution(executionArn=each["executionArn"])["input"])[
            "attempt_key"
        ]
        == embedded.key
    ]
    newest = max(own, key=lambda each: int(each["name"].rsplit("-", 1)[1]))
    events = client.get_execution_history(executionArn=newest["executionArn"], maxResults=1000)
    states = [
        event["stateEnteredEventDetails"]["name"]
        for event in events["events"]
        if "stateEnteredEventDetails" in event
    ]
    own_states = [name for name in states if name in MACHINE["States"]]
    taken.update(pairwise(own_states))
    return own_states


def send(embedded: Any, bundle: str | None = "043-node-failure-only", **workload: Any) -> None:
    detail = {} if bundle is None else {"bundle_uri": embedded.bundle(bundle)}
    embedded.send({**embedded.workload(), **workload}, **detail)


def refuse(_self: Any, *_: Any, **__: Any) -> Any:
    raise StoreBusyError("injected")


def test_evidence_a_verdict_a_message(embedded: Any) -> None:
    send(embedded)
    states = last_run(embedded)
    assert states[:6] == [
        "Plan", "AnythingToCollect", "Collect", "Attribute", "AnythingToPublish", "Publish",
    ]  # fmt: skip
    assert states[-1] == "Done"


def test_what_would_change_the_verdict_is_collected_once_and_not_told_again(embedded: Any) -> None:
    send(embedded, state="FAILED", exit_code="1:0")
    states = last_run(embedded)
    at = states.index("WaitForEvidence")
    assert states[at - 1 : at + 3] == [
        "WouldMoreChangeIt", "WaitForEvidence", "NextCollection", "Plan",
    ]  # fmt: skip
    assert states[at + 3 :][-3:] == ["AnythingToPublish", "WouldMoreChangeIt", "Done"]


def test_planning_that_fails_leads_to_a_verdict(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectStore.put_once

    def put(self: ObjectStore, key: str, body: bytes, **more: Any) -> Any:
        if "/plans/" in key:
            raise StoreBusyError("injected")
        return real(self, key, body, **more)

    monkeypatch.setattr(ObjectStore, "put_once", put)
    send(embedded)
    assert last_run(embedded)[:2] == ["Plan", "Attribute"]
    assert embedded.executions() == ["SUCCEEDED"]


def test_a_map_that_fails_leads_to_a_verdict(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectStore.put_once

    def put(self: ObjectStore, key: str, body: bytes, **more: Any) -> Any:
        return real(self, key, b"no array" if key.endswith("items.json") else body, **more)

    monkeypatch.setattr(ObjectStore, "put_once", put)
    send(embedded)
    states = last_run(embedded)
    assert states[2:4] == ["Collect", "Attribute"]
    assert embedded.executions() == ["SUCCEEDED"]
    verdict = json.loads(embedded.verdict(embedded.key))
    assert "collection as a whole failed" in json.dumps(verdict["connector_reports"])


def test_one_child_that_fails_changes_coverage_and_not_the_outcome(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectStore.put_once

    def put(self: ObjectStore, key: str, body: bytes, **more: Any) -> Any:
        if "/collected/" in key and b"applog" in body:
            raise MemoryError("killed")
        return real(self, key, body, **more)

    send(embedded)
    whole = json.loads(embedded.verdict(embedded.key))
    monkeypatch.setattr(ObjectStore, "put_once", put)
    send(embedded, exit_code="1:0")
    assert embedded.executions() == ["SUCCEEDED", "SUCCEEDED"]
    broken = json.loads(embedded.verdict(embedded.key))
    assert broken["coverage"] != whole["coverage"]
    assert "no report" in json.dumps(broken["connector_reports"])
    assert broken["terminal_state"] == whole["terminal_state"]


def test_a_verdict_that_cannot_be_stored_ends_as_attribute_failed(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Judging, "judge", refuse)
    send(embedded)
    assert last_run(embedded)[-2:] == ["Attribute", "AttributeFailed"]
    assert embedded.executions() == ["FAILED"]


def test_a_message_that_cannot_be_sent_ends_as_publish_failed_with_the_verdict_stored(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Notifier, "announce", refuse)
    send(embedded)
    assert last_run(embedded)[-2:] == ["Publish", "PublishFailed"]
    assert embedded.current(embedded.key)["terminal_state"] == "node_fail"


def test_a_plan_without_items_is_attributed_at_once(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functions.scope import handler

    real = handler.asdict
    monkeypatch.setattr(
        handler, "asdict",
        lambda value: {**real(value), "item_count": 0} if hasattr(value, "item_count")
        else real(value),
    )  # fmt: skip
    send(embedded, bundle=None)
    assert last_run(embedded)[:3] == ["Plan", "AnythingToCollect", "Attribute"]


def test_together_they_took_every_way_that_the_machine_has() -> None:
    """Runs last: a way that is added must get a test here."""
    assert ways_of(MACHINE) - taken == set()
    assert {name for way in taken for name in way} == set(MACHINE["States"])
