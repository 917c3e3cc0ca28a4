"""plan/v1: what one attribution means to read, packed into items for the Map."""

from typing import Any, Final

from pydantic import Field

from engine.model.contract import Document
from engine.model.evidence_request import EvidenceRequest
from engine.model.vocabulary import CoverageState, Runner, Source, WindowClass
from engine.model.workload import EvidenceSource, Workload

SCHEMA: Final = "plan/v1"
MAX_ITEMS: Final = 200


class Window(Document):
    """A window class with its bounds, RFC 3339 in UTC; a null end is open."""

    name: WindowClass
    start: str | None = None
    end: str | None = None


class Budget(Document):
    """What one item may spend before it stores what it has and reports `partial`."""

    bytes: int = Field(default=64 * 1024**3, gt=0)
    seconds: int = Field(default=840, gt=0)
    requests: int = Field(default=100_000, gt=0)


class PlanItem(Document):
    """One packed piece of collection: a connector, its shard and its limits.

    `base_uri` is where the connector's relative paths live (a folder or an s3 prefix);
    `evidence` are the bundle entries of the static connector, `query` other connectors' own.
    """

    item_id: str
    connector: str
    shard: str
    source: Source | None = None
    windows: tuple[Window, ...] = ()
    budget: Budget = Budget()
    deadline_at: str | None = None
    cursor: str | None = None
    runner: Runner = "lambda"
    base_uri: str | None = None
    evidence: tuple[EvidenceSource, ...] = ()
    query: dict[str, str] = Field(default={})
    request: EvidenceRequest | None = None


class Plan(Document):
    """One generation's plan; attribute refuses reports made under other digests.

    `grace_seconds` is how long late evidence may take, `deadline_at` when the attempt's verdict
    has to be final; where they are absent the stack's own setting holds, and no deadline.
    """

    schema_version: str = SCHEMA
    attempt_key: str
    generation: int = Field(ge=1)
    collection: int = Field(default=1, ge=1)
    workload: Workload
    windows: tuple[Window, ...] = ()
    items: tuple[PlanItem, ...] = Field(default=(), max_length=MAX_ITEMS)
    rules_version: str
    extraction_digest: str
    reasoning_digest: str
    notes: tuple[str, ...] = ()
    history: tuple[dict[str, Any], ...] = ()
    grace_seconds: int | None = None
    deadline_at: str | None = None


class Report(Document):
    """report/v1: what one item did. `cursor` names what is left where status is `partial`.

    `coverage` is what the source itself knows of its answer, where it can tell.
    """

    schema_version: str = "report/v1"
    item_id: str
    connector: str
    shard: str
    source: Source | None = None
    status: str
    reason: str | None = None
    lines: int = 0
    bytes: int = 0
    observations: int = 0
    requests: int = 0
    watermark: str | None = None
    cursor: str | None = None
    coverage: CoverageState | None = None
    extraction_digest: str
    paths_missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ManifestEntry(Document):
    """One stored object that an attribution read."""

    key: str
    version: str | None = None
    sha256: str


class Manifest(Document):
    """manifest/v1: the immutable list that one attribution read; its digest is the evidence's."""

    schema_version: str = "manifest/v1"
    attempt_key: str
    generation: int
    collection: int
    plan: ManifestEntry
    observations: tuple[ManifestEntry, ...] = ()
    reports: tuple[ManifestEntry, ...] = ()
