"""Lambda entry point of forward: log events of PCS's completion log group become bus events."""

import base64
import json
import zlib
from collections.abc import Iterator
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.schedulers.pcs import completion_of, read_pcs_record
from engine.model.event import JOB_COMPLETED, SOURCE
from functions.adapters.event_bus import connect_bus
from functions.adapters.metering import emit
from functions.adapters.tracing import traced

logger = Logger(service="rootrank")
_MAX_BYTES: Final = 32 * 1024 * 1024
"""CloudWatch Logs sends at most 1 MiB compressed; this is what it may become."""


@traced
def forward(event: dict[str, Any], _context: LambdaContext) -> dict[str, int]:
    """Put one event for each completed job; what is no such record is counted and passed over."""
    details, skipped = [], 0
    for message in read_messages(event):
        detail = detail_of(message)
        if detail is None:
            skipped += 1
            continue
        details.append(detail)
    connect_bus().put(SOURCE, JOB_COMPLETED, details)
    logger.info("forwarded", extra={"forwarded": len(details), "skipped": skipped})
    emit({"EventsForwarded": len(details), "RecordsSkipped": skipped})
    return {"forwarded": len(details), "skipped": skipped}


def read_messages(event: dict[str, Any]) -> Iterator[str]:
    """Yield the messages of a subscription's delivery; raises `ValueError` for anything else."""
    packed = base64.b64decode(event["awslogs"]["data"])
    reader = zlib.decompressobj(wbits=31)
    text = reader.decompress(packed, _MAX_BYTES)
    value = json.loads(text)
    if value.get("messageType") != "DATA_MESSAGE":
        return
    for each in value.get("logEvents") or ():
        yield str(each.get("message", ""))


def detail_of(message: str) -> dict[str, Any] | None:
    """Return the detail of `Job Completed`, version 1, of a message; None for any other message.

    The completion travels along: what the scheduler says of the failure is evidence.
    """
    try:
        value = json.loads(message)
    except (ValueError, RecursionError):
        return None
    attempt = read_pcs_record(value) if isinstance(value, dict) else None
    if attempt is None:
        return None
    record: dict[str, Any] = {"kind": "pcs", "completion": completion_of(value)}
    if attempt.instance_ids:
        record["instance_ids"] = attempt.instance_ids
    workload = attempt.workload.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    return {"version": 1, "workload": workload, "record": record}
