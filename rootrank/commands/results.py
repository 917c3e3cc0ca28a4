"""`rootrank show` and `rootrank list`: results from the table."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.verdict import Verdict
from engine.model.vocabulary import DOMAINS

if TYPE_CHECKING:
    from functions.adapters.object_store import ObjectStore
    from functions.adapters.results_query import ResultsQuery

DEFAULT_STATE: Final = Path(".rootrank")
_AGO: Final = re.compile(r"^(\d{1,5})([mhdw])$")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_COLUMNS: Final = (
    ("end", "ENDED"),
    ("cluster", "CLUSTER"),
    ("job_id", "JOB"),
    ("terminal_state", "STATE"),
    ("domain", "DOMAIN"),
    ("failure_class", "CLASS"),
    ("quality", "QUALITY"),
    ("nodes", "CULPRITS"),
)

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_STATE,
    show_default=True,
    help="Folder that holds the embedded AWS.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "jsonl"]),
    help="Default: text on a terminal, else json.",
)


@dataclass(slots=True, frozen=True)
class Results:
    """Where results are read: the table and the bucket with the documents."""

    query: "ResultsQuery"
    store: "ObjectStore"


class NotFoundError(click.ClickException):
    """A job, attempt or state folder that is not there."""

    exit_code = 2


@click.command(name="show")
@click.argument("what", metavar="JOB|ATTEMPT")
@click.option("--revision", type=click.IntRange(min=1), help="An earlier revision.")
@state_option
@click.option("--table", help="A real account's table instead of the embedded one.")
@click.option("--bucket", help="The bucket that belongs to --table.")
@format_option
def show_command(
    what: str,
    *,
    revision: int | None,
    state: Path,
    table: str | None,
    bucket: str | None,
    form: str | None,
) -> None:
    """Print a verdict by job id or attempt key (tenant/cluster/scheduler/job/attempt)."""
    with _results(state, table, bucket=bucket) as results:
        items = [_revision(results, item, revision) for item in _items_of(results, what)]
        documents = [results.store.get(item["verdict_key"])[0] for item in items]
    for item in items[1:]:
        click.echo(f"also attempt {item['attempt_key']}", err=True)
    print_verdict(documents[0], form)


@click.command(name="list")
@click.option("--cluster", help="A cluster, or tenant/cluster.")
@click.option("--domain", type=click.Choice(DOMAINS), help="Only causes of one domain.")
@click.option("--class", "failure_class", help="Only one failure class.")
@click.option("--node", help="Only attempts in which this node has a part.")
@click.option("--since", help="RFC 3339 time, or an age such as 12h, 7d.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@state_option
@click.option("--table", help="A real account's table instead of the embedded one.")
@format_option
def list_command(
    cluster: str | None,
    domain: str | None,
    failure_class: str | None,
    *,
    node: str | None,
    since: str | None,
    limit: int,
    state: Path,
    table: str | None,
    form: str | None,
) -> None:
    """List current verdicts, newest first."""
    start = _since(since)
    wanted = _cluster(cluster)
    with _results(state, table, bucket=None) as results:
        found: Iterable[dict[str, Any]]
        if node is not None:
            found = _by_node(results.query, wanted, node, since=start)
        elif failure_class is not None:
            found = results.query.by_class(failure_class, start)
        else:
            found = _by_day(results.query, wanted, start)
        rows = _chosen(
            found,
            lambda item: (
                (wanted is None or item["cluster"] == wanted)
                and (domain is None or item["domain"] == domain)
                and (failure_class is None or item["failure_class"] == failure_class)
            ),
            limit=limit,
        )
    _print_rows([_row(item) for item in rows], form)


def is_text(form: str | None) -> bool:
    """Whether output is text: asked for, or the default on a terminal."""
    return form == "text" or (form is None and sys.stdout.isatty())


def print_verdict(document: bytes, form: str | None) -> None:
    """Print a verdict's stored bytes, or as text."""
    if not is_text(form):
        click.echo(document.decode())
        return
    from rootrank.text import render_verdict  # noqa: PLC0415

    color = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(render_verdict(Verdict.model_validate_json(document), colour=color))


@contextmanager
def _results(state: Path, table: str | None, *, bucket: str | None) -> Iterator[Results]:
    import boto3  # noqa: PLC0415

    from functions.adapters.object_store import ObjectStore  # noqa: PLC0415
    from functions.adapters.results_query import ResultsQuery  # noqa: PLC0415

    if table is not None:
        query = ResultsQuery(boto3.client("dynamodb"), table)
        yield Results(query, ObjectStore(boto3.client("s3"), bucket or ""))
        return
    from rootrank.embedded.stack import open_storage  # noqa: PLC0415
    from rootrank.embedded.state import StateError  # noqa: PLC0415

    try:
        with open_storage(state) as names:
            yield Results(
                ResultsQuery(boto3.client("dynamodb"), names.table),
                ObjectStore(boto3.client("s3"), names.bucket),
            )
    except StateError as error:
        raise NotFoundError(str(error)) from error


def _items_of(results: Results, what: str) -> list[dict[str, Any]]:
    if "/" in what:
        current = results.query.current(what)
        found = [] if current is None else [current]
    else:
        found = [item for item in results.query.by_job(what) if "verdict_key" in item]
    if not found:
        raise NotFoundError(f"no verdict for {what!r}; `rootrank list` shows what there is")
    return found


def _revision(results: Results, item: dict[str, Any], revision: int | None) -> dict[str, Any]:
    if revision is None or item["revision"] == revision:
        return item
    for each in results.query.by_attempt(item["attempt_key"]):
        if each["sk"].startswith("REV#") and each["revision"] == revision:
            return each
    raise NotFoundError(
        f"{item['attempt_key']} has no revision {revision}; the newest is {item['revision']}"
    )


def _by_node(
    query: "ResultsQuery", cluster: str | None, node: str, *, since: str | None
) -> Iterator[dict[str, Any]]:
    clusters = [cluster] if cluster else sorted({each for each, _ in query.days()})
    found = [item for each in clusters for item in query.by_node(each, node, since)]
    yield from sorted(found, key=lambda item: item["ended_key"], reverse=True)


def _by_day(
    query: "ResultsQuery", cluster: str | None, since: str | None
) -> Iterator[dict[str, Any]]:
    by_day: dict[str, list[str]] = {}
    for each, day in query.days(cluster):
        if since is None or day >= since[:10]:
            by_day.setdefault(day, []).append(each)
    for day in sorted(by_day, reverse=True):
        found = [item for each in by_day[day] for item in query.by_day(each, day, since)]
        yield from sorted(found, key=lambda item: item["ended_key"], reverse=True)


def _chosen(
    items: Iterable[dict[str, Any]], is_wanted: Callable[[dict[str, Any]], bool], *, limit: int
) -> list[dict[str, Any]]:
    chosen = []
    for item in items:
        if is_wanted(item):
            chosen.append(item)
            if len(chosen) == limit:
                break
    return chosen


def _row(item: dict[str, Any]) -> dict[str, Any]:
    named = (
        "attempt_key", "revision", "status", "cluster", "scheduler", "job_id", "name", "end",
        "terminal_state", "domain", "failure_class", "quality", "summary", "culprits",
        "suspects", "node", "role",
    )  # fmt: skip
    return {name: item[name] for name in named if name in item}


def _print_rows(rows: list[dict[str, Any]], form: str | None) -> None:
    if not is_text(form):
        if form == "jsonl":
            for row in rows:
                click.echo(json.dumps(row, sort_keys=True, ensure_ascii=False))
        else:
            click.echo(json.dumps(rows, sort_keys=True, ensure_ascii=False, indent=1))
        return
    if not rows:
        click.echo("no verdicts", err=True)
        return
    for row in rows:
        row["nodes"] = ",".join(row.get("culprits", [])) or row.get("role", "")
    table = [[title for _, title in _COLUMNS]]
    table += [[str(row.get(name) or "-") for name, _ in _COLUMNS] for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(_COLUMNS))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _since(text: str | None) -> str | None:
    if text is None:
        return None
    if match := _AGO.match(text):
        age = timedelta(**{_UNITS[match[2]]: int(match[1])})
        return rfc3339(to_us(datetime.now(UTC) - age))
    try:
        return rfc3339(to_us(parse_rfc3339(text)))
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is neither a time (2026-01-31T12:00:00Z) nor an age (12h, 7d)",
            param_hint="--since",
        ) from error


def _cluster(text: str | None) -> str | None:
    return text if text is None or "/" in text else f"default/{text}"
