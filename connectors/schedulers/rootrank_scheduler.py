"""Our own events: `rootrank.scheduler` / `Job Completed` and `Attribution Requested`, version 1."""

import posixpath

from pydantic import ValidationError

from connectors.schedulers.scoped import InvalidEventError, ScopedEvent, first_problem
from engine.model.event import (
    ATTRIBUTION_REQUESTED,
    JOB_COMPLETED,
    SOURCE,
    AttributionRequested,
    BusEvent,
    JobCompleted,
)

FORMS = ((SOURCE, JOB_COMPLETED), (SOURCE, ATTRIBUTION_REQUESTED))
VERSION = 1


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
    signal = detail.detection_signal if isinstance(detail, AttributionRequested) else None
    return ScopedEvent(
        origin=f"{event.source}/{event.detail_type}",
        workload=detail.workload,
        evidence=detail.evidence,
        bundle_uri=detail.bundle_uri,
        detection_signal=signal,
    )
