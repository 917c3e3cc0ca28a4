"""Events through the real machine on the embedded AWS: what comes out, once and in order."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.model.canonical import canonical_json
from engine.pipeline import attribute
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import Span
from functions.adapters.rulebook import shipped_rulebook
from functions.scope.past import Past
from rootrank.local_case import read_case

CORPUS = Path(__file__).parents[1] / "corpus"
BUNDLES = sorted(path.name for path in CORPUS.iterdir() if (path / "workload.yaml").exists())


def test_run_and_attribute_give_the_same_bytes(embedded: Any) -> None:
    book = shipped_rulebook()
    expected = {}
    for name in BUNDLES:
        local = read_case(CORPUS / name, book=book)
        verdict = attribute(local.case, book)
        expected[name] = canonical_json(verdict.model_dump(mode="json"))
        workload = {
            "scheduler": local.case.workload.scheduler,
            "job_id": local.case.workload.job_id,
        }
        if local.case.workload.start is not None:
            workload["start"] = local.case.workload.start.isoformat()
        embedded.put(workload, bundle_uri=embedded.bundle(name))
    embedded.stack.settle(240)
    for name in BUNDLES:
        job_id = json.loads(expected[name])["workload"]["job_id"]
        item = next(each for each in embedded.query.by_job(job_id) if each["sk"] == "CURRENT")
        assert embedded.verdict(item["attempt_key"]) == expected[name], name


def test_the_same_event_twice_is_one_attempt_one_verdict_one_message(embedded: Any) -> None:
    uri = embedded.bundle("043-node-failure-only")
    embedded.put(embedded.workload(), bundle_uri=uri)
    embedded.put(embedded.workload(), bundle_uri=uri)
    embedded.stack.settle(60)
    embedded.send(embedded.workload(), bundle_uri=uri)
    assert embedded.executions() == ["SUCCEEDED"]
    assert embedded.current(embedded.key)["revision"] == 1
    assert [each["body"]["revision"] for each in embedded.messages()] == [1]


@pytest.mark.parametrize("order", [("FAILED", "NODE_FAIL"), ("NODE_FAIL", "FAILED")], ids="-".join)
def test_a_contradicting_state_gives_a_revision_and_never_a_second_verdict(
    embedded: Any, order: tuple[str, str]
) -> None:
    uri = embedded.bundle("043-node-failure-only")
    for state in order:
        embedded.send(embedded.workload(state), bundle_uri=uri)
    items = embedded.query.by_attempt(embedded.key)
    current = [item for item in items if item["sk"] == "CURRENT"]
    assert len(current) == 1
    assert current[0]["revision"] == 2
    assert current[0]["supersedes"] == 1
    assert current[0]["terminal_state"] == "node_fail"
    assert sum(item["sk"].startswith("REV#") for item in items) == 2
    revisions = [each["body"]["revision"] for each in embedded.messages()]
    assert revisions == [1, 2]


def test_a_successful_job_leaves_a_light_record_and_no_workflow(embedded: Any) -> None:
    embedded.send(embedded.workload("COMPLETED"))
    assert embedded.executions() == []
    (claim,) = embedded.query.by_attempt(embedded.key)
    assert claim["sk"] == "CLAIM"
    assert claim["is_light"] is True
    assert list(embedded.query.by_job(embedded.job_id)) == [claim]


def test_a_failure_after_a_success_is_attributed(embedded: Any) -> None:
    embedded.send(embedded.workload("COMPLETED"))
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    assert embedded.current(embedded.key)["terminal_state"] == "node_fail"


def test_an_event_without_evidence_still_gets_a_verdict(embedded: Any) -> None:
    embedded.send(embedded.workload())
    current = embedded.current(embedded.key)
    assert current["terminal_state"] == "node_fail"
    assert current["culprits"] == []


def test_an_unknown_event_ends_in_the_dead_letter_queue(embedded: Any) -> None:
    embedded.put({"scheduler": "slurm", "state": "FAILED"})
    embedded.put(embedded.workload())
    embedded.stack.settle(60)
    (letter,) = embedded.stack.dead_letters()
    assert letter["body"]["detail"]["workload"] == {"scheduler": "slurm", "state": "FAILED"}
    refusals = {each.error for each in embedded.stack.invocations}
    assert refusals == {None}
    assert embedded.current(embedded.key)["revision"] == 1


def test_secrets_of_an_event_are_stored_nowhere(embedded: Any, root: Path) -> None:
    for name in ("batch-failed.json", "sagemaker-failed.json"):
        embedded.stack.put_event(json.loads((root / "events" / name).read_text()))
    embedded.stack.settle(60)
    kept = [embedded.store.get(key)[0] for key, _ in embedded.store.list_objects("")]
    assert kept
    assert all(b"not-to-be-stored" not in body for body in kept)


def test_messages_carry_string_attributes_and_no_log_lines(embedded: Any) -> None:
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    (message,) = embedded.messages()
    # Other tests' jobs may share the node, and so an incident.
    assert sorted(message["attributes"].keys() - {"incident_id"}) == [
        "automation_supported", "cluster", "domain", "failure_class", "quality", "scheduler",
        "status", "tenant", "terminal_state",
    ]  # fmt: skip
    assert message["attributes"]["terminal_state"] == "node_fail"
    verdict = json.loads(embedded.verdict(embedded.key))
    excerpts = [each["text"] for each in verdict["evidence"] if len(each["text"]) > 20]
    assert excerpts
    assert not [text for text in excerpts if text in json.dumps(message["body"])]


def test_what_would_change_a_verdict_starts_a_second_collection(embedded: Any) -> None:
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    assert json.loads(embedded.verdict(embedded.key))["quality"]["would_change"]
    plans = [key for key, _ in embedded.store.list_objects(f"{embedded.key}/plans/")]
    assert [key.rsplit("/", 2)[1:] for key in plans] == [
        ["g0001-c1", "items.json"],
        ["g0001-c1", "plan.json"],
        ["g0001-c2", "items.json"],
        ["g0001-c2", "plan.json"],
    ]
    assert embedded.current(embedded.key)["status"] == "final"
    assert embedded.current(embedded.key)["revision"] == 1


def test_results_are_found_by_node_day_class_and_job(embedded: Any) -> None:
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    query, current = embedded.query, embedded.current(embedded.key)
    cluster, day = "default/default", "2023-03-06"
    assert (cluster, day) in query.days()
    assert embedded.key in [i["attempt_key"] for i in query.by_day(cluster, day)]
    assert embedded.key in [i["attempt_key"] for i in query.by_class(current["failure_class"])]
    roles = {i["attempt_key"]: i["role"] for i in query.by_node(cluster, "node-037")}
    assert roles[embedded.key] == "culprit"
    assert "CURRENT" in [i["sk"] for i in query.by_job(embedded.job_id)]
    assert list(query.by_class(current["failure_class"], Span(since="2023-03-07"))) == []


def test_the_order_of_map_items_changes_no_byte(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = embedded.bundle("043-node-failure-only")
    real = ObjectStore.put_once
    reversed_plans = []

    def put_reversed(self: ObjectStore, key: str, body: bytes, **more: Any) -> Any:
        if key.endswith("items.json"):
            items = json.loads(body)
            reversed_plans.append(len(items))
            body = json.dumps(items[::-1]).encode()
        return real(self, key, body, **more)

    monkeypatch.setattr(ObjectStore, "put_once", put_reversed)
    monkeypatch.setattr(Past, "of", lambda _past, _key, _workload: ())
    other = {**embedded.workload(), "attempt": 1}
    embedded.send(other, bundle_uri=uri)
    monkeypatch.setattr(ObjectStore, "put_once", real)
    embedded.send(embedded.workload(), bundle_uri=uri)
    first = embedded.verdict(embedded.key)
    again = json.loads(embedded.verdict(f"default/default/slurm/{embedded.job_id}/r1"))
    assert max(reversed_plans) >= 3
    again["workload"]["attempt"] = None
    assert {**json.loads(first), "attribution_id": ""} == {**again, "attribution_id": ""}
