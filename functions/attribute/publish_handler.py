"""Lambda entry point of publish: announce a stored revision."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.adapters.metering import emit
from functions.adapters.services import connect
from functions.adapters.tracing import traced
from functions.attribute.counting import micro_usd
from functions.attribute.publishing import PublishTask, announce

logger = Logger(service="rootrank")


@traced
def publish(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Announce one stored revision; consumers de-duplicate on (attempt, revision)."""
    task = parse(event=event, model=PublishTask)
    services = connect()
    told = announce(task, services.store, services.table, notifier=services.notifier)
    if told is None:
        logger.info("announced before", extra=task.model_dump())
        return {"message_id": ""}
    message_id, envelope = told
    logger.info("published", extra={**task.model_dump(), "message_id": message_id})
    emit({"MessagesPublished": 1, "CostMicroUsd": micro_usd(envelope)})
    return {"message_id": message_id}
