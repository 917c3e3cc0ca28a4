"""SageMaker: `SageMaker Training Job State Change`.

The event carries hyperparameters, role ARNs, image and VPC settings; none of them is kept. The
reason of a failure is: it is SageMaker's word, and quotes the end of the program's own error.
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
from engine.model.workload import Workload, image_mark

FORMS = (("aws.sagemaker", "SageMaker Training Job State Change"),)
_TERMINAL = ("Completed", "Failed", "Stopped")
_TELLING = ("MaxRuntimeExceeded", "MaxWaitTimeExceeded", "Interrupted")
"""Secondary states that say why a job stopped. Source: DescribeTrainingJob, SecondaryStatus."""
_MAX_NODES = 10_000
_MAX_REASON = 1024
"""As long as SageMaker's own reasons are (DescribeTrainingJob, FailureReason)."""


def parse(event: BusEvent) -> ScopedEvent:
    """Return the scoped event of a training job's end; raises `InvalidEventError`."""
    detail = event.detail
    status = detail.get("TrainingJobStatus")
    if status not in _TERMINAL:
        raise UnfinishedEventError(f"{event.detail_type}: status {status!r} ends no job")
    limit = _dict(detail.get("StoppingCondition")).get("MaxRuntimeInSeconds")
    secondary = detail.get("SecondaryStatus")
    state = secondary if secondary in _TELLING else status
    fields = {
        "scheduler": "sagemaker",
        "cluster": event.region or "default",
        "tenant": event.account or "default",
        "job_id": detail.get("TrainingJobName"),
        # A training job's name is used once in an account and region: it is the attempt.
        "attempt": 0,
        "name": detail.get("TrainingJobName"),
        "state": state,
        "start": epoch_ms_text(detail.get("TrainingStartTime") or detail.get("CreationTime")),
        "end": epoch_ms_text(detail.get("TrainingEndTime") or detail.get("LastModifiedTime")),
        "time_limit": str(limit) if isinstance(limit, int) else None,
        "image": image_mark(_dict(detail.get("AlgorithmSpecification")).get("TrainingImage")),
        "nodes": _hosts(_dict(detail.get("ResourceConfig")).get("InstanceCount")),
    }
    try:
        workload = Workload.model_validate(fields)
    except ValidationError as error:
        raise InvalidEventError(f"{event.detail_type}: {first_problem(error)}") from error
    return ScopedEvent(
        origin=f"{event.source}/{event.detail_type}",
        workload=workload,
        record=training_text(detail),
    )


def training_text(detail: dict[str, Any]) -> str:
    """Return what SageMaker says of the job, as one JSON line."""
    names = ("TrainingJobName", "TrainingJobStatus", "SecondaryStatus", "FailureReason",
             "TrainingEndTime", "LastModifiedTime")  # fmt: skip
    record = {
        name: value[:_MAX_REASON] if isinstance(value, str) else value
        for name, value in ((name, detail.get(name)) for name in names)
        if isinstance(value, str | int)
    }
    return bounded([json.dumps(record, sort_keys=True)])


def _hosts(count: Any) -> tuple[str, ...]:
    """SageMaker names a training job's hosts `algo-1` to `algo-N`."""
    if not isinstance(count, int) or not 0 < count <= _MAX_NODES:
        return ()
    return tuple(f"algo-{number}" for number in range(1, count + 1))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
