"""`rootrank replay`: earlier attempts with another ruleset, with a diff of the verdicts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rootrank.commands.results import format_option, is_text
from rootrank.commands.rule_options import count, loaded_book, rules_option, site_option
from rootrank.results_source import (
    NotFoundError,
    UnreachableError,
    bucket_option,
    full_cluster,
    open_results,
    read_time,
    results_of,
    state_option,
    table_option,
)

if TYPE_CHECKING:
    from functions.adapters.results import Result, Results
    from rootrank.replaying import Replayed

_DIFFERS = 1


@click.command(name="replay")
@click.argument("attempts", metavar="[JOB|ATTEMPT]...", nargs=-1)
@click.option("--cluster", help="Every result of a cluster, or tenant/cluster.")
@click.option("--class", "failure_class", help="Only one failure class.")
@click.option("--since", help="RFC 3339 time, or an age such as 12h, 7d (of the job's end).")
@click.option("--until", help="As --since, excluded.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option(
    "--mode",
    type=click.Choice(["auto", "reasoning", "source", "capsule"]),
    default="auto",
    show_default=True,
    help="reasoning: the stored observations; source: the evidence in the bucket, read again; "
    "capsule: the excerpts kept of it.",
)
@click.option("--check", is_flag=True, help="Exit code 1 where a verdict differs.")
@rules_option
@site_option
@state_option
@table_option
@bucket_option
@format_option
@click.pass_context
def replay_command(
    context: click.Context,
    attempts: tuple[str, ...],
    *,
    cluster: str | None,
    failure_class: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    mode: Any,
    check: bool,
    folder: Path,
    site: Path | None,
    state: Path,
    table: str | None,
    bucket: str | None,
    form: str | None,
) -> None:
    """Judge stored results again with the rules of this release, or others; nothing is changed.

    Without arguments the newest --limit results are replayed. Each says its mode: `reasoning` is
    exact, `source` reads the bundle again, `capsule` only the excerpts kept of the evidence, and
    `none` says why nothing could be had.
    """
    from functions.adapters.results import Selection  # noqa: PLC0415
    from rootrank.kept import kept_scanner  # noqa: PLC0415
    from rootrank.replaying import Replaying, replay_all  # noqa: PLC0415

    book = loaded_book(folder, site)
    selection = Selection(
        cluster=full_cluster(cluster),
        failure_class=failure_class,
        since=read_time(since, hint="--since"),
        until=read_time(until, hint="--until"),
    )
    with _opened(state, table, bucket=bucket) as results:
        chosen = _chosen(results, attempts, selection, limit=limit)
        scanner = cache(lambda: kept_scanner(book))
        replayed = replay_all(Replaying(results, book, scanner), chosen, mode)
    _print(replayed, form)
    if check and any(each.differences for each in replayed):
        context.exit(_DIFFERS)


@contextmanager
def _opened(state: Path, table: str | None, *, bucket: str | None) -> "Iterator[Results]":
    """Open the results with a bucket that lists and streams, as reading evidence again needs."""
    if table is not None:
        with open_results(state, table, bucket=bucket) as results:
            yield results
        return
    from connectors.protocol import ConnectorError  # noqa: PLC0415
    from rootrank.embedded.stack import open_storage  # noqa: PLC0415
    from rootrank.embedded.state import StateError  # noqa: PLC0415

    try:
        with open_storage(state) as names:
            yield results_of(names.table, names.bucket)
    except StateError as error:
        raise NotFoundError(str(error)) from error
    except ConnectorError as error:
        raise UnreachableError(str(error)) from error


def _chosen(
    results: "Results", attempts: tuple[str, ...], selection: Any, *, limit: int
) -> "list[Result]":
    from functions.adapters.results import Selection  # noqa: PLC0415

    if not attempts:
        found = list(results.gather(selection, limit=limit).results)
        if not found:
            raise NotFoundError("no result fits; `rootrank list` shows what there is")
        return found
    chosen = []
    for each in attempts:
        if "/" in each:
            current = results.current(each)
            found = [] if current is None else [current]
        else:
            found = list(results.walk(Selection(job_id=each), at_most=limit))
        if not found:
            raise NotFoundError(f"no verdict for {each!r}; `rootrank list` shows what there is")
        chosen += found
    return chosen


def _print(replayed: "list[Replayed]", form: str | None) -> None:
    rows = [each.row() for each in replayed]
    if form == "jsonl":
        for row in rows:
            click.echo(json.dumps(row, sort_keys=True, ensure_ascii=False))
        return
    if not is_text(form):
        click.echo(json.dumps(rows, sort_keys=True, ensure_ascii=False, indent=1))
        return
    for each in replayed:
        told = "differs" if each.differences else "same" if each.verdict is not None else "unknown"
        click.echo(f"{told:<8} {each.mode:<10} {each.attempt_key} (revision {each.revision})")
        if each.reason is not None:
            click.echo(f"         {each.reason}")
        for name, (before, after) in sorted(each.differences.items()):
            click.echo(f"         {name}: {before or '-'} -> {after or '-'}")
    differing = sum(bool(each.differences) for each in replayed)
    unknown = sum(each.verdict is None for each in replayed)
    click.echo(
        f"{count(len(replayed), 'result')} replayed with rules {replayed[0].rules_after}: "
        f"{differing} differ, {unknown} could not be judged"
    )
