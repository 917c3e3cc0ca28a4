"""Lambda entry point of attribute: judge what was collected."""

import time
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from engine.pipeline import attribute as judge_case
from functions.adapters.metering import emit
from functions.adapters.rulebook import shipped_rulebook
from functions.adapters.services import connect
from functions.adapters.site_rules import site_rules
from functions.adapters.tracing import traced
from functions.attribute.counting import counts_of
from functions.attribute.judging import PATIENT_RETRIES, AttributeTask, Judging
from functions.collect.pace import collect_rarely
from functions.scope.claiming import Claims

logger = Logger(service="rootrank")
collect_rarely()


@traced
def attribute(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Attribute one collection and move CURRENT to its revision."""
    task = parse(event=event, model=AttributeTask)
    services = connect()
    meter = services.start_meter(int(context.memory_limit_in_mb))
    started = time.monotonic()
    rules = site_rules.over(
        shipped_rulebook(),
        services.store,
        prefix=services.settings.site_rules,
        is_patient=task.retry_count < PATIENT_RETRIES,
    )
    judging = Judging(
        claims=Claims(services.store, services.table),
        store=services.store,
        table=services.table,
        book=rules.book,
        rules_trouble=rules.trouble,
        attribute=judge_case,
        now=lambda: datetime.now(UTC),
        grace_seconds=services.settings.grace_seconds,
        result_days=services.settings.result_days,
        meter=meter.read,
    )
    judged, verdict = judging.judge(task)
    told = {name: getattr(verdict, name) for name in ("terminal_state", "domain", "failure_class")}
    logger.info(
        "attributed",
        extra={
            **task.model_dump(exclude={"workflow"}),
            **asdict(judged),
            **told,
            "quality": verdict.quality.level,
            "attribution_id": verdict.attribution_id,
        },
    )
    emit(
        counts_of(verdict),
        details={"domain": verdict.domain, "quality": verdict.quality.level},
        milliseconds={"Duration": int((time.monotonic() - started) * 1000)},
    )
    return asdict(judged)
