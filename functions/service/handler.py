"""Lambda entry point of the REST service."""

import os
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from engine.pipeline import attribute as judge_case
from functions.adapters.event_bus import EventBus, connect_bus
from functions.adapters.idempotency import idempotency_store
from functions.adapters.results import Results
from functions.adapters.results_query import ResultsQuery
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.services import Services, connect
from functions.adapters.session_blobs import S3Signer, SessionBlobs, UploadSigner
from functions.adapters.session_table import SessionTable
from functions.adapters.site_file import site_redactor
from functions.collect.pace import collect_rarely
from functions.service.access import read_access_map
from functions.service.corrections import Corrections
from functions.service.front import Front
from functions.service.judgement import Judgement
from functions.service.recovery import Recovery
from functions.service.replays import Replays
from functions.service.rulesets import Rulesets
from functions.service.service import Service
from functions.service.sessions import Sessions

logger = Logger(service="rootrank")
collect_rarely()


def serve(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request of API Gateway."""
    answer = connected().answer(event, context)
    http = event.get("requestContext", {}).get("http", {})
    logger.info(
        "answered",
        extra={
            "status": answer["statusCode"],
            "method": http.get("method"),
            "path": http.get("path"),
        },
    )
    return answer


@cache
def connected() -> Front:
    """Return the service of this process over the stack's clients."""
    services = connect()
    return Front(
        build_service(
            services,
            bus=connect_bus(),
            signer=S3Signer(services.store),
            access=os.environ.get("SERVICE_ACCESS", ""),
        )
    )


def build_service(
    services: Services,
    *,
    bus: EventBus,
    signer: UploadSigner,
    access: str,
    exclusive: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Service:
    """Put the parts together; `access` is the mapping of callers to tenants as JSON."""
    store, table = services.store, services.table
    redactor = site_redactor()
    sessions = Sessions(
        SessionTable(table.client, table.name),
        store,
        lambda: datetime.now(UTC),
        lambda: secrets.token_hex(16),
        int(os.environ.get("SESSION_DAYS", "30")),
    )
    judgement = Judgement(sessions, SessionBlobs(store), judge_case, redactor, exclusive)
    query = ResultsQuery(table.client, table.name)
    return Service(
        access=read_access_map(access),
        sessions=sessions,
        judgement=judgement,
        rulesets=Rulesets(
            store, services.settings.site_rules, shipped_rulebook, scanners.scanner_of
        ),
        recovery=Recovery(
            sessions,
            judgement,
            lambda source, kind, detail: bus.put(source, kind, [detail]),
            time.monotonic,
            time.sleep,
        ),
        corrections=Corrections(
            store,
            table,
            services.notifier,
            lambda: datetime.now(UTC),
            services.settings.result_days,
            redactor,
        ),
        replays=Replays(store, table, judge_case),
        results=lambda tenant: Results(query, store, tenant),
        signer=signer,
        idempotency=idempotency_store(table),
    )
