"""The second collection reads what a verdict asks for, from where the first one ended."""

import pytest
from loki_server import LokiServer
from test_coverage_truth import ENDED, JOB, NS, XID, site_of

from connectors.registry import Outside, connector_for
from engine.model.evidence_request import EvidenceRequest
from engine.model.plan import Budget
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.collect.collection import Collecting, collect_item
from functions.scope.going_on import go_on
from functions.scope.planning import windows_of
from functions.scope.telemetry import telemetry_items

LINES = [(ENDED - 600 * NS + number * NS, f"usb {number}: device", {}) for number in range(590)]
KERNEL = [
    ({"unit": "kernel", "node": "n1"}, LINES),
    ({"unit": "kernel", "node": "n2"}, [*LINES, (ENDED - 2 * NS, XID, {})]),
]
REQUEST = EvidenceRequest(source="syslog", entities=("n2",), why="kernel messages")


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


@pytest.fixture
def server():
    running = LokiServer(KERNEL)
    yield running
    running.stop()


def planned(server, book, *requests):
    return telemetry_items(
        site_of(server).cluster("a"), JOB, book=book, windows=windows_of(JOB), requests=requests,
        collection=2 if requests else 1,
    )  # fmt: skip


def collected(server, item, book):
    collecting = Collecting(book=book, scanner=scanners.scanner_of(book))
    outside = Outside(pause=lambda seconds: None)
    connector = connector_for(site_of(server), item, outside)
    return collect_item(item, workload=JOB, connector=connector, collecting=collecting)


def test_what_a_budget_cut_goes_on_and_no_line_is_read_twice(server, book):
    (tail,) = [each for each in planned(server, book) if each.query["part"] == "tail"]
    first = collected(server, tail.model_copy(update={"budget": Budget(requests=2)}), book)
    assert first.report.cursor.startswith("loki/0/node=n2")
    (rest,) = go_on(planned(server, book, REQUEST), [(tail, first.report.cursor)])
    assert (rest.query["part"], rest.windows, rest.request) == ("tail", tail.windows, REQUEST)
    second = collected(server, rest, book)
    assert second.report.status == "ok"
    assert first.report.lines + second.report.lines == 590 + 591
    assert first.observations == []
    assert {each.entity.node for each in second.observations} == {"n2"}


def test_what_was_read_to_its_end_is_asked_for_as_the_verdict_says(server, book):
    made = planned(server, book, REQUEST)
    assert go_on(made, []) == sorted(made, key=lambda each: each.item_id)


def test_a_cursor_of_another_source_is_not_followed(server, book):
    (tail,) = [each for each in planned(server, book) if each.query["part"] == "tail"]
    other = tail.model_copy(update={"query": {**tail.query, "stream": "7"}})
    (item,) = go_on(planned(server, book, REQUEST), [(other, "loki/7/x")])
    assert item.cursor is None


def test_an_item_that_goes_on_has_a_name_of_its_own_and_the_same_in_every_order(server, book):
    (tail,) = [each for each in planned(server, book) if each.query["part"] == "tail"]
    made = planned(server, book, REQUEST)
    left = [(tail, "loki/0/a"), (tail, "loki/0/b")]
    one, two = go_on(made, left), go_on(made[::-1], left[::-1])
    assert one == two
    assert len({each.item_id for each in (tail, *one)}) == 3
