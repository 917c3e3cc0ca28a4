"""verdict/v1: the pure answer, the same bytes for the same evidence (CONTRACTS, section 2)."""

from typing import Any, Final

from pydantic import Field

from engine.model.canonical import digest
from engine.model.contract import Document, require_major
from engine.model.evidence_request import EvidenceRequest
from engine.model.vocabulary import (
    ActionName,
    CoverageState,
    Domain,
    EntityKind,
    EntityRole,
    EpisodeRole,
    Manifestation,
    QualityLevel,
    ReportStatus,
    Source,
    TerminalState,
    Trust,
    WindowClass,
)

SCHEMA_VERSION: Final = "1.0"


class ScopedWorkload(Document):
    """The attempt as scoped; times are RFC 3339 in UTC."""

    scheduler: str
    cluster: str
    tenant: str
    job_id: str
    attempt: int | None = None
    name: str | None = None
    user: str | None = None
    state: str | None = None
    exit_code: str | None = None
    start: str | None = None
    end: str | None = None
    nodes: tuple[str, ...] = ()
    world_size: int | None = None


class Onset(Document):
    """When a cause began: an interval, either end open where the evidence does not bound it."""

    earliest: str | None = None
    latest: str | None = None


class EntityRef(Document):
    """A thing by its kind, id and node, with a GPU's other names where known."""

    kind: EntityKind
    id: str
    node: str | None = None
    index: int | None = None
    pci: str | None = None
    uuid: str | None = None
    serial: str | None = None


class Quality(Document):
    """How far the evidence carries; `reasons` are codes listed in docs/verdict.md."""

    level: QualityLevel
    reasons: tuple[str, ...] = ()
    would_change: tuple[EvidenceRequest, ...] = ()


class RootCause(Document):
    """One cause, or one rival where the level is ambiguous (then none is primary)."""

    cause_id: str
    primary: bool
    symptom: str
    rule: str
    domain: Domain
    title: str
    explanation: str
    entity: EntityRef
    onset: Onset = Onset()
    quality: QualityLevel
    evidence: tuple[str, ...]
    explains: tuple[str, ...] = ()


class AffectedEntity(EntityRef):
    """An entity and its part in the failure; culprits and suspects always cite evidence."""

    role: EntityRole
    cause_id: str | None = None
    evidence: tuple[str, ...] = ()


class NodeGpu(Document):
    """A GPU within an affected node."""

    index: int | None = None
    pci: str | None = None
    uuid: str | None = None
    role: EntityRole


class AffectedNode(Document):
    """A node as consumers read it: act on `culprit`, look at `suspect`, leave `victim` alone."""

    node: str
    instance_id: str | None = None
    role: EntityRole
    gpus: tuple[NodeGpu, ...] = ()
    ranks: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()


class AffectedRank(Document):
    """A rank and its part in the failure."""

    rank: int
    node: str | None = None
    role: EntityRole
    reasons: tuple[str, ...] = ()


class Symptom(Document):
    """One episode and what became of it; `reason` says why it was set aside, if it was."""

    episode_id: str
    symptom: str
    role: EpisodeRole
    caused_by: tuple[str, ...] = ()
    first_seen: str | None = None
    last_seen: str | None = None
    count: int
    entity: EntityRef
    evidence: tuple[str, ...] = ()
    reason: str | None = None


class TimelineEntry(Document):
    """A moment a person needs; `kind` `gap` marks a stretch of silence up to `until`."""

    at: str | None
    until: str | None = None
    kind: str
    text: str
    node: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()


class Evidence(Document):
    """The bytes that a claim rests on (offset and length of the decompressed stream)."""

    evidence_id: str
    source: Source
    connector: str
    uri: str
    line: int
    byte_offset: int
    byte_length: int
    node: str | None = None
    rank: int | None = None
    observed_at: str | None = None
    time_basis: str
    trust: Trust
    text: str


class Coverage(Document):
    """What was looked at, grouped by equal state; `nodes` in compact host-list notation."""

    source: Source
    window: WindowClass
    state: CoverageState
    nodes: str | None = None
    lines: int = 0
    bytes: int = 0
    first: str | None = None
    last: str | None = None
    reason: str | None = None


class ConnectorReport(Document):
    """What one connector says of its own work."""

    connector: str
    status: ReportStatus
    reason: str | None = None
    observations: int = 0
    bytes: int = 0


class NotEvaluated(Document):
    """A rule that could not be evaluated: which source was missing, or what it raised."""

    rule: str
    reason: str


class RulesUsed(Document):
    """Which rules judged, by version and by the two digests pinned in the plan."""

    version: str
    extraction_digest: str
    reasoning_digest: str
    not_evaluated: tuple[NotEvaluated, ...] = ()


class Action(Document):
    """One thing to do. Automation may act alone only where `evidence_supports_automation`."""

    action: ActionName
    target: str | None = None
    reason: str
    evidence_supports_automation: bool = False


class Progress(Document):
    """How far the job came; `gpu_hours_since_checkpoint` is decimal text, e.g. `"12.5"`."""

    last_step: int | None = None
    last_step_at: str | None = None
    last_checkpoint: str | None = None
    last_checkpoint_at: str | None = None
    gpu_hours_since_checkpoint: str | None = None


class HistoryEntry(Document):
    """An earlier or concurrent verdict that was given as evidence."""

    attribution_id: str
    relation: str
    job_id: str
    attempt: int | None = None
    end: str | None = None
    domain: Domain
    failure_class: str
    shared: tuple[str, ...] = ()


class PastVerdict(HistoryEntry):
    """A verdict as it is given to the engine, which weighs what both attempts have in common.

    `shared` and `named` hold nodes by their names, other things by kind and name (`switch leaf-01`,
    `filesystem scratch`, `image repo/train@sha256:...`). `named` are the switches and file systems
    that its cause names, `below` this attempt's nodes below each shared switch.
    """

    named: tuple[str, ...] = ()
    below: dict[str, tuple[str, ...]] = Field(default={})


class History(Document):
    """Verdicts given as evidence, and the incident that several attempts share."""

    verdicts: tuple[HistoryEntry, ...] = ()
    incident_id: str | None = None


class Verdict(Document):
    """Where the failure started, what it rests on, and how far that carries."""

    schema_version: str = SCHEMA_VERSION
    attribution_id: str
    workload: ScopedWorkload
    terminal_state: TerminalState
    manifestation: Manifestation
    domain: Domain
    failure_class: str
    root_causes: tuple[RootCause, ...] = ()
    affected_entities: tuple[AffectedEntity, ...] = ()
    affected_nodes: tuple[AffectedNode, ...] = ()
    affected_ranks: tuple[AffectedRank, ...] = ()
    victims_omitted: int = Field(default=0, ge=0)
    quality: Quality
    summary: str
    progress: Progress = Progress()
    symptoms: tuple[Symptom, ...] = ()
    timeline: tuple[TimelineEntry, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    connector_reports: tuple[ConnectorReport, ...] = ()
    rules: RulesUsed
    actions: tuple[Action, ...] = ()
    history: History = History()


def seal(fields: dict[str, Any]) -> Verdict:
    """Build the verdict whose `attribution_id` is the digest of everything else in it."""
    draft = Verdict.model_validate({**fields, "attribution_id": ""})
    body = draft.model_dump(mode="json")
    del body["attribution_id"]
    return draft.model_copy(update={"attribution_id": digest(body)})


def is_sealed(verdict: Verdict) -> bool:
    """Whether `attribution_id` is the digest of the rest."""
    body = verdict.model_dump(mode="json")
    return bool(body.pop("attribution_id") == digest(body))


def read_verdict(document: dict[str, Any]) -> Verdict:
    """Read a stored verdict; raises `UnknownMajorVersionError` for another major version."""
    require_major(str(document.get("schema_version", "")), 1, "verdict")
    return Verdict.model_validate(document)
