"""Reading results: the same answers as the service, bounded reads, one tenant at a time."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from functions.adapters.object_store import ObjectStore
from functions.adapters.results import MAX_EXAMINED, CursorError, Results, Selection
from functions.adapters.results_query import ResultsQuery
from functions.adapters.results_table import gpu_key, node_key, to_wire
from rootrank.embedded.folder_table import FolderTable, UnknownConditionError
from rootrank.embedded.stack import open_empty_storage

NEWEST = datetime(2026, 1, 31, 12, tzinfo=UTC)
CLUSTERS = ("team-a/east", "team-a/west", "team-b/east")
DOMAINS = ("gpu", "network", "application")
CLASSES = {"gpu": "gpu_fallen_off_bus", "network": "link_down", "application": "python_exception"}
QUALITIES = ("definitive", "probable")
BARE = {"revision": 1, "status": "final", "summary": "s", "terminal_state": "failed"}


def items_of(count: int, *, a_day: int) -> Iterator[dict[str, Any]]:
    """`count` results over clusters, classes and nodes, newest first, `a_day` of them each day.

    Result 0 is of data's domain, ran on node `lone` and named GPU `serial-0`; nothing else is so.
    """
    days: set[str] = set()
    step = timedelta(days=1) / a_day
    for number in range(count):
        cluster = CLUSTERS[number % 3]
        ended = (NEWEST - step * number).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        domain = DOMAINS[number % 7 % 3]
        attempt = f"{cluster}/slurm/{number}/r0"
        told = BARE | {
            "attempt_key": attempt, "cluster": cluster, "job_id": str(number), "domain": domain,
            "failure_class": CLASSES[domain], "quality": QUALITIES[number % 2],
            "ended_key": f"{ended}#{attempt}", "end": ended,
        }  # fmt: skip
        if number == 0:
            told |= {"domain": "data", "failure_class": "sample_unreadable"}
        keys = {
            "job_key": str(number % 50_000), "day_key": f"{cluster}#{ended[:10]}",
            "class_key": told["failure_class"],
        }  # fmt: skip
        yield told | keys | {"pk": attempt, "sk": "CURRENT"}
        bare = {name: value for name, value in told.items() if name != "ended_key"}
        yield bare | {"pk": attempt, "sk": "REV#000001"}
        node = "lone" if number == 0 else f"node-{number % 40}"
        part = {"pk": attempt, "node": node, "role": "culprit"}
        yield told | part | {"sk": f"NODE#{node}", "node_key": node_key(cluster, node)}
        if number == 0:
            yield told | part | {"sk": "GPU#serial-0", "node_key": gpu_key(cluster, "serial-0")}
        if (pair := f"{cluster}#{ended[:10]}") not in days:
            days.add(pair)
            yield {"pk": "DAYS", "sk": pair}
            yield {"pk": "CALENDAR", "sk": f"{ended[:10]}#{cluster}"}


def client_of(table: Any, *, tenant: str | None = None, page_items: int = 60) -> Results:
    return Results(ResultsQuery(table, "t", page_items), ObjectStore(table, "b"), tenant)


def filled(count: int, *, a_day: int) -> FolderTable:
    # to_wire, but ten times faster: these items hold texts and numbers only.
    return FolderTable(
        {k: {"S": v} if isinstance(v, str) else {"N": str(v)} for k, v in item.items()}
        for item in items_of(count, a_day=a_day)
    )


def reads_of(table: FolderTable) -> tuple[int, int]:
    """Requests and items read since the last call."""
    told = (table.requests, table.read)
    table.requests = table.read = 0
    return told


@pytest.fixture(scope="module")
def small() -> FolderTable:
    return filled(300, a_day=40)


QUESTIONS = {
    "everything": Selection(),
    "a cluster": Selection(cluster="team-a/west"),
    "a class": Selection(failure_class="link_down"),
    "a class of a cluster": Selection(failure_class="link_down", cluster="team-b/east"),
    "a node": Selection(node="node-7"),
    "a node of a cluster": Selection(node="node-7", cluster="team-a/east"),
    "a gpu": Selection(gpu="serial-0"),
    "a job": Selection(job_id="17"),
    "one day": Selection(since="2026-01-29T00:00:00Z", until="2026-01-30T00:00:00Z"),
    "a domain since": Selection(domain="gpu", since="2026-01-28T00:00:00Z"),
    "an empty time": Selection(since="2026-01-28T00:00:00Z", until="2026-01-27T00:00:00Z"),
    "a quality": Selection(quality="probable", domain="network"),
    "nobody's node": Selection(node="node-none"),
    "a role": Selection(node="node-7", role="victim"),
}


def read_all(results: Results, selection: Selection, *, limit: int) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    cursor = None
    while True:
        page = results.page(selection, limit=limit, cursor=cursor)
        assert len(page.results) <= limit
        found += [(each.ended_key, each.node or "") for each in page.results]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("name", QUESTIONS)
def test_pages_of_any_size_give_each_result_once_newest_first(
    small: FolderTable, name: str
) -> None:
    whole = read_all(client_of(small), QUESTIONS[name], limit=200)
    assert [ended for ended, _ in whole] == sorted({e for e, _ in whole}, reverse=True)
    assert read_all(client_of(small, page_items=3), QUESTIONS[name], limit=7) == whole


def test_questions_find_what_they_ask_for(small: FolderTable) -> None:
    results = client_of(small)
    assert len(read_all(results, Selection(), limit=200)) == 300
    assert len(read_all(results, QUESTIONS["a cluster"], limit=200)) == 100
    assert len(read_all(results, QUESTIONS["a node"], limit=200)) == 8
    assert len(read_all(results, QUESTIONS["one day"], limit=200)) == 40
    (only,) = results.page(QUESTIONS["a gpu"]).results
    assert (only.job_id, only.node, only.role) == ("0", "lone", "culprit")
    current = results.current("team-a/west/slurm/1/r0")
    assert current is not None
    assert current.job_id == "1"
    assert [each.revision for each in results.revisions("team-a/west/slurm/1/r0")] == [1]
    assert results.clusters() == CLUSTERS
    assert results.current("team-a/west/slurm/999/r0") is None


def test_the_service_gives_the_same_answers(tmp_path: Path) -> None:
    table = filled(60, a_day=20)
    with open_empty_storage(tmp_path) as names:
        service = boto3.client("dynamodb")
        for item in table._items.values():
            service.put_item(TableName=names.table, Item=item)
        real = Results(ResultsQuery(service, names.table, 7), ObjectStore(service, "b"))
        for name, selection in QUESTIONS.items():
            expected = read_all(client_of(table, page_items=7), selection, limit=5)
            assert read_all(real, selection, limit=5) == expected, name
        assert real.clusters() == CLUSTERS
        assert list(real.query.days()) == list(client_of(table).query.days())
        cluster = "team-a/east"
        assert list(real.query.days(cluster)) == list(client_of(table).query.days(cluster))


@pytest.fixture(scope="module")
def sizes() -> list[FolderTable]:
    """A thousand results, a hundred thousand over a year, and twenty thousand on one day."""
    return [filled(1_000, a_day=250), filled(100_000, a_day=250), filled(20_000, a_day=20_000)]


def test_what_is_read_does_not_depend_on_how_much_is_stored(sizes: list[FolderTable]) -> None:
    asked = {
        "front page": lambda r: r.page(Selection()),
        "one cluster": lambda r: r.page(Selection(cluster="team-a/west")),
        "one class": lambda r: r.page(Selection(failure_class="link_down")),
        "one node": lambda r: r.page(Selection(node="lone", cluster="team-a/east")),
        "one GPU": lambda r: r.page(Selection(gpu="serial-0", cluster="team-a/east")),
        "one job": lambda r: r.page(Selection(job_id="17")),
        "one attempt": lambda r: r.current("team-a/west/slurm/1/r0"),
        "revisions": lambda r: r.revisions("team-a/west/slurm/1/r0"),
        "clusters": lambda r: r.clusters(),
        "a rare domain": lambda r: r.page(Selection(domain="data")),
        "one of two levels": lambda r: r.page(Selection(quality="probable")),
        "one tenant": lambda r: Results(r.query, r.store, "team-b").page(Selection()),
        "node anywhere": lambda r: r.page(Selection(node="node-7")),
    }
    told = {}
    for name, ask in asked.items():
        counts = []
        for table in sizes:
            reads_of(table)
            assert ask(client_of(table)) is not None
            counts.append(reads_of(table))
        told[name] = counts
    requests = {name: max(each[0] for each in counts) for name, counts in told.items()}
    items = {name: max(each[1] for each in counts) for name, counts in told.items()}
    # Three clusters: a day's page is one request for the days and one for each cluster.
    assert requests["front page"] <= 5
    assert items["front page"] <= 60 + 3 * 60
    assert items["one job"] <= 2
    assert (requests["one attempt"], items["one attempt"]) == (1, 1)
    assert (requests["clusters"], items["clusters"]) == (4, 3)
    assert (requests["one node"], items["one node"]) == (1, 1)
    assert (requests["one GPU"], items["one GPU"]) == (1, 1)
    assert items["one class"] <= 60
    # A rare domain is looked for among a bounded number of results, and the page says how far.
    assert MAX_EXAMINED < 3_000
    assert items["a rare domain"] <= MAX_EXAMINED + 4 * 60 + 60 * len(CLUSTERS)
    for name, counts in told.items():
        assert max(each[1] for each in counts[1:]) <= max(300, 1.2 * MAX_EXAMINED + 300), name


def test_a_page_that_looked_far_enough_says_how_far_and_goes_on(
    sizes: list[FolderTable],
) -> None:
    results = client_of(sizes[1])
    page = results.page(Selection(domain="storage"))
    assert page.results == ()
    assert page.examined == MAX_EXAMINED
    assert page.cursor is not None
    assert page.examined_until == "2026-01-23T12:05:45.600000Z"
    more = results.page(Selection(domain="storage"), cursor=page.cursor)
    assert (more.examined, more.examined_until) == (MAX_EXAMINED, "2026-01-15T12:05:45.600000Z")


def test_a_tenant_sees_nothing_of_another(small: FolderTable) -> None:
    results = client_of(small, tenant="team-a")
    for name, selection in QUESTIONS.items():
        for ended, _ in read_all(results, selection, limit=50):
            assert "#team-a/" in ended, name
    assert results.clusters() == ("team-a/east", "team-a/west")
    assert results.page(Selection(cluster="team-b/east")).results == ()
    assert results.page(Selection(cluster="team-b/east", node="node-2")).results == ()
    assert results.page(Selection(job_id="2")).results == ()
    assert results.current("team-b/east/slurm/2/r0") is None
    assert results.revisions("team-b/east/slurm/2/r0") == ()
    other = client_of(small, tenant="team-b").page(Selection(), limit=5)
    stolen = results.page(Selection(), limit=200, cursor=other.cursor).results
    assert {each.tenant for each in stolen} == {"team-a"}


@pytest.mark.parametrize("cursor", ["", "!", "bm90aGluZw", "x" * 5_000, "/w"])
def test_a_foreign_cursor_is_refused(small: FolderTable, cursor: str) -> None:
    with pytest.raises(CursorError, match=r"cursor: "):
        client_of(small).page(Selection(), cursor=cursor)


def test_a_claim_without_a_verdict_is_no_result() -> None:
    told = {"failure_class": "link_down", "domain": "network", "quality": "probable", **BARE}
    common = {
        "pk": "t/c/slurm/9/r0", "job_key": "9", "ended_key": "2026#t/c/slurm/9/r0",
        "attempt_key": "t/c/slurm/9/r0", "cluster": "t/c", "job_id": "9",
    }  # fmt: skip
    table = FolderTable(
        [to_wire({**common, "sk": "CLAIM"}), to_wire({**common, **told, "sk": "CURRENT"})]
    )
    (found,) = client_of(table).page(Selection(job_id="9"), limit=1).results
    assert found.failure_class == "link_down"


def test_nothing_that_reads_results_scans(root: Path) -> None:
    for folder in ("functions", "rootrank/commands", "rootrank/web", "rootrank/service"):
        for path in (root / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert "dynamodb.scan" not in text, path
            assert ".scan(TableName" not in text, path
            assert 'get_paginator("scan")' not in text, path


def test_a_folders_table_refuses_what_it_does_not_know(small: FolderTable) -> None:
    for condition in ("pk = :k OR pk = :j", "sk = :k", "pk = :k AND contains(sk, :a)"):
        with pytest.raises(UnknownConditionError):
            small.query(KeyConditionExpression=condition, ExpressionAttributeValues={})
    assert not hasattr(small, "scan")
