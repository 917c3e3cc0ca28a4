"""`rootrank serve`: the REST service on loopback, over the embedded AWS."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rootrank.results_source import NotFoundError, state_option

if TYPE_CHECKING:
    from rootrank.embedded.stack import Stack
    from rootrank.service.server import LocalServer

_PUMP_SECONDS = 0.2


@click.command(name="serve")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True)
@click.option("--tenant", default="default", show_default=True, help="Whose results are served.")
@state_option
def serve_command(*, port: int, tenant: str, state: Path) -> None:
    """Serve the REST API on 127.0.0.1: the deployed handler, on an emulated AWS.

    Nobody is authenticated, so nobody but this machine is let in. Sessions, results and
    corrections are kept in the state folder when the command ends (Ctrl-C).
    """
    try:
        from rootrank.embedded.stack import open_stack  # noqa: PLC0415
        from rootrank.embedded.state import StateError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise NotFoundError(
            f"the embedded AWS needs the package {error.name}: pip install '.[embedded]'"
        ) from error
    from rootrank.loopback import wait_until_told  # noqa: PLC0415

    # Standing up the emulated AWS takes seconds: silence would look like a hang.
    click.echo(f"starting the emulated AWS over {state} ...", err=True)
    try:
        with open_stack(state) as stack, serving(stack, port=port, tenant=tenant) as server:
            click.echo(f"ready: {server.address}/v1 for tenant {tenant}, state {state}", err=True)
            click.echo("docs/rest.md tells what there is; Ctrl-C ends and keeps", err=True)
            wait_until_told()
    except StateError as error:
        raise NotFoundError(str(error)) from error
    except OSError as error:
        raise NotFoundError(
            f"127.0.0.1:{port} cannot be listened on ({error.strerror}); choose another --port"
        ) from error
    click.echo(f"kept in {state}", err=True)


@contextmanager
def serving(stack: "Stack", *, port: int, tenant: str) -> "Iterator[LocalServer]":
    """Serve an open stack until the block ends; events are delivered meanwhile."""
    from functions.adapters.event_bus import connect_bus  # noqa: PLC0415
    from functions.adapters.services import connect  # noqa: PLC0415
    from functions.service.front import Front  # noqa: PLC0415
    from functions.service.handler import build_service  # noqa: PLC0415
    from rootrank.embedded.emulator import ONE_AT_A_TIME, LambdaContext  # noqa: PLC0415
    from rootrank.service.events import LOCAL_CALLER  # noqa: PLC0415
    from rootrank.service.server import LocalServer  # noqa: PLC0415
    from rootrank.service.uploads import LocalUploads  # noqa: PLC0415

    services = connect()
    uploads = LocalUploads(services.store)
    rights = ["read", "write", "correct"]
    mapping = {"iam": [{"principal": LOCAL_CALLER, "tenant": tenant, "may": rights}]}
    front = Front(
        build_service(
            services,
            bus=connect_bus(),
            signer=uploads,
            access=json.dumps(mapping),
            exclusive=lambda: ONE_AT_A_TIME,
        )
    )

    def answer(event: dict[str, Any]) -> dict[str, Any]:
        return front.answer(event, LambdaContext("service", 1024, "arn:aws:lambda:local"))

    server = LocalServer(answer, uploads, port)
    stopped = threading.Event()
    threads = [
        threading.Thread(target=server.serve_forever, daemon=True),
        threading.Thread(target=_pump, args=(stack, stopped), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        stopped.set()
        threads[1].join()
        stack.settle()


def _pump(stack: "Stack", stopped: threading.Event) -> None:
    """Deliver events as they come, as the queue's mapping does."""
    while not stopped.wait(_PUMP_SECONDS):
        stack.settle()
