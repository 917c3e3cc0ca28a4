"""A runner beside the logs: items of a queue, one after the other, or one hand-over of a file."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import click

from connectors.protocol import ConnectorError, TransientError
from engine.model.plan import Report
from functions.adapters.runner_queue import (
    RunnerQueue,
    Taken,
    WaitingWorkflow,
    open_queue,
    open_workflow,
    region_of,
)
from functions.collect.handover import SCHEMA
from functions.collect.outside import HandOverError, OutsideRunner, answer, read_hand_over

WAIT_S: Final = 20
PAUSE_S: Final = 10.0
SECONDS: Final = 3_300.0
"""An item's longest run: within the hour that its addresses are good for."""


def is_hand_over(path: Path) -> bool:
    """Whether a file holds a message of the queue."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and value.get("schema_version") == SCHEMA


def run_hand_over(path: Path, runner: OutsideRunner) -> Report:
    """Run the hand-over of a file and leave its results; the workflow hears nothing of it.

    It finds them all the same: a receipt counts, whoever waits.
    """
    try:
        return runner.run(read_hand_over(path.read_text(encoding="utf-8")), seconds=SECONDS)
    except ConnectorError as error:
        raise click.ClickException(str(error)) from error


def serve_queue(
    url: str,
    runner: OutsideRunner,
    *,
    is_once: bool,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Take items and answer them until the process is stopped or, once, the queue is empty.

    `pause` sleeps seconds, after a queue that could not be read.
    """
    try:
        queue, waiting = open_queue(url), open_workflow(region=region_of(url))
    except ConnectorError as error:
        raise click.ClickException(str(error)) from error
    click.echo(f"taking items from {url}", err=True)
    while True:
        try:
            taken = queue.take(0 if is_once else WAIT_S)
        except ConnectorError as error:
            if is_once or not isinstance(error, TransientError):
                raise click.ClickException(str(error)) from error
            click.echo(f"rootrank: {error}; trying again", err=True)
            pause(PAUSE_S)
            continue
        if taken is None:
            if is_once:
                return
            continue
        _serve(taken, queue, waiting, runner)


def _serve(
    taken: Taken, queue: RunnerQueue, waiting: WaitingWorkflow, runner: OutsideRunner
) -> None:
    """Answer one message. What a retry cures stays on the queue; all else is dropped."""
    try:
        handed = read_hand_over(taken.body)
        report = answer(handed, runner, waiting, seconds=SECONDS, renew=lambda: queue.renew(taken))
    except TransientError as error:
        click.echo(f"rootrank: {error}; the item stays on the queue", err=True)
        return
    except HandOverError as error:
        click.echo(f"rootrank: {error}", err=True)
    except ConnectorError as error:
        click.echo(f"rootrank: {error}; the item is dropped", err=True)
    else:
        if report is None:
            click.echo(f"rootrank: {handed.item_id}: nobody waits for it any more", err=True)
        else:
            click.echo(report.model_dump_json())
    queue.drop(taken)
