"""`rootrank show` and `rootrank list`: results from the table."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.model.verdict import Verdict
from rootrank.results_source import (
    NotFoundError,
    bucket_option,
    filter_options,
    full_cluster,
    open_results,
    read_time,
    state_option,
    table_option,
)

if TYPE_CHECKING:
    from functions.adapters.results import Page, Result, Results

_COLUMNS: Final = (
    ("end", "ENDED"),
    ("cluster", "CLUSTER"),
    ("job_id", "JOB"),
    ("terminal_state", "STATE"),
    ("domain", "DOMAIN"),
    ("failure_class", "CLASS"),
    ("quality", "QUALITY"),
    ("nodes", "NODES"),
)
_ROW: Final = (
    "attempt_key", "revision", "status", "cluster", "scheduler", "job_id", "name", "user", "end",
    "terminal_state", "domain", "failure_class", "quality", "summary", "culprits", "suspects",
    "node", "role", "gpu",
)  # fmt: skip

format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "jsonl"]),
    help="Default: text on a terminal, else json.",
)


@click.command(name="show")
@click.argument("what", metavar="JOB|ATTEMPT")
@click.option("--revision", type=click.IntRange(min=1), help="An earlier revision.")
@state_option
@table_option
@bucket_option
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
    if table is not None and not bucket:
        raise click.UsageError("--table needs --bucket, where the verdicts' documents are")
    with open_results(state, table, bucket=bucket) as results:
        first, *others = _attempts(results, what)
        wanted = first if revision is None else _revision(results, first, revision)
        document = results.document(wanted)
    for other in others:
        click.echo(f"also attempt {other.attempt_key}", err=True)
    print_verdict(document, form)


@click.command(name="list")
@click.option("--job", "job_id", help="Only attempts of one job id.")
@click.option("--node", help="Only attempts in which this node has a part.")
@click.option("--gpu", help="Only attempts in which the GPU of this serial or UUID has a part.")
@filter_options
@click.option("--limit", type=click.IntRange(min=1, max=10_000), default=50, show_default=True)
@click.option("--cursor", help="Go on where an earlier page ended.")
@click.option("--paged", is_flag=True, help='JSON as {"results": [...], "cursor": ...}.')
@state_option
@table_option
@format_option
def list_command(
    job_id: str | None,
    node: str | None,
    gpu: str | None,
    *,
    cluster: str | None,
    domain: str | None,
    failure_class: str | None,
    terminal_state: str | None,
    quality: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
    paged: bool,
    state: Path,
    table: str | None,
    form: str | None,
) -> None:
    """List current verdicts, newest first."""
    from functions.adapters.results import CursorError, Selection  # noqa: PLC0415

    selection = Selection(
        job_id=job_id,
        node=node,
        gpu=gpu,
        cluster=full_cluster(cluster),
        domain=domain,
        failure_class=failure_class,
        terminal_state=terminal_state,
        quality=quality,
        since=read_time(since, hint="--since"),
        until=read_time(until, hint="--until"),
    )
    try:
        with open_results(state, table) as results:
            page = results.gather(selection, limit=limit, cursor=cursor)
    except CursorError as error:
        raise click.BadParameter(str(error), param_hint="--cursor") from error
    _print_page(page, form, paged=paged)


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


def print_json(value: Any, *, indent: int | None = 1) -> None:
    """Print JSON with sorted keys."""
    click.echo(json.dumps(value, sort_keys=True, ensure_ascii=False, indent=indent))


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, the titles first; what log lines smuggled in is made harmless."""
    from rootrank.text import printable  # noqa: PLC0415

    table = [list(titles)]
    table += [[printable(cell).replace("\n", " ") or "-" for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(len(titles))]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _attempts(results: "Results", what: str) -> "list[Result]":
    from functions.adapters.results import Selection  # noqa: PLC0415

    if "/" in what:
        current = results.current(what)
        found = [] if current is None else [current]
    else:
        found = list(results.page(Selection(job_id=what)).results)
    if not found:
        raise NotFoundError(f"no verdict for {what!r}; `rootrank list` shows what there is")
    return found


def _revision(results: "Results", result: "Result", revision: int) -> "Result":
    found = results.revision(result.attempt_key, revision)
    if found is None:
        raise NotFoundError(
            f"{result.attempt_key} has no revision {revision}; the newest is {result.revision}"
        )
    return found


def _print_page(page: "Page", form: str | None, *, paged: bool) -> None:
    if is_text(form):
        if page.results:
            print_table([title for _, title in _COLUMNS], [_cells(each) for each in page.results])
        else:
            click.echo("no verdicts", err=True)
    else:
        rows = [_row(each) for each in page.results]
        if form == "jsonl":
            for row in rows:
                print_json(row, indent=None)
        else:
            print_json({"results": rows, "cursor": page.cursor} if paged else rows)
    if page.cursor is not None and not paged:
        click.echo(f"there are more: --cursor {page.cursor}", err=True)


def _row(result: "Result") -> dict[str, Any]:
    told = result.model_dump(mode="json", include=set(_ROW), exclude_none=True)
    return {name: told[name] for name in _ROW if name in told}


def _cells(result: "Result") -> list[str]:
    named = result.role or ",".join(result.culprits) or ",".join(f"{n}?" for n in result.suspects)
    told = {**_row(result), "nodes": named}
    return [str(told.get(name) or "-") for name, _ in _COLUMNS]
