"""What callers get. The OpenAPI document is generated from these models."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from engine.model.envelope import Envelope
from engine.model.verdict import Action, Verdict
from engine.model.vocabulary import (
    DetectionSignal,
    Domain,
    EntityRole,
    QualityLevel,
    ReportStatus,
    RevisionStatus,
    Source,
    TerminalState,
)


class Answer(BaseModel):
    """The base of every answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class Limits(Answer):
    """How much fits."""

    inline_bytes: int
    upload_bytes: int
    session_parts: int
    session_bytes: int
    observations_per_request: int


class SessionAnswer(Answer):
    """A session: whose attempt, until when, and how much it holds."""

    session_id: str
    cluster: str
    scheduler: str
    job_id: str
    attempt: int | None = None
    state: str | None = None
    created_at: str
    expires_at: str
    statements: int
    chunks: int
    batches: int
    limits: Limits


class Receipt(Answer):
    """What was accepted; `is_new` is false for what was there already."""

    session_id: str
    ids: list[str]
    is_new: bool


class UploadAnswer(Answer):
    """Where to PUT the announced bytes, with exactly these headers."""

    session_id: str
    chunk_id: str
    is_new: bool
    method: Literal["PUT"] = "PUT"
    url: str
    headers: dict[str, str]
    expires_in_s: int


class StreamCovered(Answer):
    """Bytes of one stream without a gap, and what became of them."""

    uri: str
    source: Source | None = None
    start: int
    end: int
    status: ReportStatus
    reason: str | None = None
    lines: int


class PendingChunk(Answer):
    """A chunk that was announced and whose bytes have not come."""

    chunk_id: str
    path: str
    bytes: int


class SetAsideChunk(Answer):
    """A chunk that was not read, and why."""

    chunk_id: str
    reason: str


class Covers(Answer):
    """Exactly what a verdict rests on. Equal digests of equal rulesets mean equal verdicts."""

    digest: str
    is_complete: bool = Field(description="Everything given so far was read to its end.")
    statements: int
    chunks: list[str]
    chunks_omitted: int = 0
    observations: list[str]
    observations_omitted: int = 0
    streams: list[StreamCovered]
    pending: list[PendingChunk]
    set_aside: list[SetAsideChunk]


class RulesetAnswer(Answer):
    """The rules that judged; `trouble` says why they are not the ones that were meant."""

    name: str
    version: str
    extraction_digest: str
    reasoning_digest: str
    trouble: str | None = None


class VerdictAnswer(Answer):
    """A session's verdict as of now, and what it covers."""

    session_id: str
    ruleset: RulesetAnswer
    covers: Covers
    verdict: Verdict


class ResultRow(Answer):
    """One stored result in a list."""

    result_id: str
    cluster: str
    scheduler: str
    job_id: str
    name: str | None = None
    revision: int
    status: RevisionStatus
    end: str | None = None
    terminal_state: TerminalState
    domain: Domain
    failure_class: str
    quality: QualityLevel
    summary: str
    culprits: list[str] = []
    suspects: list[str] = []


class ResultPage(Answer):
    """Results, newest first; `next` is the cursor of the following page."""

    results: list[ResultRow]
    next: str | None = None


class RevisionRow(Answer):
    """One revision of a result."""

    revision: int
    status: RevisionStatus
    published_at: str
    attribution_id: str
    domain: Domain
    failure_class: str
    quality: QualityLevel


class RevisionPage(Answer):
    """Every revision of a result, newest first."""

    result_id: str
    revisions: list[RevisionRow]


class ResultAnswer(Answer):
    """A stored revision as it was published."""

    result_id: str
    envelope: Envelope


class ReattributionAnswer(Answer):
    """The same evidence under another ruleset. Nothing is stored and nobody is told.

    `mode` says what was judged: `reasoning` the stored observations, exactly; `capsule` the
    excerpts kept of the evidence, where these rules have other signatures than the observations
    were extracted under, or those are gone: the verdict is partial and says so; `none` where no
    excerpts were kept either.
    """

    result_id: str
    revision: int
    mode: Literal["reasoning", "capsule", "source", "none"]
    reason: str | None = None
    ruleset: RulesetAnswer
    changed: list[str]
    verdict: Verdict | None = None


class CorrectionAnswer(Answer):
    """The revision that a correction became; the same correction again is the same revision."""

    result_id: str
    revision: int
    supersedes: int
    status: RevisionStatus
    is_new: bool
    is_announced: bool


class NodeAdvice(Answer):
    """One node as a recovery controller reads it: exclude culprits, look at suspects."""

    node: str
    role: EntityRole
    ranks: list[int]
    in_scope: bool
    reasons: list[str]


class RecoveryAnswer(Answer):
    """What is known of a failure by now; `is_final` says whether waiting could bring more."""

    schema_version: str = "0.1.0"
    continue_session: str
    phase: Literal["fast", "slow"]
    is_final: bool
    answered_from: Literal["result", "session"]
    waiting_for: list[str]
    detection_signal: DetectionSignal
    terminal_state: TerminalState
    domain: Domain
    failure_class: str
    quality: QualityLevel
    reasons: list[str]
    summary: str
    in_window: bool | None = Field(
        default=None, description="Whether the cause may have begun inside the scope's window."
    )
    nodes: list[NodeAdvice]
    exclude_nodes: list[str] = Field(
        description="Nodes that evidence of the platform or the node itself proves guilty."
    )
    actions: list[Action]
    attribution_id: str
    result_id: str | None = None
    revision: int | None = None
