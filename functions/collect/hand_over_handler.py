"""Lambda entry point of hand-over: one item onto the queue of its runner outside."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.protocol import SourceNotConfiguredError
from functions.adapters.runner_queue import open_queue
from functions.adapters.services import connect
from functions.adapters.site_sources import runner_queue_of
from functions.adapters.tracing import traced
from functions.collect.handover import HandOverTask, make_hand_over, note_unanswered
from functions.scope.scoping import PlanMissingError, read_plan

logger = Logger(service="rootrank")


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
    keeps_capsules = services.settings.capsule_days > 0
    message = make_hand_over(task, services.store, keeps_capsules=keeps_capsules)
    open_queue(url).send(message.model_dump_json())
    logger.info("handed over", extra={**told, "runner": task.item.runner})
    return {"item_id": task.item.item_id, "status": "handed over"}
