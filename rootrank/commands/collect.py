"""`rootrank collect`: run plan items, of a file or a queue, next to logs that never leave."""

import os
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
from pydantic import ValidationError

from connectors.protocol import Connector, SourceNotConfiguredError
from connectors.registry import connector_for
from connectors.schedulers.record import NAME as RECORD
from connectors.schedulers.record import RecordConnector
from connectors.site import Site, SiteError, load_site
from connectors.static import NAME as STATIC
from connectors.static import FolderSource, StaticConnector
from engine.extract.redact import Redactor
from engine.model.contract import Document
from engine.model.observation import Observation, StreamSummary, encode
from engine.model.plan import PlanItem, Report
from engine.model.workload import Workload
from functions.adapters.exchange import open_exchange
from functions.adapters.site_file import redactor_of
from functions.adapters.site_sources import SiteConnector, aws_outside
from functions.collect.collection import CollectedItem, Collecting, collect_item
from functions.collect.outside import OutsideRunner
from functions.scope.planning import WORKLOAD
from rootrank.commands.attribute import EXIT_BAD_INPUT, open_book
from rootrank.edge import is_hand_over, run_hand_over, serve_queue
from rootrank.kept import kept_scanner

EXIT_UNREACHABLE = 3


class EdgeTask(Document):
    """One item with the workload it belongs to: what an edge runner is handed."""

    item: PlanItem
    workload: Workload


@click.command(name="collect")
@click.option(
    "--item",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    help='A JSON file with {"item": <plan item>, "workload": <workload>}, or a hand-over.',
)
@click.option("--queue", "url", help="Take items from this queue, until stopped.")
@click.option("--once", is_flag=True, help="With --queue: end as soon as the queue is empty.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where <item id>.observations.jsonl and <item id>.report.json are written.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the evidence (default: the item's base_uri).",
)
@click.option("--rules", "folder", type=click.Path(path_type=Path), help="The folder of rules.")
@click.option(
    "--sources",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The site file, for items of the sources that it configures.",
)
@click.pass_context
def collect_command(
    context: click.Context,
    *,
    path: Path | None,
    url: str | None,
    once: bool,
    output: Path,
    root: Path | None,
    folder: Path | None,
    sources: Path | None,
) -> None:
    """Run items of plans here: one of a file, or those that a queue hands over.

    An item of a file leaves its observations and its report in --output; a hand-over leaves them
    where the workflow looks. Exit code 3 where the item's source could not be read at all.
    """
    if (path is None) == (url is None):
        raise click.UsageError("give either --item or --queue")
    if url is not None:
        serve_queue(url, _outside(sources, folder), is_once=once)
        return
    assert path is not None
    if is_hand_over(path):
        _print(context, run_hand_over(path, _outside(sources, folder)))
        return
    task = _read_task(path)
    connector = _site_connector(task.item, sources) or _connector(
        task.item, root, relative_to=path.parent
    )
    book = open_book(folder)
    result = collect_item(
        task.item,
        workload=task.workload,
        connector=connector,
        collecting=Collecting(book=book, scanner=kept_scanner(book), redactor=_redactor(sources)),
    )
    _write(result, output)
    _print(context, result.report)


def _print(context: click.Context, report: Report) -> None:
    click.echo(report.model_dump_json())
    if report.status in ("error", "skipped"):
        click.echo(f"rootrank: {report.reason}", err=True)
        context.exit(EXIT_UNREACHABLE)


def _outside(sources: Path | None, folder: Path | None) -> OutsideRunner:
    book = open_book(folder)

    def connector_of(item: PlanItem) -> Connector | None:
        if item.connector == RECORD:
            return RecordConnector()
        return None if sources is None else SiteConnector(lambda: _site(sources))

    return OutsideRunner(
        open_exchange(), book, kept_scanner(book), _redactor(sources), connector_of, time.monotonic
    )


def _read_task(path: Path) -> EdgeTask:
    try:
        return EdgeTask.model_validate_json(path.read_bytes())
    except OSError as error:
        raise _BadInputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise _BadInputError(
            f"{path}: {place}: {first['msg']}; take the item from a plan and add its workload"
        ) from error


class _BadInputError(click.ClickException):
    exit_code = EXIT_BAD_INPUT


def _site(sources: Path) -> Site:
    return load_site(sources, os.environ)


def _redactor(sources: Path | None) -> Redactor:
    try:
        return Redactor() if sources is None else redactor_of(_site(sources))
    except SiteError as error:
        raise _BadInputError(str(error)) from error


def _site_connector(item: PlanItem, sources: Path | None) -> Connector | None:
    if sources is None:
        return None
    try:
        return connector_for(_site(sources), item, aws_outside())
    except (SiteError, SourceNotConfiguredError) as error:
        raise _BadInputError(str(error)) from error


def _connector(item: PlanItem, root: Path | None, *, relative_to: Path) -> Connector | None:
    if item.connector == WORKLOAD:
        return None
    if item.connector == RECORD:
        return RecordConnector()
    if item.connector != STATIC:
        known = f"{RECORD}, {STATIC}, {WORKLOAD} and, with --sources, what a site configures"
        raise _BadInputError(f"connector {item.connector!r} cannot be run here; known are {known}")
    place = root or _local(item.base_uri, relative_to)
    if not place.is_dir():
        raise _BadInputError(f"{place}: no such folder; name it with --root")
    return StaticConnector(FolderSource(place))


def _local(base_uri: str | None, relative_to: Path) -> Path:
    if base_uri is None:
        return relative_to
    parts = urlsplit(base_uri)
    if parts.scheme not in ("", "file"):
        raise _BadInputError(f"{base_uri}: not on this machine; name a local folder with --root")
    return relative_to / unquote(parts.path)


def _write(result: CollectedItem, output: Path) -> None:
    output.mkdir(parents=True, exist_ok=True)
    name = "".join(
        char if char.isalnum() or char in "-_." else "_" for char in result.report.item_id
    )
    items: list[Observation | StreamSummary] = [*result.observations, *result.summaries]
    (output / f"{name}.observations.jsonl").write_bytes(encode(items))
    text = result.report.model_dump_json(indent=2) + "\n"
    (output / f"{name}.report.json").write_text(text, encoding="utf-8")
