"""What arrives on EventBridge from our own sources (CONTRACTS, section 4)."""

from typing import Any, Final

from pydantic import Field

from engine.model.contract import Document
from engine.model.vocabulary import DetectionSignal
from engine.model.workload import EvidenceSource, Workload

SOURCE: Final = "rootrank.scheduler"
JOB_COMPLETED: Final = "Job Completed"
ATTRIBUTION_REQUESTED: Final = "Attribution Requested"


class JobCompleted(Document):
    """`detail` of `rootrank.scheduler` / `Job Completed`, version 1."""

    version: int
    workload: Workload
    evidence: tuple[EvidenceSource, ...] = ()
    bundle_uri: str | None = None
    record: dict[str, Any] | None = None


class AttributionRequested(JobCompleted):
    """The same for a job that still runs: what its watcher noticed."""

    detection_signal: DetectionSignal


class BusEvent(Document):
    """The EventBridge envelope; `id` and `time` decide nothing (delivery is at least once)."""

    version: str = "0"
    id: str = ""
    source: str = Field(min_length=1)
    detail_type: str = Field(alias="detail-type", min_length=1)
    account: str = ""
    region: str = ""
    time: str | None = None
    resources: tuple[str, ...] = ()
    detail: dict[str, Any]
