"""Lambda entry point of scope's first half: admit events behind SQS.

Beside the plan's entry point and not in it: admission needs a third of what planning imports, and
it is the function that starts cold while a job's user waits.
"""

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.schedulers.context import ContextEvent
from connectors.schedulers.scoped import UnfinishedEventError
from functions.adapters.metering import emit
from functions.adapters.services import connect
from functions.adapters.site_file import configured_site, site_redactor
from functions.adapters.tracing import traced
from functions.scope.authorization import authorize
from functions.scope.claiming import Admission, Claims
from functions.scope.context import keep_context
from functions.scope.reception import masked, receive_any

logger = Logger(service="rootrank")


@traced
def admit(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Admit a batch of scheduler events; those that fail go back to the queue alone.

    The loop is our own because Powertools' batch utility brings asyncio and twenty sources of
    events with it, 40 ms of a cold start.
    """
    refused = [
        each["messageId"]
        for each in event["Records"]
        if not is_admitted(each["body"], message_id=each["messageId"])
    ]
    return {"batchItemFailures": [{"itemIdentifier": each} for each in refused]}


def is_admitted(body: str, *, message_id: str) -> bool:
    """Admit one event, and say what is wrong with one that cannot be."""
    received = {"message_id": message_id}
    try:
        scoped = receive_any(body)
        if isinstance(scoped, ContextEvent):
            keep_context(connect().store, scoped)
            logger.info("context kept", extra={**received, "kind": scoped.detail_type})
            emit({"ContextEvents": 1})
            return True
        services = connect()
        site = configured_site()
        authorize(scoped, site, bundles=services.store.uri("bundles/"))
        workload = masked(scoped.workload, site_redactor())
        admission = Admission(Claims(services.store, services.table), services.workflow)
        claimed = admission.admit(scoped.model_copy(update={"workload": workload}))
    except UnfinishedEventError as error:
        logger.info("event ignored", extra={**received, "reason": str(error)})
        return True
    except Exception as error:
        logger.exception("event not admitted", extra={**received, "reason": str(error)[:2000]})
        emit({"EventsRefused": 1})
        return False
    logger.info("event admitted", extra={**received, **asdict(claimed), "origin": scoped.origin})
    emit({"EventsAdmitted": 1}, details={"outcome": claimed.outcome})
    return True
