"""What pages count: who suffered, verdicts in a time, and that each says what it counts."""

import re

import pytest
from web_asking import Ask, asker, at_noon
from web_samples import Shelf, bare, full

from engine.model.verdict import Verdict, seal
from functions.query.app import View
from functions.query.tallies import Stretch, Trend, stretches
from functions.query.trend_picture import drawn, trend_picture


@pytest.fixture(scope="module")
def ask(aws: Shelf) -> Ask:
    return asker(View(results=aws.results, now=at_noon))


@pytest.mark.parametrize(
    ("nodes", "world_size", "omitted", "told"),
    [
        (("node-001", "node-002"), 4, 0, "1 node (node-002) and 1 rank only suffered"),
        (("node-001", "node-002"), 4, 32, "1 node (node-002) and 33 ranks only suffered"),
        ((), 1, 1, "2 nodes (among them node-002) and 1 rank only suffered"),
        ((), 4, 1, "1 node (node-002), 1 rank and 1 more node or rank only suffered"),
        ((), 4, 32, "1 node (node-002), 1 rank and 32 more nodes or ranks only suffered"),
    ],
)
def test_victims_are_told_by_nodes_and_ranks_as_far_as_the_verdict_tells(
    aws: Shelf, ask: Ask, nodes: tuple[str, ...], world_size: int, omitted: int, told: str
) -> None:
    fields = full(f"800-{len(nodes)}-{world_size}-{omitted}").model_dump(mode="json")
    fields["workload"] |= {"nodes": nodes, "world_size": world_size}
    fields["affected_nodes"] = [
        {"node": "node-001", "role": "culprit"}, {"node": "node-002", "role": "victim"},
    ]  # fmt: skip
    fields["affected_ranks"] = [{"rank": 1, "node": "node-002", "role": "victim"}]
    fields["victims_omitted"] = omitted
    key = aws.put(seal(fields))
    assert told in ask(f"/attempts/{key}").body


LONG_AGO = "2023-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def apart(aws: Shelf, ask: Ask) -> Ask:
    """Pages over one verdict of March 2023 and one of the last day."""
    for job_id, start, end in (
        ("901", "2023-03-06T01:00:00Z", "2023-03-06T03:17:51Z"),
        ("902", "2026-01-31T10:00:00Z", "2026-01-31T12:30:00Z"),
    ):
        fields = full(job_id).model_dump(mode="json")
        fields["workload"] |= {"cluster": "far", "start": start, "end": end}
        aws.put(seal(fields))
    return ask


def chosen(body: str) -> list[str]:
    return re.findall(r"<option[^>]* selected>([^<]*)", body)


def test_a_selector_shows_the_time_that_was_asked_for(apart: Ask) -> None:
    trends = apart("/trends", since=LONG_AGO).body
    assert chosen(trends) == ["week", "domain", "since 2023-01-01 00:00:00"]
    assert f'value="{LONG_AGO}" selected' in trends
    assert chosen(apart("/trends", since="24h").body)[-1] == "last 24 hours"
    assert chosen(apart("/trends", since="400w").body)[-1] == "last 400 weeks"
    assert chosen(apart("/", since=LONG_AGO).body) == ["since 2023-01-01 00:00:00"]


@pytest.mark.parametrize(
    ("age", "heading"),
    [
        (LONG_AGO, "Nodes named since 2023-01-01 00:00:00"),
        ("13w", "Nodes named in the last quarter"),
        ("1d", "Nodes named in the last day"),
        ("45d", "Nodes named in the last 45 days"),
    ],
)
def test_the_nodes_page_says_of_what_time_it_is(apart: Ask, age: str, heading: str) -> None:
    body = apart("/nodes", since=age).body
    assert f"<h1>{heading}</h1>" in body
    assert len(re.findall('aria-current="true"', body)) == 1


def test_empty_weeks_are_one_row_and_one_shade_and_the_picture_begins_with_the_table(
    apart: Ask,
) -> None:
    body = apart("/trends", since=LONG_AGO).body
    rows = re.findall(r'<tr[^>]*><th scope="row">([^<]+)</th>(.*)</tr>', body)
    assert [start for start, _ in rows] == ["2026-01-26", "2023-03-13", "2023-03-06"]
    assert "no verdict for 150 weeks" in rows[1][1]
    assert "150 weeks from 2023-03-13 without verdicts" in body
    assert "the first in the week of 2023-03-06" in body
    assert "drawn from 2023-03-06 to 2026-01-26" in body
    assert "The picture begins" not in body


def trend(*totals: int, starts: tuple[str, ...]) -> Trend:
    return Trend("month", "domain", starts, {"gpu": totals}, sum(totals), is_complete=True)


def test_up_to_two_empty_periods_stand_apart_and_more_are_one_even_where_none_is_listed() -> None:
    starts = ("2022-12-01", "2023-01-01", "2023-02-01", "2023-03-01")
    assert stretches(trend(1, 0, 0, 2, starts=starts)) == [
        Stretch("2022-12-01", 1, 0), Stretch("2023-01-01", 1, 1), Stretch("2023-02-01", 1, 2),
        Stretch("2023-03-01", 1, 3),
    ]  # fmt: skip
    assert stretches(trend(1, 2, starts=("1900-11-01", "2023-03-01"))) == [
        Stretch("1900-11-01", 1, 0), Stretch("1900-12-01", 1_467, None),
        Stretch("2023-03-01", 1, 1),
    ]  # fmt: skip


def test_a_picture_that_begins_later_than_the_table_says_from_when() -> None:
    starts = tuple(f"{2020 + n // 12}-{n % 12 + 1:02d}-01" for n in range(70))
    long = trend(*[1] * 70, starts=starts)
    assert (len(drawn(long)), drawn(long)[0].start) == (60, "2020-11-01")
    assert "drawn from 2020-11-01 to 2025-10-01" in str(trend_picture(long))


def test_a_page_of_a_long_trend_says_from_when_its_picture_is(aws: Shelf, ask: Ask) -> None:
    for n in range(61):
        fields = full(f"95{n:02d}").model_dump(mode="json")
        end = f"2025-{7 + n // 28:02d}-{n % 28 + 1:02d}T12:00:00Z"
        fields["workload"] |= {"cluster": "daily", "start": None, "end": end}
        aws.put(seal(fields))
    body = ask("/trends", by="day", since="2025-07-01T00:00:00Z").body
    assert "The picture begins with the day of" in body


def bare_of(tenant: str) -> Verdict:
    """A verdict that names nobody."""
    fields = bare("990").model_dump(mode="json")
    fields["workload"] |= {"tenant": tenant, "end": "2026-01-31T12:30:00Z"}
    return seal(fields)


def test_one_verdict_is_told_in_the_singular(ask: Ask, aws: Shelf) -> None:
    other = View(results=lambda: aws.results("alone"), now=at_noon)
    aws.put(bare_of("alone"))
    body = asker(other)("/nodes").body
    assert "1 verdict in this time names no node" in body
    assert "<caption>1 verdict in the last quarter" in asker(other)("/trends").body
