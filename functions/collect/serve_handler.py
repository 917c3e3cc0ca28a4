"""Lambda entry point of collection in a spoke account: items that were handed over to it."""

import os
import time
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.adapters.exchange import open_exchange
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.runner_queue import open_workflow
from functions.adapters.site_file import site_redactor
from functions.adapters.site_sources import site_connector
from functions.adapters.tracing import traced
from functions.collect.outside import OutsideRunner, answer, read_hand_over
from functions.collect.pace import collect_rarely

logger = Logger(service="rootrank")
collect_rarely()
_RESERVE_MS = 20_000
"""Kept back from the function's time to store what there is."""


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
