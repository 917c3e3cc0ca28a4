"""Lambda entry point of collect: one packed item, from source to receipt."""

import time
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.adapters.metering import emit
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.services import connect
from functions.adapters.site_file import site_connector, site_redactor
from functions.adapters.site_rules import site_rules
from functions.collect.pace import collect_rarely
from functions.collect.running import PATIENT_RETRIES, CollectTask, Running

logger = Logger(service="rootrank")
collect_rarely()
_RESERVE_MS = 20_000
"""Kept back from the function's time to store what there is."""


def collect(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Collect one item; a source that fails yields a report that says so."""
    task = parse(event=event, model=CollectTask)
    started = time.monotonic()
    seconds = max(1, (context.get_remaining_time_in_millis() - _RESERVE_MS) // 1000)
    services = connect()
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
    )
    report = running.run(task, seconds=seconds).report
    logger.info("collected", extra={"attempt_key": task.attempt_key, **report.model_dump()})
    emit(
        {"Items": 1, "BytesScanned": report.bytes, "Observations": report.observations},
        dimensions={"connector": report.connector, "status": report.status},
        milliseconds={"Duration": int((time.monotonic() - started) * 1000)},
    )
    return {"item_id": report.item_id, "status": report.status}
