"""Where results are read: the embedded AWS of a state folder, or a real account's table."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.vocabulary import DOMAINS, TERMINAL_STATES

if TYPE_CHECKING:
    from functions.adapters.results import Results

DEFAULT_STATE: Final = Path(".rootrank")
_AGO: Final = re.compile(r"^(\d{1,5})([mhdw])$")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

Command = Callable[..., Any]

state_option = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_STATE,
    show_default=True,
    help="Folder that holds the embedded AWS.",
)
table_option = click.option("--table", help="A real account's table instead of the embedded one.")
bucket_option = click.option("--bucket", help="The bucket that belongs to --table.")
_FILTERS: Final = (
    click.option("--cluster", help="A cluster, or tenant/cluster."),
    click.option("--domain", type=click.Choice(DOMAINS), help="Only causes of one domain."),
    click.option("--class", "failure_class", help="Only one failure class."),
    click.option(
        "--terminal-state", type=click.Choice(TERMINAL_STATES), help="Only jobs that ended so."
    ),
    click.option(
        "--quality",
        type=click.Choice(("definitive", "probable", "ambiguous", "insufficient")),
        help="Only verdicts of one level.",
    ),
    click.option("--since", help="RFC 3339 time, or an age such as 12h, 7d (of the job's end)."),
    click.option("--until", help="As --since, excluded."),
)


class NotFoundError(click.ClickException):
    """A job, attempt or state folder that is not there."""

    exit_code = 2


class UnreachableError(click.ClickException):
    """A table or bucket that does not answer, or refuses."""

    exit_code = 3


def filter_options(command: Command) -> Command:
    """Add the filters that `list`, `nodes` and `trends` share."""
    return reduce(lambda inner, option: option(inner), reversed(_FILTERS), command)


@contextmanager
def open_results(
    state: Path, table: str | None = None, *, bucket: str | None = None
) -> "Iterator[Results]":
    """Open the results; raises `NotFoundError` for an empty state, `UnreachableError` for AWS's."""
    from connectors.protocol import ConnectorError  # noqa: PLC0415
    from functions.adapters.object_store import ObjectMissingError  # noqa: PLC0415

    try:
        if table is not None:
            yield results_of(table, bucket or "")
            return
        from rootrank.embedded.state import StateError  # noqa: PLC0415

        if not (state / "table.jsonl").is_file():
            raise NotFoundError(f"{state}: holds no results yet; `rootrank run EVENT.json` first")
        try:
            found = results_of_folder(state)
        except StateError as error:
            raise NotFoundError(str(error)) from error
        yield found
    except ObjectMissingError as error:
        raise NotFoundError(f"{error}: its lifetime is over, or --bucket is another's") from error
    except ConnectorError as error:
        raise UnreachableError(str(error)) from error


def results_of(table: str, bucket: str) -> "Results":
    """Return a client for a table and its bucket, in the account that the environment names."""
    import boto3  # noqa: PLC0415

    from functions.adapters.object_store import ObjectStore  # noqa: PLC0415
    from functions.adapters.results import Results  # noqa: PLC0415
    from functions.adapters.results_query import ResultsQuery  # noqa: PLC0415

    query = ResultsQuery(boto3.client("dynamodb"), table)
    return Results(query, ObjectStore(boto3.client("s3"), bucket))


def results_of_folder(state: Path) -> "Results":
    """Return a client for what a state folder holds now; raises `StateError`."""
    from functions.adapters.object_store import ObjectStore  # noqa: PLC0415
    from functions.adapters.results import Results  # noqa: PLC0415
    from functions.adapters.results_query import ResultsQuery  # noqa: PLC0415
    from rootrank.embedded.folder_bucket import FolderBucket  # noqa: PLC0415
    from rootrank.embedded.folder_table import FolderTable  # noqa: PLC0415
    from rootrank.embedded.state import read_lines  # noqa: PLC0415

    table: Any = FolderTable(read_lines(state / "table.jsonl"))
    objects: Any = FolderBucket(state)
    return Results(ResultsQuery(table, "embedded"), ObjectStore(objects, "embedded"))


def read_time(text: str | None, *, hint: str) -> str | None:
    """Return RFC 3339 in UTC of a time or an age; raises `click.BadParameter`."""
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
            param_hint=hint,
        ) from error


def full_cluster(text: str | None) -> str | None:
    """Return `tenant/cluster`; a bare cluster is the default tenant's."""
    return text if text is None or "/" in text else f"default/{text}"
