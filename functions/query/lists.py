"""The pages that list: verdicts with filters, a job's attempts, a node, a GPU, tallies, trends."""

import shlex
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from engine.model.vocabulary import DOMAINS, TERMINAL_STATES
from functions.adapters.results import Page, Result, Results, Selection
from functions.query import addresses
from functions.query.asking import (
    LEVELS,
    QuestionError,
    filters_of,
    select,
    shell_line,
    since,
    time_choices,
    time_words,
)
from functions.query.plain import words
from functions.query.tallies import (
    PERIODS,
    SUBJECTS,
    Stretch,
    Trend,
    count_nodes,
    count_trend,
    stretches,
)
from functions.query.trend_picture import drawn, trend_picture

if TYPE_CHECKING:
    from functions.query.app import View

LIMIT: Final = 50
MAX_TALLIED: Final = 4_000
"""Results that a page counts at most; the command line counts more."""
_MAX_NODES: Final = 200
_MAX_COLUMNS: Final = 10
_MAX_CLUSTERS: Final = 200
_LONGEST: Final = 400
_ROLES: Final = ("culprit", "suspect", "victim", "observed")


def required(query: Mapping[str, str], name: str) -> str:
    """Return a parameter that must be there; raises `QuestionError`."""
    value = query.get(name, "").strip()
    if not value or len(value) > _LONGEST:
        raise QuestionError(f"{name} is needed, with at most {_LONGEST} characters")
    return value


def verdict_page(results: Results, query: Mapping[str, str], *, now: datetime) -> Page:
    """Return one page of verdicts for the filters of an address."""
    selection = select(filters_of(query), now=now)
    return results.page(selection, limit=LIMIT, cursor=query.get("cursor") or None)


def verdicts(results: Results | None, query: Mapping[str, str], *, view: "View") -> dict[str, Any]:
    """Return what the front page shows; without results it says how to get some."""
    filters = filters_of(query)
    page = Page(()) if results is None else verdict_page(results, query, now=view.now())
    clusters = () if results is None else results.clusters()[:_MAX_CLUSTERS]
    return {
        "section": "verdicts",
        "twin": addresses.twin_address("/", query) if results is not None else None,
        "page": page,
        "filters": _Filters(filters),
        "limit": LIMIT,
        "clusters": [(each, each) for each in clusters],
        "domains": [(each, each) for each in DOMAINS],
        "states": [(each, words(each)) for each in TERMINAL_STATES],
        "levels": [(each, each) for each in LEVELS],
        "ages": time_choices(filters.get("since")),
        "next": _older("/", filters, page),
        "first": addresses.list_address("/", **filters) if query.get("cursor") else None,
        "shell": shell_line(filters) + _state(view.local),
        "local": view.local and shlex.quote(view.local),
    }


def job(results: Results, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the attempts of a job id."""
    asked = required(query, "id")
    page = results.page(Selection(job_id=asked), limit=LIMIT, cursor=query.get("cursor") or None)
    return {
        "section": "verdicts",
        "twin": addresses.twin_address("/job", {"id": asked}),
        "query": asked,
        "page": page,
        "next": _older("/job", {"id": asked}, page),
    }


def find(results: Results, asked: str) -> str:
    """Return the address of what a reader typed: an attempt, a job, a node or a GPU."""
    if not asked or len(asked) > _LONGEST:
        raise QuestionError("type a job id, a node's name, or a GPU's serial number or UUID")
    if asked.count("/") == 4 and results.current(asked) is not None:
        return addresses.attempt_address(asked)
    attempts = results.page(Selection(job_id=asked), limit=2).results
    if len(attempts) == 1:
        return addresses.attempt_address(attempts[0].attempt_key)
    if attempts:
        return addresses.list_address("/job", id=asked)
    nodes = results.page(Selection(node=asked), limit=1).results
    if nodes:
        return "/node?" + urlencode({"name": asked})
    return addresses.gpu_address(asked)


def node_page(results: Results, query: Mapping[str, str]) -> Page:
    """Return one page of a node's parts, in one cluster or in all."""
    selection = Selection(node=required(query, "name"), cluster=query.get("cluster") or None)
    return results.page(selection, limit=LIMIT, cursor=query.get("cursor") or None)


def gpu_page(results: Results, query: Mapping[str, str]) -> Page:
    """Return one page of a GPU's parts, whichever node it sat in."""
    selection = Selection(gpu=required(query, "name"))
    return results.page(selection, limit=LIMIT, cursor=query.get("cursor") or None)


def node(results: Results, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what a node's page shows."""
    page = node_page(results, query)
    name, cluster = required(query, "name"), query.get("cluster") or ""
    told = _part("node", name, page, cluster=cluster)
    more = f" --cluster {shlex.quote(cluster)}" if cluster else ""
    told["shell"] = f"rootrank list --node {shlex.quote(name)}{more}"
    return told


def gpu(results: Results, query: Mapping[str, str]) -> dict[str, Any]:
    """Return what a GPU's page shows."""
    page = gpu_page(results, query)
    name = required(query, "name")
    told = _part("GPU", name, page, cluster="")
    told["shell"] = f"rootrank list --gpu {shlex.quote(name)}"
    places = {(each.cluster, each.node) for each in page.results if each.node}
    told["places"] = [(addresses.node_address(c, n), n) for c, n in sorted(places)]
    return told


def nodes(results: Results, query: Mapping[str, str], *, now: datetime) -> dict[str, Any]:
    """Return the nodes that were named most often in a time."""
    age = query.get("since") or "30d"
    selection = Selection(since=since(age, now=now))
    read = list(results.walk(selection, at_most=MAX_TALLIED + 1))
    return {
        "section": "nodes",
        "twin": addresses.twin_address("/nodes", {"since": age}),
        "tallies": count_nodes(read[:MAX_TALLIED])[:_MAX_NODES],
        "read": min(len(read), MAX_TALLIED),
        "is_complete": len(read) <= MAX_TALLIED,
        "since": age,
        "time_asked": _in_time(age),
        "ages": time_choices(age),
    }


def trends(results: Results, query: Mapping[str, str], *, now: datetime) -> dict[str, Any]:
    """Return counts by period and subject."""
    age = query.get("since") or "13w"
    period, subject = query.get("by") or "week", query.get("of") or "domain"
    if period not in PERIODS or subject not in SUBJECTS:
        raise QuestionError(f"by is one of {', '.join(PERIODS)}; of one of {', '.join(SUBJECTS)}")
    found = results.walk(Selection(since=since(age, now=now)), at_most=MAX_TALLIED + 1)
    trend = count_trend(found, period, subject=subject, at_most=MAX_TALLIED)
    shown = list(trend.counts)[:_MAX_COLUMNS]
    told, pictured = stretches(trend), drawn(trend)
    return {
        "section": "trends",
        "twin": addresses.twin_address("/trends", {"by": period, "of": subject, "since": age}),
        "trend": trend,
        "picture": trend_picture(trend) if trend.counted else None,
        "shown": shown,
        "rest": max(0, len(trend.counts) - len(shown)),
        "rows": [_row(trend, each, shown) for each in reversed(told)],
        "drawn_from": pictured[0].start if len(pictured) < len(told) else None,
        "time_asked": _in_time(age),
        "since": age,
        "choices": [
            ("by", "Period", [(each, each) for each in PERIODS], period),
            ("of", "Subject", [(each, words(each)) for each in SUBJECTS], subject),
            ("since", "Time", time_choices(age), age),
        ],
    }


def _row(trend: Trend, stretch: Stretch, shown: list[str]) -> dict[str, Any]:
    if stretch.index is None:
        return {"start": stretch.start, "empty": stretch.periods}
    counts = [trend.counts[name][stretch.index] for name in shown]
    total = trend.totals[stretch.index]
    return {
        "start": stretch.start, "empty": 0, "total": total, "counts": counts,
        "rest": total - sum(counts),
    }  # fmt: skip


def _in_time(age: str) -> str:
    told = time_words(age)
    return told if told.startswith("since") else f"in the {told}"


def show_command(result: Result, *, is_newest: bool, local: str | None) -> str:
    """Return the command that prints a verdict."""
    revision = "" if is_newest else f" --revision {result.revision}"
    return f"rootrank show {shlex.quote(result.attempt_key)}{revision}{_state(local)}"


def _state(local: str | None) -> str:
    return "" if local in (None, ".rootrank") else f" --state {shlex.quote(local or '')}"


def _part(kind: str, name: str, page: Page, *, cluster: str) -> dict[str, Any]:
    counted = Counter(each.role for each in page.results)
    path = "/node" if kind == "node" else "/gpu"
    query = {"name": name} | ({"cluster": cluster} if cluster else {})
    return {
        "section": "nodes",
        "twin": addresses.twin_address(path, query),
        "kind": kind,
        "name": name,
        "cluster": cluster,
        "page": page,
        "roles": [(role, counted[role]) for role in _ROLES if counted[role]],
        "places": [],
        "next": _older(path, query, page),
    }


def _older(path: str, query: Mapping[str, str], page: Page) -> str | None:
    if page.cursor is None:
        return None
    return f"{path}?{urlencode({**query, 'cursor': page.cursor})}"


class _Filters(dict[str, str]):
    """Filters whose missing ones are None in a template."""

    def __missing__(self, name: str) -> None:
        return None
