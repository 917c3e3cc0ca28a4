"""`rootrank nodes` and `rootrank trends`: what comes back, and where."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from rootrank.commands.results import format_option, is_text, print_json, print_table
from rootrank.results_source import (
    filter_options,
    full_cluster,
    open_results,
    read_time,
    state_option,
    table_option,
)

if TYPE_CHECKING:
    from functions.adapters.results import Result, Selection
    from functions.query.tallies import Period, Subject, Trend

_DEFAULT_SINCE: Final = "30d"
_MAX_COLUMNS: Final = 8


@click.command(name="nodes")
@filter_options
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True)
@state_option
@table_option
@format_option
def nodes_command(
    *, limit: int, state: Path, table: str | None, form: str | None, **filters: str | None
) -> None:
    """List nodes by how often they were named culprit or suspect (default: the last 30 days).

    Of one node or GPU, `rootrank list --node NAME` and `--gpu SERIAL` show every part.
    """
    from functions.query.plain import counted  # noqa: PLC0415
    from functions.query.tallies import MAX_COUNTED, count_nodes  # noqa: PLC0415

    with open_results(state, table) as results:
        read = list(results.walk(_selection(filters), at_most=MAX_COUNTED + 1))
    tallies = count_nodes(read[:MAX_COUNTED])[:limit]
    _warn(is_complete=len(read) <= MAX_COUNTED)
    if not is_text(form):
        _print_rows([each.as_json() for each in tallies], form)
        return
    if not tallies:
        click.echo(f"no node was named in {counted(len(read), 'verdict')}", err=True)
        return
    rows = [
        [each.cluster, each.node, str(each.culprit), str(each.suspect), each.last,
         ", ".join(f"{name} {count}" for name, count in each.classes.most_common(3))]
        for each in tallies
    ]  # fmt: skip
    print_table(["CLUSTER", "NODE", "CULPRIT", "SUSPECT", "LAST", "CLASSES"], rows)


@click.command(name="trends")
@click.option(
    "--by", "period", type=click.Choice(("day", "week", "month")), default="week", show_default=True
)
@click.option(
    "--of",
    "subject",
    type=click.Choice(("domain", "failure_class", "terminal_state", "quality", "cluster", "user")),
    default="domain",
    show_default=True,
)
@filter_options
@state_option
@table_option
@format_option
def trends_command(
    *,
    period: "Period",
    subject: "Subject",
    state: Path,
    table: str | None,
    form: str | None,
    **filters: str | None,
) -> None:
    """Count verdicts by period and subject (default: the last 30 days)."""
    from functions.query.tallies import MAX_COUNTED, count_trend  # noqa: PLC0415

    with open_results(state, table) as results:
        found: Iterator[Result] = results.walk(_selection(filters), at_most=MAX_COUNTED + 1)
        trend = count_trend(found, period, subject=subject)
    _warn(is_complete=trend.is_complete)
    if is_text(form):
        _print_trend(trend)
    elif form == "jsonl":
        _print_rows(trend.as_json()["periods"], form)
    else:
        print_json(trend.as_json())


def _selection(filters: dict[str, str | None]) -> "Selection":
    from functions.adapters.results import Selection  # noqa: PLC0415

    return Selection(
        cluster=full_cluster(filters["cluster"]),
        domain=filters["domain"],
        failure_class=filters["failure_class"],
        terminal_state=filters["terminal_state"],
        quality=filters["quality"],
        since=read_time(filters["since"] or _DEFAULT_SINCE, hint="--since"),
        until=read_time(filters["until"], hint="--until"),
    )


def _print_rows(rows: Any, form: str | None) -> None:
    if form == "jsonl":
        for row in rows:
            print_json(row, indent=None)
    else:
        print_json(rows)


def _print_trend(trend: "Trend") -> None:
    if not trend.counted:
        click.echo("no verdicts in this time; --since 52w looks further back", err=True)
        return
    shown = list(trend.counts)[:_MAX_COLUMNS]
    rest = len(trend.counts) - len(shown)
    titles = [trend.period.upper(), "ALL", *(name.upper() for name in shown)]
    rows = []
    for index, start in enumerate(trend.starts):
        cells = [str(trend.counts[name][index] or ".") for name in shown]
        rows.append([start, str(trend.totals[index]), *cells])
    print_table(titles, rows)
    if rest:
        click.echo(f"{rest} rarer ones are in --format json", err=True)


def _warn(*, is_complete: bool) -> None:
    if not is_complete:
        click.echo("only the newest verdicts were counted; shorten the time", err=True)
