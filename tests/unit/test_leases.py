"""Leases: so many collectors ask a source at once, and no more, whoever dies."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from engine.model.plan import PlanItem
from engine.model.workload import Workload
from functions.adapters.leases import LEASE_SECONDS, Leases, SourceFullError
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import ResultsTable
from functions.collect.running import FULL_RETRIES, CollectTask, Running
from functions.scope.planning import RuleDigests, make_plan


@pytest.fixture
def table() -> Iterator[ResultsTable]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name="us-east-1")
        names = [("pk", "HASH"), ("sk", "RANGE")]
        client.create_table(
            TableName="t",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in names],
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": "S"} for n, _ in names],
        )
        yield ResultsTable(client, "t")


def test_no_more_than_allowed_hold_a_lease_and_one_given_back_is_free(table: ResultsTable) -> None:
    leases = Leases(table, lambda: 1000.0)
    with leases.held("a/loki", "one", 2), leases.held("a/loki", "two", 2):
        with pytest.raises(SourceFullError, match="a/loki: 2 collectors ask it already"):
            leases.held("a/loki", "three", 2).__enter__()
        with leases.held("a/prometheus", "three", 2):
            pass
    with leases.held("a/loki", "three", 2):
        pass


def test_the_lease_of_a_collector_that_died_runs_out(table: ResultsTable) -> None:
    dead = Leases(table, lambda: 1000.0).held("a/loki", "dead", 1)
    dead.__enter__()
    with pytest.raises(SourceFullError):
        Leases(table, lambda: 1000.0 + LEASE_SECONDS - 1).held("a/loki", "x", 1).__enter__()
    with Leases(table, lambda: 1000.0 + LEASE_SECONDS).held("a/loki", "x", 1):
        pass


def test_an_item_that_is_tried_again_takes_over_its_own_lease(table: ResultsTable) -> None:
    leases = Leases(table, lambda: 1000.0)
    first = leases.held("a/loki", "item", 1)
    first.__enter__()
    with leases.held("a/loki", "item", 1):
        pass


def test_a_body_that_raises_gives_its_lease_back(table: ResultsTable) -> None:
    leases = Leases(table, lambda: 1000.0)
    with pytest.raises(ZeroDivisionError), leases.held("a/loki", "one", 1):
        raise ZeroDivisionError
    with leases.held("a/loki", "two", 1):
        pass


@contextmanager
def full(_task: CollectTask) -> Iterator[None]:
    raise SourceFullError("a/loki: 1 collectors ask it already")
    yield


def test_a_source_that_stays_full_ends_in_a_report_and_not_in_a_failed_child() -> None:
    item = PlanItem(item_id="i-1", connector="loki", shard="loki-1", source="applog")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="our-bucket")
        store = ObjectStore(client, "our-bucket")
        plan = make_plan(
            Workload(scheduler="slurm", job_id="1"), (), digests=RuleDigests("1", "x", "y")
        )
        body = plan.model_dump_json().encode()
        store.put_once("p", body, content_type="application/json")
        running = Running(store, None, None, lambda: 0.0, gate=full)  # type: ignore[arg-type]
        task = CollectTask(
            attempt_key="a/b/c/d/r0", generation=1, collection=1, plan_key="p", item=item
        )
        with pytest.raises(SourceFullError):
            running.run(task.model_copy(update={"retry_count": FULL_RETRIES - 1}), seconds=9)
        told = running.run(task.model_copy(update={"retry_count": FULL_RETRIES}), seconds=9)
    assert (told.report.status, told.report.source) == ("error", "applog")
    assert told.report.reason == "a/loki: 1 collectors ask it already"


def test_a_machine_waits_for_a_full_source_as_long_as_its_collector_hopes() -> None:
    place = Path(__file__).parents[2] / "infra/statemachine/attribution.asl.json"
    machine = json.loads(place.read_text(encoding="utf-8"))
    task = machine["States"]["Collect"]["ItemProcessor"]["States"]["CollectItem"]
    (retry,) = [each for each in task["Retry"] if "SourceFullError" in each["ErrorEquals"]]
    assert retry["MaxAttempts"] == FULL_RETRIES
