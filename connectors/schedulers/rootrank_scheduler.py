"""Our own events: `rootrank.scheduler` / `Job Completed` and `Attribution Requested`, version 1."""

import posixpath
import re

from pydantic import ValidationError

from connectors.schedulers.attempt import enrich
from connectors.schedulers.record import kubernetes_text, slurm_text
from connectors.schedulers.scoped import InvalidEventError, ScopedEvent, first_problem
from connectors.schedulers.slurm_event import read_slurm_event
from engine.model.event import (
    ATTRIBUTION_REQUESTED,
    JOB_COMPLETED,
    SOURCE,
    AttributionRequested,
    BusEvent,
    JobCompleted,
)
from engine.model.workload import Workload

FORMS = ((SOURCE, JOB_COMPLETED), (SOURCE, ATTRIBUTION_REQUESTED))
VERSION = 1
_MAY_LACK = frozenset({"objects", "nodes", "scontrol", "instance_ids", "ranks", "workload.nodes"})
_INSTANCE = re.compile(r"^i-[0-9a-f]{8,17}$")


def parse(event: BusEvent) -> ScopedEvent:
    """Return the scoped event; raises `InvalidEventError`."""
    version = event.detail.get("version")
    if version != VERSION:
        raise InvalidEventError(
            f"{event.detail_type}: version {version!r} is not known; send version {VERSION}"
        )
    model = AttributionRequested if event.detail_type == ATTRIBUTION_REQUESTED else JobCompleted
    try:
        detail = model.model_validate(event.detail)
    except ValidationError as error:
        raise InvalidEventError(f"{event.detail_type}: {first_problem(error)}") from error
    for entry in detail.evidence:
        normal = posixpath.normpath(entry.path)
        if entry.path.startswith("/") or normal == ".." or normal.startswith("../"):
            raise InvalidEventError(
                f"{event.detail_type}: evidence path {entry.path!r} leaves the bundle; "
                "give it relative to bundle_uri"
            )
    workload, record = _with_record(detail)
    signal = detail.detection_signal if isinstance(detail, AttributionRequested) else None
    return ScopedEvent(
        origin=f"{event.source}/{event.detail_type}",
        workload=workload,
        evidence=detail.evidence,
        bundle_uri=detail.bundle_uri,
        detection_signal=signal,
        record=record,
        instance_ids=_instance_ids(detail),
        left_out=_left_out(detail),
    )


def _with_record(detail: JobCompleted) -> tuple[Workload, str | None]:
    """Return the workload with what the scheduler's own record knows, and the record as text."""
    told = detail.workload
    if told.scheduler in ("kubernetes", "kueue"):
        return told, kubernetes_text((detail.record or {}).get("objects"))
    if told.scheduler not in ("slurm", "pcs") or not detail.record:
        return told, None
    attempt = read_slurm_event(detail.record)
    if attempt is None or told.job_id not in (attempt.raw_job_id, attempt.workload.job_id):
        return told, None
    # Slurm writes an array's task and a het part as parts of the job; our programs know its number.
    named = told.model_copy(update={"job_id": attempt.workload.job_id})
    known = enrich(named, attempt)
    if attempt.workload.attempt is not None and known.attempt is None:
        known = known.model_copy(update={"attempt": attempt.workload.attempt})
    return known, slurm_text(attempt)


def _left_out(detail: JobCompleted) -> tuple[str, ...]:
    """Return what the sender says that the event lacks, of the names that senders use."""
    told = (detail.record or {}).get("left_out")
    return tuple(sorted(_MAY_LACK.intersection(map(str, told)))) if isinstance(told, list) else ()


def _instance_ids(detail: JobCompleted) -> dict[str, str]:
    """Return what a sender that knows the machines says of them: node to instance id."""
    given = (detail.record or {}).get("instance_ids")
    if not isinstance(given, dict):
        return {}
    return {
        str(node): name
        for node, name in sorted(given.items())
        if isinstance(name, str) and _INSTANCE.match(name)
    }
