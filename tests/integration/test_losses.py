"""What breaks on the way costs evidence, never the verdict, and the verdict says so."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from backports import zstd
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from connectors.protocol import Collected
from connectors.static import StaticConnector
from engine.model.canonical import digest_bytes
from engine.rulebook.book import Rulebook
from functions.adapters import rulebook
from functions.adapters.keys import collected_prefix
from functions.adapters.object_store import ObjectStore
from functions.collect import receipt as receipts

Failing = Callable[..., None]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries happen, their waiting does not."""
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))


def send(embedded: Any) -> dict[str, Any]:
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    assert embedded.executions() == ["SUCCEEDED"]
    document: dict[str, Any] = json.loads(embedded.verdict(embedded.key))
    return document


def told(verdict: dict[str, Any]) -> str:
    return json.dumps(
        [verdict["connector_reports"], verdict["coverage"], verdict["quality"], verdict["summary"]]
    )


def test_a_connector_that_raises_leaves_a_verdict_that_says_so(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(_self: Any, item: Any, _workload: Any, _collected: Collected) -> Any:
        if item.source == "applog":
            raise ZeroDivisionError("broken connector")
        return iter(())

    monkeypatch.setattr(StaticConnector, "open_streams", explode)
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert "broken connector" in told(verdict), verdict["connector_reports"]


def test_a_file_that_cannot_be_read_leaves_a_verdict_that_says_so(
    embedded: Any, failing: Failing
) -> None:
    failing("GetObject", lambda key: key.endswith("main_log.txt"))
    verdict = send(embedded)
    assert verdict["domain"] == "host"
    assert "main_log.txt" in told(verdict)


def test_observations_that_cannot_be_stored_leave_a_verdict_that_says_so(
    embedded: Any, failing: Failing
) -> None:
    failing("PutObject", lambda key: key.endswith(".jsonl.zst"))
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert "could not be stored" in told(verdict)


def test_a_shard_that_cannot_be_fetched_leaves_a_verdict_that_says_so(
    embedded: Any, failing: Failing
) -> None:
    failing("GetObject", lambda key: key.endswith(".jsonl.zst"))
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert verdict["quality"]["level"] != "definitive"
    assert "evidence_lost" in told(verdict) or "lost" in told(verdict)


def test_storage_that_never_answers_is_given_up_on_and_told(
    embedded: Any, failing: Failing
) -> None:
    failing("GetObject", lambda key: key.endswith(".jsonl.zst"), "SlowDown")
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"


def test_storage_that_answers_at_the_second_try_costs_nothing(
    embedded: Any, failing: Failing
) -> None:
    calm = send(embedded)
    seen: set[str] = set()

    def first_time(key: str) -> bool:
        is_new = "g0002" in key and key.endswith(".jsonl.zst") and key not in seen
        seen.add(key)
        return is_new

    failing("GetObject", first_time, "SlowDown")
    embedded.send(embedded.workload(exit_code="1:0"))
    assert seen
    assert embedded.executions() == ["SUCCEEDED", "SUCCEEDED"]
    again = json.loads(embedded.verdict(embedded.key))
    assert again["evidence"] == calm["evidence"]


def test_a_poisoned_observation_costs_itself_only(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = receipts.encode

    def poisoned(items: Any) -> bytes:
        return b'{"kind":"match","symptom":7}\n' + real(items) + b"\xff\xfe not json\n"

    monkeypatch.setattr(receipts, "encode", poisoned)
    verdict = send(embedded)
    assert verdict["domain"] == "host"
    assert "node-037" in json.dumps(verdict["affected_nodes"])
    assert "unreadable observation" in told(verdict)


def test_a_shard_of_rubbish_costs_itself_only(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        receipts, "zstd", SimpleNamespace(compress=lambda _data, level: b"rubbish %d" % level)
    )
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert "cannot be unpacked" in told(verdict)


def test_a_child_of_the_map_that_dies_is_counted_from_its_missing_report(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = ObjectStore.put_once

    def killed(self: ObjectStore, key: str, body: bytes, **more: Any) -> Any:
        if "/collected/" in key and b"applog" in body:
            raise MemoryError("killed")
        return real(self, key, body, **more)

    monkeypatch.setattr(ObjectStore, "put_once", killed)
    verdict = send(embedded)
    assert verdict["domain"] == "host"
    assert "no report" in told(verdict)


def test_a_map_that_fails_as_a_whole_still_leads_to_a_verdict(
    embedded: Any, failing: Failing
) -> None:
    failing("GetObject", lambda key: key.endswith("items.json") and "c1" in key)
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert "no report" in told(verdict) or "collection" in told(verdict)


def test_planning_that_fails_leads_to_a_verdict_from_the_event_alone(
    embedded: Any, failing: Failing
) -> None:
    failing("PutObject", lambda key: "/plans/" in key)
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert verdict["affected_nodes"] == [] or all(
        each["role"] != "culprit" for each in verdict["affected_nodes"]
    )


def test_a_bundle_elsewhere_is_not_read(embedded: Any) -> None:
    embedded.send(embedded.workload(), bundle_uri="s3://someone-elses-bucket/bundle/")
    verdict = json.loads(embedded.verdict(embedded.key))
    assert verdict["terminal_state"] == "node_fail"
    assert "someone-elses-bucket" in json.dumps(verdict)


def test_shards_extracted_under_other_rules_are_refused(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = rulebook.shipped_rulebook()
    from functions.attribute import handler

    other = Rulebook(
        book.version, "sha256:other", book.reasoning_digest, book.signatures, book.symptoms,
        book.causes, book.metrics,
    )  # fmt: skip
    monkeypatch.setattr(handler, "shipped_rulebook", lambda: other)
    verdict = send(embedded)
    assert "extracted under other rules" in told(verdict)
    assert all(each["role"] != "culprit" for each in verdict["affected_nodes"])


def test_a_collector_that_writes_late_changes_nothing(embedded: Any) -> None:
    send(embedded)
    before = embedded.verdict(embedded.key)
    prefix = collected_prefix(embedded.key, 1, 1)
    names = [key for key, _ in embedded.store.list_objects(prefix) if key.endswith(".report.json")]
    held = receipts.Receipt.model_validate_json(embedded.store.get(names[0])[0])
    late = receipts.store_collected(
        embedded.store,
        prefix,
        report=held.report.model_copy(update={"lines": 9, "status": "partial"}),
        observations=[],
        summaries=[],
    )
    assert late == held
    assert embedded.verdict(embedded.key) == before


def test_stored_observations_are_packed_and_named_by_content(embedded: Any) -> None:
    send(embedded)
    shards = [
        key
        for key, _ in embedded.store.list_objects(collected_prefix(embedded.key, 1, 1))
        if key.endswith(".jsonl.zst")
    ]
    assert shards
    for key in shards:
        body = embedded.store.get(key)[0]
        assert digest_bytes(body).removeprefix("sha256:")[:16] in key
        assert zstd.decompress(body).endswith(b"}\n")


def test_evidence_that_breaks_the_engine_is_set_aside_and_told(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functions.attribute import handler

    real = handler.judge_case

    def broken(case: Any, book: Rulebook) -> Any:
        if any(each.connector == "static" for each in case.observations):
            raise RecursionError("too deep")
        return real(case, book)

    monkeypatch.setattr(handler, "judge_case", broken)
    verdict = send(embedded)
    assert verdict["terminal_state"] == "node_fail"
    assert "the engine failed on the evidence (RecursionError)" in told(verdict)


def test_what_an_event_left_out_to_fit_is_told_by_coverage(embedded: Any) -> None:
    told = {**embedded.workload(), "nodes": ["n1", "n2"]}
    embedded.send(told, record={"left_out": ["ranks", "workload.nodes", "rm -rf"]})
    verdict = json.loads(embedded.verdict(embedded.key))
    (told_of,) = [each for each in verdict["coverage"] if each["source"] == "scheduler"]
    assert told_of["state"] != "complete"
    assert told_of["reason"] == (
        "the scheduler's event was too large for the bus and lacks where each rank ran, "
        "the end of the list of its nodes"
    )
