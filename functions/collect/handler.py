"""Lambda entry points of collect: one packed item, from source to receipt, here or outside."""

import os
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.protocol import SourceNotConfiguredError
from connectors.telemetry.settings import CLUSTER
from functions.adapters.exchange import open_exchange
from functions.adapters.leases import Leases
from functions.adapters.metering import emit
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.runner_queue import open_queue, open_workflow
from functions.adapters.services import connect
from functions.adapters.site_file import (
    runner_queue_of,
    site_connector,
    site_redactor,
    source_limit,
)
from functions.adapters.site_rules import site_rules
from functions.adapters.tracing import traced
from functions.collect.handover import HandOverTask, make_hand_over, note_unanswered
from functions.collect.outside import OutsideRunner, answer, read_hand_over
from functions.collect.pace import collect_rarely
from functions.collect.running import PATIENT_RETRIES, CollectTask, Running
from functions.scope.scoping import PlanMissingError, read_plan

logger = Logger(service="rootrank")
collect_rarely()
_RESERVE_MS = 20_000
"""Kept back from the function's time to store what there is."""


@traced
def collect(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Collect one item; a source that fails yields a report that says so."""
    task = parse(event=event, model=CollectTask)
    started = time.monotonic()
    seconds = max(1, (context.get_remaining_time_in_millis() - _RESERVE_MS) // 1000)
    services = connect()
    meter = services.start_meter(int(context.memory_limit_in_mb))
    book = site_rules.over(
        shipped_rulebook(),
        services.store,
        prefix=services.settings.site_rules,
        is_patient=task.retry_count < PATIENT_RETRIES,
    ).book
    running = Running(
        services.store,
        book,
        scanners.scanner_of(book),
        time.monotonic,
        site_connector,
        site_redactor(),
        meter.read,
        gate=partial(gate, Leases(services.table, time.time)),
    )
    report = running.run(task, seconds=seconds).report
    logger.info("collected", extra={"attempt_key": task.attempt_key, **report.model_dump()})
    emit(
        {"Items": 1, "BytesScanned": report.bytes, "Observations": report.observations},
        details={"connector": report.connector, "status": report.status},
        milliseconds={"Duration": int((time.monotonic() - started) * 1000)},
    )
    return {"item_id": report.item_id, "status": report.status}


def gate(leases: Leases, task: CollectTask) -> AbstractContextManager[None]:
    """Return a lease of the item's source, where the site says how many may ask it at once."""
    cluster_name = task.item.query.get(CLUSTER, "")
    at_once = source_limit(cluster_name, task.item.connector)
    if at_once is None:
        return nullcontext()
    owner = f"{task.attempt_key} {task.generation} {task.collection} {task.item.item_id}"
    return leases.held(f"{cluster_name}/{task.item.connector}", owner, at_once)


@traced
def hand_over(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Put one item on its runner's queue; with a `failure`, store that nobody answered."""
    task = parse(event=event, model=HandOverTask)
    services = connect()
    told = {"attempt_key": task.attempt_key, "item_id": task.item.item_id}
    if task.failure:
        plan = read_plan(services.store, task.plan_key)
        if plan is None:
            raise PlanMissingError(f"{task.plan_key}: the item's plan is not stored")
        receipt = note_unanswered(task, services.store, extraction_digest=plan.extraction_digest)
        logger.warning("no runner answered", extra={**told, "failure": task.failure.get("Error")})
        return {"item_id": task.item.item_id, "status": receipt.report.status}
    url = runner_queue_of(task.item) or services.settings.runner_queue_url
    if not url:
        raise SourceNotConfiguredError(
            f"{task.item.item_id}: no queue of runners; set runner_queue in sources.yaml"
        )
    open_queue(url).send(make_hand_over(task, services.store).model_dump_json())
    logger.info("handed over", extra={**told, "runner": task.item.runner})
    return {"item_id": task.item.item_id, "status": "handed over"}


@traced
def serve(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Run handed-over items in an account of their own (a spoke)."""
    book = shipped_rulebook()
    runner = OutsideRunner(
        open_exchange(),
        book,
        scanners.scanner_of(book),
        site_redactor(),
        site_connector,
        time.monotonic,
    )
    waiting = open_workflow(os.environ.get("HUB_ROLE_ARN", ""))

    def serve_record(record: SQSRecord) -> None:
        seconds = max(1, (context.get_remaining_time_in_millis() - _RESERVE_MS) // 1000)
        handed = read_hand_over(record.body)
        report = answer(handed, runner, waiting, seconds=seconds)
        told = {"item_id": handed.item_id, "attempt_key": handed.attempt_key}
        if report is None:
            logger.info("nobody waits for it any more", extra=told)
        else:
            logger.info("collected", extra={**told, **report.model_dump()})

    return process_partial_response(
        event=event,
        record_handler=serve_record,
        processor=BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False),
        context=context,
    )
