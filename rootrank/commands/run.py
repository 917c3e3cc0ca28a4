"""`rootrank run`: one scheduler event through the whole pipeline on the embedded AWS."""

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from connectors.protocol import ConnectorError
from engine.model.canonical import canonical_json
from engine.model.identity import attempt_key
from rootrank.commands.results import format_option, is_text, print_verdict
from rootrank.results_source import state_option

_INVALID: Final = 2
_INTERNAL: Final = 4


@dataclass(slots=True)
class Outcome:
    """What a run left: the pointer from the table, the verdict's bytes, the messages."""

    current: dict[str, Any] | None
    verdict: bytes | None
    messages: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    failed: list[str]


class WorkflowFailedError(click.ClickException):
    """The workflow ended without a verdict, or without announcing it."""

    exit_code = _INTERNAL


class EventFileError(click.ClickException):
    """An event file that cannot be used."""

    exit_code = _INVALID


@click.command(name="run")
@click.argument("event_file", metavar="EVENT.json", type=click.Path(path_type=Path))
@state_option
@format_option
@click.option("--quiet", "-q", is_flag=True, help="No progress on stderr.")
@click.pass_context
def run_command(
    context: click.Context, event_file: Path, *, state: Path, form: str | None, quiet: bool
) -> None:
    """Send one scheduler event through rules, queue, workflow, table and topic.

    Everything runs in this process on an emulated AWS: no account, no network. A `bundle_uri`
    that is a local folder, relative to EVENT.json, is copied into the emulated bucket first.
    """
    event = read_event(event_file)
    outcome = _run(event, event_file, state=state, quiet=quiet)
    if outcome.failed and outcome.verdict is None:
        raise WorkflowFailedError(f"the workflow failed; {state}/functions.jsonl says why")
    if outcome.current is None or outcome.verdict is None:
        if outcome.dead_letters:
            raise EventFileError(
                f"{event_file}: could not be admitted; see {state}/functions.jsonl"
            )
        click.echo(
            "nothing to attribute: the job ended well or its event matches no rule", err=True
        )
        return
    print_verdict(outcome.verdict, form)
    _print_messages(outcome, form)
    if outcome.failed:
        raise WorkflowFailedError(f"the verdict was not announced; see {state}/functions.jsonl")
    context.exit(0)


def read_event(path: Path) -> dict[str, Any]:
    """Read and check an event file; raises `EventFileError` naming what is wrong."""
    from functions.scope.reception import receive  # noqa: PLC0415

    try:
        event = json.loads(path.read_bytes())
    except OSError as error:
        raise EventFileError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise EventFileError(f"{path}: not JSON ({error})") from error
    if not isinstance(event, dict):
        raise EventFileError(f"{path}: must hold one JSON object, an EventBridge event")
    try:
        receive(json.dumps(event))
    except (ConnectorError, ValueError) as error:
        raise EventFileError(f"{path}: {error}") from error
    return event


def _run(event: dict[str, Any], event_file: Path, *, state: Path, quiet: bool) -> Outcome:
    from functions.scope.reception import receive  # noqa: PLC0415

    try:
        from rootrank.embedded.progress import ProgressLines  # noqa: PLC0415
        from rootrank.embedded.stack import open_stack, silent  # noqa: PLC0415
        from rootrank.embedded.state import StateError  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise EventFileError(
            f"the embedded AWS needs the package {error.name}: pip install '.[embedded]'"
        ) from error
    progress = ProgressLines(sys.stderr)
    told = silent if quiet else progress
    try:
        with open_stack(state, on_progress=told) as stack:
            if not quiet:
                progress.line("stack", "up: bus, queue, workflow, bucket, table, topic")
            sent = _with_bundle(event, event_file, stack=stack)
            if not quiet:
                progress.line("event", f"{event['source']} / {event['detail-type']}")
            stack.put_event(sent)
            stack.settle()
            key = attempt_key(receive(json.dumps(sent)).workload)
            current, verdict = _read_back(stack, key)
            return Outcome(current, verdict, stack.messages(), stack.dead_letters(), stack.failed)
    except StateError as error:
        raise EventFileError(str(error)) from error


def _with_bundle(event: dict[str, Any], event_file: Path, *, stack: Any) -> dict[str, Any]:
    detail = event.get("detail")
    uri = detail.get("bundle_uri") if isinstance(detail, dict) else None
    if not isinstance(uri, str) or "://" in uri:
        return event
    folder = event_file.parent / uri
    if not folder.exists():
        raise EventFileError(
            f"{event_file}: bundle_uri {uri!r} is neither an s3:// URI nor a file or folder "
            f"beside the event ({folder})"
        )
    name = f"{folder.resolve().name}-{_content_name(folder)}"
    return {**event, "detail": {**event["detail"], "bundle_uri": stack.upload_bundle(folder, name)}}


def _content_name(folder: Path) -> str:
    """Return a short digest of names and bytes: the same bundle gets the same place."""
    hasher = hashlib.sha256()
    files = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
    for path in files:
        if path.is_file():
            hasher.update(os.fsencode(path.relative_to(folder)) + b"\0")
            with path.open("rb") as file:
                hasher.update(hashlib.file_digest(file, "sha256").digest())
    return hasher.hexdigest()[:12]


def _read_back(stack: Any, key: str) -> tuple[dict[str, Any] | None, bytes | None]:
    import boto3  # noqa: PLC0415

    from functions.adapters.object_store import ObjectStore  # noqa: PLC0415
    from functions.adapters.results_query import ResultsQuery  # noqa: PLC0415

    query = ResultsQuery(boto3.client("dynamodb"), stack.resources.table)
    current = query.current(key)
    if current is None:
        return None, None
    store = ObjectStore(boto3.client("s3"), stack.resources.bucket)
    return current, store.get(current["verdict_key"])[0]


def _print_messages(outcome: Outcome, form: str | None) -> None:
    """Show what the subscriber received: beside the verdict as text, else on stderr."""
    to_stderr = not is_text(form)
    if not outcome.messages:
        click.echo("no message: this verdict was announced before", err=to_stderr)
    for message in outcome.messages:
        body = message["body"]
        click.echo("", err=to_stderr)
        click.echo(
            f"message received (revision {body['revision']}, {body['status']}):", err=to_stderr
        )
        click.echo("  attributes  " + _pairs(message["attributes"]), err=to_stderr)
        click.echo("  body        " + canonical_json(body).decode(), err=to_stderr)


def _pairs(attributes: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(attributes.items()))
