"""`rootrank backfill`: events of jobs that ended earlier, put where the bus would have put them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from connectors.protocol import ConnectorError
from functions.query.plain import counted
from rootrank.results_source import UnreachableError, state_option

_BATCH: Final = 10
"""SendMessageBatch takes so many."""
_UNADMITTED: Final = 1


class EventsError(click.ClickException):
    """A file of events that cannot be used."""

    exit_code = 2


@click.command(name="backfill")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option("--queue", help="URL of a stack's admission queue, instead of the embedded AWS.")
@click.option(
    "--per-second",
    type=click.FloatRange(min=0.1, max=1000),
    default=5.0,
    show_default=True,
    help="Events a second with --queue, so that today's failures do not wait behind old ones.",
)
@click.option("--dry-run", is_flag=True, help="Check the events and send none.")
@state_option
@click.pass_context
def backfill_command(
    context: click.Context,
    files: tuple[Path, ...],
    *,
    queue: str | None,
    per_second: float,
    dry_run: bool,
    state: Path,
) -> None:
    """Admit events of past jobs: EventBridge events as JSON, one a file or one a line.

    Every event is checked before the first is sent. Attempts that are known already change
    nothing, so an interrupted backfill is simply run again.
    """
    events = [(place, event) for path in files for place, event in _events(path)]
    problems = [told for place, event in events if (told := _problem(place, event))]
    for told in problems:
        click.echo(told, err=True)
    if problems:
        raise EventsError(
            f"{len(problems)} of {counted(len(events), 'event')} cannot be admitted; none sent"
        )
    if dry_run:
        click.echo(f"{counted(len(events), 'event')} can be admitted; none sent")
        return
    bodies = [event for _, event in events]
    if queue is not None:
        _send(bodies, queue, per_second=per_second)
        click.echo(f"{counted(len(bodies), 'event')} sent to {queue}")
        return
    failed, dead = _run(bodies, state)
    click.echo(
        f"{counted(len(bodies), 'event')} admitted, {counted(failed, 'workflow')} failed, "
        f"{counted(dead, 'event')} refused"
    )
    if failed or dead:
        context.exit(_UNADMITTED)


def _events(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EventsError(f"{path}: cannot be read ({error})") from error
    with suppress(ValueError):
        whole = json.loads(text)
        yield str(path), whole
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield f"{path}:{number}", json.loads(line)
        except ValueError as error:
            raise EventsError(f"{path}:{number}: not JSON ({error})") from error


def _problem(place: str, event: Any) -> str | None:
    from functions.scope.reception import receive  # noqa: PLC0415

    if not isinstance(event, dict):
        return f"{place}: must be one JSON object, an EventBridge event"
    try:
        receive(json.dumps(event))
    except (ConnectorError, ValueError) as error:
        return f"{place}: {error}"
    return None


def _send(
    events: list[Any],
    queue: str,
    *,
    per_second: float,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    import boto3  # noqa: PLC0415

    from functions.adapters.faults import AWS_ERRORS, error_code  # noqa: PLC0415

    client = boto3.client("sqs")
    for start in range(0, len(events), _BATCH):
        batch = events[start : start + _BATCH]
        if start:
            sleep(len(batch) / per_second)
        try:
            answer = client.send_message_batch(
                QueueUrl=queue,
                Entries=[
                    {"Id": str(number), "MessageBody": json.dumps(event)}
                    for number, event in enumerate(batch)
                ],
            )
        except AWS_ERRORS as error:
            raise UnreachableError(
                f"{queue}: {error_code(error)} after {start} events; allow sqs:SendMessage and run "
                "it again, events that are known change nothing"
            ) from error
        if failed := answer.get("Failed"):
            raise UnreachableError(
                f"{queue}: {len(failed)} events were refused ({failed[0].get('Code')}) after "
                f"{start}; run it again"
            )


def _run(events: list[Any], state: Path) -> tuple[int, int]:
    from rootrank.embedded.stack import open_stack  # noqa: PLC0415
    from rootrank.embedded.state import StateError  # noqa: PLC0415

    try:
        with open_stack(state) as stack:
            for event in events:
                stack.put_event(event)
            stack.settle()
            return len(stack.failed), len(stack.dead_letters())
    except StateError as error:
        raise EventsError(str(error)) from error
