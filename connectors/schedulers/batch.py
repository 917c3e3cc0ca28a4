"""AWS Batch: `Batch Job State Change` and `Batch Service Job State Change`.

`detail` follows DescribeJobs; container command, environment, parameters and tags stay behind.
A retried job ends once, with all its attempts in the event: the last one is the attempt. The parent
of an array and the nodes of a multi-node job end nothing of their own: the children, and the job as
a whole, are told of one by one.

A service job runs as a SageMaker training job, one for each attempt, and SageMaker tells of that as
well: both events name the training job, so that it stays one attempt.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
from engine.model.workload import Workload, image_mark

FORMS = (
    ("aws.batch", "Batch Job State Change"),
    ("aws.batch", "Batch Service Job State Change"),
)
_TERMINAL = ("SUCCEEDED", "FAILED")
_TRAINING_STATES: Final = {"SUCCEEDED": "Completed", "FAILED": "Failed"}
_TRAINING_JOB: Final = re.compile(r"^arn:[\w-]+:sagemaker:[\w-]+:\d+:training-job/([\w-]{1,63})$")
_INSTANCE: Final = re.compile(r"\bi-[0-9a-f]{8,17}\b")
_MAX_CONTAINERS: Final = 50


def parse(event: BusEvent) -> ScopedEvent:
    """Return the scoped event of a job's end; raises `InvalidEventError`."""
    detail = event.detail
    status = detail.get("status")
    if status not in _TERMINAL:
        raise UnfinishedEventError(f"{event.detail_type}: status {status!r} ends no job")
    _require_own_end(event)
    attempts = _attempts(detail)
    last = attempts[-1] if attempts else {}
    timeout = _dict(detail.get("timeout")) or _dict(detail.get("timeoutConfig"))
    limit = timeout.get("attemptDurationSeconds")
    node = last.get("nodeName")
    fields = {
        "scheduler": "batch",
        "cluster": event.region or "default",
        "tenant": event.account or "default",
        "job_id": detail.get("jobId"),
        "attempt": max(0, len(attempts) - 1),
        "name": detail.get("jobName"),
        "queue": str(detail.get("jobQueue") or "").rpartition("/")[2],
        "state": status,
        "exit_code": _exit(last, detail),
        "start": epoch_ms_text(last.get("startedAt") or detail.get("startedAt")),
        "end": epoch_ms_text(last.get("stoppedAt") or detail.get("stoppedAt")),
        "time_limit": str(limit) if isinstance(limit, int) else None,
        "image": _image(last, detail),
        "nodes": (node,) if isinstance(node, str) and node else (),
    }
    training_job = _training_job(last, detail)
    if training_job is not None:
        state = _TRAINING_STATES[str(status)]
        fields |= {"scheduler": "sagemaker", "job_id": training_job, "attempt": 0, "state": state}
    try:
        workload = Workload.model_validate(fields)
    except ValidationError as error:
        raise InvalidEventError(f"{event.detail_type}: {first_problem(error)}") from error
    reasons = f"{detail.get('statusReason')} {last.get('statusReason')}"
    return ScopedEvent(
        origin=f"{event.source}/{event.detail_type}",
        workload=workload,
        record=batch_text(detail, attempts[-1:] if training_job else attempts),
        # "Host EC2 (instance i-...) terminated." is all that Batch says of the machine.
        instance_ids={name: name for name in sorted(set(_INSTANCE.findall(reasons[:4096])))},
    )


def _attempts(detail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the attempts, of ECS or EKS, each with the container that decided it."""
    found = _dicts(detail.get("attempts")) or _dicts(detail.get("eksAttempts"))
    return [{**each, "container": _container(each)} for each in found]


def _container(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attempt's container: of several the first that failed, else the first."""
    own = _dict(attempt.get("container"))
    tasks = _dicts(attempt.get("taskProperties"))
    several = [each for task in tasks for each in _dicts(task.get("containers"))]
    several += _dicts(attempt.get("initContainers")) + _dicts(attempt.get("containers"))
    failed = [each for each in several[:_MAX_CONTAINERS] if each.get("exitCode")]
    return own or (failed or several or [{}])[0]


def _training_job(last: Mapping[str, Any], detail: Mapping[str, Any]) -> str | None:
    """Return the name of the training job that a service job's last attempt ran as."""
    for each in (last, _dict(detail.get("latestAttempt"))):
        value = _dict(each.get("serviceResourceId")).get("value")
        match = _TRAINING_JOB.match(value) if isinstance(value, str) else None
        if match is not None:
            return match[1]
    return None


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


def batch_text(detail: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> str:
    """Return what Batch says of the job and of these attempts, as one JSON line."""
    told = []
    for attempt in attempts[-10:]:
        kept = _kept(attempt, ("startedAt", "stoppedAt", "statusReason"))
        kept["container"] = _kept(_dict(attempt.get("container")), ("exitCode", "reason"))
        told.append(kept)
    record = _kept(
        detail,
        ("jobId", "jobName", "status", "statusReason", "createdAt", "startedAt", "stoppedAt"),
    )
    record["container"] = _kept(_dict(detail.get("container")), ("exitCode", "reason"))
    return bounded([json.dumps({**record, "attempts": told}, sort_keys=True)])


def _kept(value: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    found = {name: value.get(name) for name in names}
    return {
        name: each[:1024] if isinstance(each, str) else each
        for name, each in found.items()
        if isinstance(each, str | int)
    }


def _exit(last: Mapping[str, Any], detail: Mapping[str, Any]) -> str | None:
    for container in (_dict(last.get("container")), _dict(detail.get("container"))):
        value = container.get("exitCode")
        if isinstance(value, int):
            return str(value)
    return None


def _image(last: Mapping[str, Any], detail: Mapping[str, Any]) -> str | None:
    for container in (_dict(last.get("container")), _dict(detail.get("container"))):
        if image := container.get("image"):
            return image_mark(image)
    return None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
