"""Leases: so many collectors ask a source at once, and no more, whoever dies."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from functions.adapters.leases import LEASE_SECONDS, Leases, SourceFullError
from functions.adapters.results_table import ResultsTable


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
