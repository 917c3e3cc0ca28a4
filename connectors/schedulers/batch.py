"""AWS Batch: `Batch Job State Change` and `Batch Service Job State Change`.

`detail` follows DescribeJobs; container command, environment, parameters and tags stay behind.
A retried job ends once, with all its attempts in the event: the last one is the attempt. The parent
of an array and the nodes of a multi-node job end nothing of their own: the children, and the job as
a whole, are told of one by one.
"""

import json
from typing import Any

from pydantic import ValidationError

from connectors.schedulers.record import bounded
from connectors.schedulers.scoped import (
    InvalidEventError,
    ScopedEvent,
    UnfinishedEventError,
    epoch_ms_text,
    first_problem,
)
from engine.model.event import BusEvent
from engine.model.workload import Workload

FORMS = (
    ("aws.batch", "Batch Job State Change"),
    ("aws.batch", "Batch Service Job State Change"),
)
_TERMINAL = ("SUCCEEDED", "FAILED")


def parse(event: BusEvent) -> ScopedEvent:
    """Return the scoped event of a job's end; raises `InvalidEventError`."""
    detail = event.detail
    status = detail.get("status")
    if status not in _TERMINAL:
        raise UnfinishedEventError(f"{event.detail_type}: status {status!r} ends no job")
    _require_own_end(event)
    attempts = [each for each in _list(detail.get("attempts")) if isinstance(each, dict)]
    last = attempts[-1] if attempts else {}
    container = _dict(last.get("container")) or _dict(detail.get("container"))
    limit = _dict(detail.get("timeout")).get("attemptDurationSeconds")
    fields = {
        "scheduler": "batch",
        "cluster": event.region or "default",
        "tenant": event.account or "default",
        "job_id": detail.get("jobId"),
        "attempt": max(0, len(attempts) - 1),
        "name": detail.get("jobName"),
        "queue": str(detail.get("jobQueue") or "").rpartition("/")[2],
        "state": status,
        "exit_code": _exit(container.get("exitCode")),
        "start": epoch_ms_text(last.get("startedAt") or detail.get("startedAt")),
        "end": epoch_ms_text(last.get("stoppedAt") or detail.get("stoppedAt")),
        "time_limit": str(limit) if isinstance(limit, int) else None,
    }
    try:
        workload = Workload.model_validate(fields)
    except ValidationError as error:
        raise InvalidEventError(f"{event.detail_type}: {first_problem(error)}") from error
    return ScopedEvent(
        origin=f"{event.source}/{event.detail_type}",
        workload=workload,
        record=batch_text(detail),
    )


def _require_own_end(event: BusEvent) -> None:
    detail = event.detail
    array = _dict(detail.get("arrayProperties"))
    if "size" in array and "index" not in array:
        raise UnfinishedEventError(
            f"{event.detail_type}: the parent of an array; its children's events are read"
        )
    if "#" in str(detail.get("jobId", "")):
        raise UnfinishedEventError(
            f"{event.detail_type}: a node of a multi-node job; the job's own event is read"
        )


def batch_text(detail: dict[str, Any]) -> str:
    """Return what Batch says of the job and each attempt, as one JSON line."""
    attempts = []
    for each in _list(detail.get("attempts")):
        attempt = _dict(each)
        container = _dict(attempt.get("container"))
        kept = _kept(attempt, ("startedAt", "stoppedAt", "statusReason"))
        kept["container"] = _kept(container, ("exitCode", "reason"))
        attempts.append(kept)
    record = _kept(
        detail,
        ("jobId", "jobName", "status", "statusReason", "createdAt", "startedAt", "stoppedAt"),
    )
    record["container"] = _kept(_dict(detail.get("container")), ("exitCode", "reason"))
    return bounded([json.dumps({**record, "attempts": attempts[-10:]}, sort_keys=True)])


def _kept(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: value.get(name) for name in names}
    return {
        name: each[:1024] if isinstance(each, str) else each
        for name, each in found.items()
        if isinstance(each, str | int)
    }


def _exit(value: Any) -> str | None:
    return str(value) if isinstance(value, int) else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
