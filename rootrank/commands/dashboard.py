"""`rootrank dashboard`: the web view on loopback, over the embedded AWS or a real account."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rootrank.results_source import (
    NotFoundError,
    bucket_option,
    results_of,
    state_option,
    table_option,
)

if TYPE_CHECKING:
    from functions.adapters.results import Results

DEFAULT_PORT = 8600


@click.command(name="dashboard")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True,
    help="0 takes any that is free.",
)  # fmt: skip
@state_option
@table_option
@bucket_option
def dashboard_command(*, port: int, state: Path, table: str | None, bucket: str | None) -> None:
    """Show verdicts in a browser, on 127.0.0.1 only (Ctrl-C ends).

    Reads a state folder and follows it as `rootrank run` adds to it; with --table and --bucket a
    real account, by your own credentials. It only reads.
    """
    if table is not None and not bucket:
        raise click.UsageError("--table needs --bucket, where the verdicts' documents are")
    from rootrank.loopback import wait_until_told  # noqa: PLC0415

    with (
        _results(state, table, bucket) as results,
        _serving(results, port, state, table) as address,
    ):
        click.echo(f"rootrank is at {address}/  (Ctrl-C ends)", err=True)
        if table is None and not (state / "table.jsonl").is_file():
            click.echo(f"{state} holds no results yet; the page says how to make some", err=True)
        wait_until_told()


@contextmanager
def _results(
    state: Path, table: str | None, bucket: str | None
) -> "Iterator[Callable[[], Results | None]]":
    if table is not None:
        found = results_of(table, bucket or "")
        yield lambda: found
        return
    from rootrank.web.local_results import LocalResults  # noqa: PLC0415

    local = LocalResults(state)
    yield lambda: _told(local.current)


def _told(current: "Callable[[], Results | None]") -> "Results | None":
    """Return the folder's results; what became wrong with the folder is told on the page."""
    from functions.query.app import NothingThereError  # noqa: PLC0415
    from rootrank.embedded.state import StateError  # noqa: PLC0415

    try:
        return current()
    except StateError as error:
        raise NothingThereError(str(error)) from error


@contextmanager
def _serving(
    results: "Callable[[], Results | None]", port: int, state: Path, table: str | None
) -> Iterator[str]:
    from functions.adapters.site_file import site_redactor  # noqa: PLC0415
    from functions.query.app import View, build_app  # noqa: PLC0415
    from rootrank.web.server import WebServer  # noqa: PLC0415

    local = str(state) if table is None else None
    context: Any = None  # nothing here asks Lambda's context for anything
    app = build_app(View(results=results, redactor=site_redactor, local=local))
    try:
        server = WebServer(lambda event: app.resolve(event, context), port)
    except OSError as error:
        raise NotFoundError(
            f"127.0.0.1:{port} cannot be listened on ({error.strerror}); choose another --port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()
