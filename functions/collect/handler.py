"""Lambda entry point of collect: one packed item, from source to receipt."""

import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.telemetry.settings import CLUSTER
from functions.adapters.leases import Leases
from functions.adapters.metering import emit
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.services import connect
from functions.adapters.site_file import site_redactor
from functions.adapters.site_rules import site_rules
from functions.adapters.site_sources import site_connector, source_limit
from functions.adapters.tracing import traced
from functions.collect.pace import collect_rarely
from functions.collect.running import PATIENT_RETRIES, CollectTask, Running

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
    capsules: list[int] = []
    running = Running(
        services.store,
        book,
        scanners.scanner_of(book),
        time.monotonic,
        site_connector,
        site_redactor(),
        meter.read,
        gate=partial(gate, Leases(services.table, time.time)),
        keeps_capsules=services.settings.capsule_days > 0,
        on_capsules=capsules.append,
    )
    report = running.run(task, seconds=seconds).report
    told = {"attempt_key": task.attempt_key, "capsule_bytes": sum(capsules)}
    logger.info("collected", extra={**told, **report.model_dump()})
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
