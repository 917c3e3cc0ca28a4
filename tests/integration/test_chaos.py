"""A seeded part of `make soak`: attempts while everything round them fails."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.adapters.results_table import ResultsTable
from functions.attribute import publishing
from rootrank.embedded.faults import Faults, Rates

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"{name}_script", SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[f"{name}_script"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [5, 7])
def test_every_attempt_ends_with_one_current_verdict_and_nothing_lost(
    shared_stack: Any, seed: int
) -> None:
    chaos = load("chaos")
    bundle = chaos.BUNDLES[0]
    uri = shared_stack.upload_bundle(chaos.CORPUS / bundle, bundle)
    run = chaos.run_seed(shared_stack, seed, {bundle: uri})
    assert run.problems == []
    assert run.revisions >= 1
    assert sum(run.counts.values()) > 10


def test_a_seed_makes_the_same_trouble_again() -> None:
    told = [str(Faults(7)._chance("a", 1).random()) for _ in range(2)]
    assert told[0] == told[1]
    assert told[0] != str(Faults(8)._chance("a", 1).random())


@contextmanager
def dying_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Iterator[list[str]]:
    """Let a call do its work and die after it, the first time."""
    real, died = getattr(owner, name), []

    def call(*given: Any, **more: Any) -> Any:
        answer = real(*given, **more)
        if not died:
            died.append(name)
            raise MemoryError("killed")
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, call)
        yield died


def test_a_crash_between_the_table_and_the_message_is_made_good_by_the_next_event(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dying_once(monkeypatch, ResultsTable, "move_current") as died:
        embedded.send(embedded.workload())
    assert died
    assert embedded.executions() == ["FAILED"]
    assert embedded.current(embedded.key)["revision"] == 1
    assert embedded.messages() == []
    embedded.send(embedded.workload())
    assert embedded.current(embedded.key)["revision"] == 1
    assert [each["body"]["revision"] for each in embedded.messages()] == [1]


def test_a_message_that_was_sent_before_a_crash_comes_again_and_is_the_same(
    embedded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with dying_once(monkeypatch, publishing, "_announce") as died:
        embedded.send(embedded.workload())
        assert died
        embedded.send(embedded.workload())
    first, second = embedded.messages()
    assert first == second


def test_a_generation_that_confirms_the_verdict_outlives_a_late_older_one(embedded: Any) -> None:
    from functions.adapters.services import connect
    from functions.attribute.handler import attribute

    embedded.send(embedded.workload(), bundle_uri=embedded.bundle("043-node-failure-only"))
    before = embedded.current(embedded.key)
    assert (before["seen_generation"], before["seen_collection"]) == (1, 2)
    late = {"attempt_key": embedded.key, "generation": 1, "collection": 1, "retry_count": 5}
    context = SimpleNamespace(memory_limit_in_mb=512)
    prefix = f"{embedded.key}/collected/g0001-c1/"
    keys = [key for key, _ in embedded.store.list_objects(prefix) if key.endswith(".zst")]
    for key in keys:
        connect().store.client.delete_object(Bucket=embedded.store.bucket, Key=key)
    answer = attribute(late, context)  # type: ignore[arg-type]
    assert answer == {
        "revision": 1, "is_new": False, "collect_more": False, "wait_seconds": 0,
    }  # fmt: skip
    assert embedded.current(embedded.key) == before


def test_faults_strike_only_while_they_are_at_work(embedded: Any) -> None:
    faults = Faults(1, Rates(refused=1.0, lost=0.0, killed=0.0, abandoned=0.0))
    with faults.at_work():
        embedded.put(embedded.workload())
        embedded.stack.settle(60)
    assert faults.counts["refused s3"] > 0
    assert json.dumps(embedded.stack.dead_letters()).count(embedded.job_id) >= 1
    embedded.send(embedded.workload())
    assert embedded.current(embedded.key)["revision"] == 1
