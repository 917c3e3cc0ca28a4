"""What callers send. Strict: an unknown key or a value of another type is an error that says so.

The OpenAPI document is generated from these models, so every limit here is published.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from engine.model.vocabulary import (
    DetectionSignal,
    Domain,
    ObservationKind,
    Source,
    TerminalState,
)

MAX_INLINE_BYTES: Final = 4 * 1024**2
"""A chunk in a request; Lambda takes 6 MB of JSON, and base64 makes four bytes of three."""
MAX_UPLOAD_BYTES: Final = 256 * 1024**2
MAX_OBSERVATIONS: Final = 500
MAX_TEXT: Final = 8192
_MAX_OFFSET: Final = 2**44
_LARGEST: Final = 2**53 - 1
"""The largest whole number that JSON readers agree on (RFC 8785)."""
_MAX_BASE64: Final = (MAX_INLINE_BYTES + 2) // 3 * 4


class Request(BaseModel):
    """The base of every request body."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)


Name = Annotated[
    str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$")
]
Word = Annotated[
    str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:-]*$")
]
JobId = Annotated[
    str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+:~/-]*$")
]
Plain = Annotated[str, Field(max_length=1024, pattern=r"^[^\x00-\x1f\x7f]*$")]
State = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z][A-Za-z0-9 _+]*$")]
Rank = Annotated[int, Field(ge=0, lt=1_000_000)]
Nodes = Annotated[list[Name], Field(max_length=10_000)]
Ranks = Annotated[list[Rank], Field(max_length=10_000)]
Micros = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
Count = Annotated[int, Field(ge=0, le=_LARGEST)]
Time = Annotated[
    str,
    Field(
        max_length=40,
        pattern=(
            r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):"
            r"[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
        ),
        examples=["2026-01-31T12:00:00Z"],
        description="RFC 3339, with its offset.",
    ),
    AfterValidator(str.upper),
]


class Placement(Request):
    """Where one rank runs."""

    rank: Rank
    node: Name
    gpu: Annotated[int, Field(ge=0, le=1023)] | None = None


class WorkloadBody(Request):
    """One attempt of one job. The tenant is the caller's own and is not asked for."""

    scheduler: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_-]*$")]
    cluster: Word = "default"
    job_id: JobId
    attempt: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    name: Plain | None = None
    user: Plain | None = None
    state: State | None = Field(default=None, description="The scheduler's own word.")
    exit_code: (
        Annotated[str, Field(max_length=16, pattern=r"^(-?[0-9]+(:[0-9]+)?|n/a)$")] | None
    ) = None
    start: Time | None = None
    end: Time | None = Field(default=None, description="Absent while the job still runs.")
    nodes: Nodes = Field(default=[])
    world_size: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    ranks: Annotated[list[Placement], Field(max_length=10_000)] = Field(default=[])


class SessionRequest(Request):
    """Open a session for one attempt."""

    workload: WorkloadBody
    detection_signal: DetectionSignal | None = Field(
        default=None, description="What a watcher noticed while the job still ran."
    )


class StatementRequest(Request):
    """What became known of the attempt later; the order of statements changes nothing."""

    state: State | None = None
    exit_code: (
        Annotated[str, Field(max_length=16, pattern=r"^(-?[0-9]+(:[0-9]+)?|n/a)$")] | None
    ) = None
    start: Time | None = None
    end: Time | None = None
    nodes: Nodes = Field(default=[])
    detection_signal: DetectionSignal | None = None


class StreamBody(Request):
    """Which file or stream the bytes are of, and what its lines cannot say themselves."""

    path: Annotated[
        str,
        Field(
            min_length=1,
            max_length=512,
            pattern=r"^[A-Za-z0-9_][A-Za-z0-9._=+@-]*(/[A-Za-z0-9_][A-Za-z0-9._=+@-]*)*$",
            examples=["slurm-410050.out"],
        ),
    ]
    source: Source
    node: Annotated[list[Name], Field(max_length=1000)] = Field(default=[])
    rank: Annotated[list[Rank], Field(max_length=1000)] = Field(default=[])
    pod: Name | None = None
    container: Name | None = None
    timezone: Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9+_:/-]+$")] | None = Field(
        default=None, description="An IANA name or an offset, for stamps without one."
    )
    boot_time: Time | None = None
    captured_at: Time | None = None


class ChunkRequest(Request):
    """Bytes of one stream: `text`, or `data` in base64 for what is no UTF-8 (gzip, zstd)."""

    stream: StreamBody
    offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] = Field(
        default=0, description="Where in the stream these bytes begin."
    )
    text: Annotated[str, Field(min_length=1, max_length=MAX_INLINE_BYTES)] | None = None
    data: (
        Annotated[
            str,
            Field(
                min_length=4, max_length=_MAX_BASE64, pattern=r"^[A-Za-z0-9+/]+={0,2}$",
                json_schema_extra={"contentEncoding": "base64"},
            ),
        ]
        | None
    ) = None  # fmt: skip


class UploadRequest(Request):
    """Announce a chunk that is too large for a request; its bytes go to the answered URL."""

    stream: StreamBody
    offset: Annotated[int, Field(ge=0, le=_MAX_OFFSET)] = 0
    bytes: Annotated[int, Field(gt=0, le=MAX_UPLOAD_BYTES)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class WhenBody(Request):
    """A time as an interval, microseconds since the epoch in UTC."""

    earliest_us: Micros | None = None
    latest_us: Micros | None = None
    basis: Literal[
        "stamp", "local", "yearless", "uptime", "relative", "neighbour", "record", "sample",
        "attempt", "none",
    ] = "none"  # fmt: skip
    clock: Annotated[str, Field(max_length=253)] = ""


class OriginBody(Request):
    """The bytes that an observation rests on."""

    uri: Annotated[str, Field(min_length=1, max_length=1024)]
    line: Annotated[int, Field(ge=1, le=_LARGEST)]
    byte_offset: Count
    byte_length: Count


class SampleBody(Request):
    """One sighting."""

    origin: OriginBody
    when: WhenBody = WhenBody()
    text: Annotated[str, Field(max_length=MAX_TEXT)]
    lines: Annotated[int, Field(ge=1, le=1000)] = 1


class EntityBody(Request):
    """Who an observation speaks of."""

    node: Annotated[str, Field(max_length=253)] = ""
    rank: Rank | None = None
    local_rank: Annotated[int, Field(ge=0, le=1023)] | None = None
    pid: Count | None = None
    pod: Annotated[str, Field(max_length=253)] = ""
    gpu_index: Annotated[int, Field(ge=0, le=1023)] | None = None
    gpu_pci: Annotated[str, Field(max_length=64)] = ""
    gpu_uuid: Annotated[str, Field(max_length=64)] = ""
    gpu_serial: Annotated[str, Field(max_length=64)] = ""
    nic: Annotated[str, Field(max_length=253)] = ""
    link: Annotated[str, Field(max_length=253)] = ""
    switch: Annotated[str, Field(max_length=253)] = ""
    filesystem: Annotated[str, Field(max_length=1024)] = ""


Field32 = Annotated[str, Field(min_length=1, max_length=64)]


class ObservationBody(Request):
    """`observation/v1` as our extraction writes it. Trust is `caller`, whatever it was before."""

    kind: ObservationKind = "match"
    symptom: Word
    rule: Annotated[str, Field(min_length=1, max_length=128)]
    signature: Annotated[str, Field(max_length=128)] = ""
    source: Source
    stream: Annotated[str, Field(min_length=1, max_length=1024)]
    entity: EntityBody = EntityBody()
    when: WhenBody = WhenBody()
    count: Annotated[int, Field(ge=1, le=_LARGEST)] = 1
    first: SampleBody
    last: SampleBody | None = Field(default=None, description="Absent: the same as `first`.")
    samples: Annotated[list[SampleBody], Field(max_length=4)] = Field(default=[])
    fields: Annotated[
        dict[Field32, Annotated[str, Field(max_length=1024)]], Field(max_length=32)
    ] = Field(default={})
    identity: Annotated[list[Field32], Field(max_length=16)] = Field(default=[])
    flags: Annotated[list[Field32], Field(max_length=16)] = Field(default=[])
    extraction_digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = ""


class ObservationsRequest(Request):
    """Observations in any order; one that is already there changes nothing."""

    observations: Annotated[list[ObservationBody], Field(min_length=1, max_length=MAX_OBSERVATIONS)]


Ruleset = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[a-z][a-z0-9-]*$",
        description=(
            "`site`: the rules that the stack judges with; `release`: those of the release alone;"
            " another name: the release's with the files below `rules/<name>/` of the bucket."
        ),
    ),
]


class AttributionRequest(Request):
    """Judge stored evidence again, with another ruleset."""

    ruleset: Ruleset = "site"


class CulpritBody(Request):
    """A node that a person names, and what it is in the failure."""

    node: Name
    role: Literal["culprit", "suspect", "victim"]


class CorrectionRequest(Request):
    """What a person found out; it becomes a revision and never starts automation."""

    expected_revision: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        description="The revision that was read; another one meanwhile is a conflict."
    )
    domain: Domain
    failure_class: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[a-z][a-z0-9_]*$")]
    terminal_state: TerminalState | None = None
    quality: Literal["definitive", "probable"] = "definitive"
    title: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
    reason: Annotated[str, Field(min_length=1, max_length=4000)] = Field(
        description="What the correction rests on, in words."
    )
    nodes: Annotated[list[CulpritBody], Field(max_length=64)] = Field(default=[])
    evidence: Annotated[list[Word], Field(max_length=64)] = Field(
        default=[], description="Ids of the verdict's evidence that support it."
    )


class ScopeBody(Request):
    """What a request is about: nodes, ranks, and a window. Without an end the job still runs."""

    nodes: Nodes = Field(default=[])
    ranks: Ranks = Field(default=[])
    start_time: Time | None = None
    end_time: Time | None = None


class FailureContext(Request):
    """When and how a failure was noticed."""

    detected_at: Time | None = None
    detection_signal: DetectionSignal


class WorkloadContext(Request):
    """What a recovery controller knows of the job beside its id."""

    scheduler: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z][a-z0-9_-]*$")] = (
        "slurm"
    )
    cluster: Word = "default"
    workflow_id: Plain | None = None
    attempt_index: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    job_end_time: Time | None = None
    state: State | None = None
    exit_code: (
        Annotated[str, Field(max_length=16, pattern=r"^(-?[0-9]+(:[0-9]+)?|n/a)$")] | None
    ) = None


class RecoveryRequest(Request):
    """What a job-recovery controller asks; a running job may be asked about."""

    schema_version: Annotated[str, Field(max_length=16, pattern=r"^0\.[0-9]+\.[0-9]+$")] = "0.1.0"
    workload_id: JobId
    phase: Literal["fast", "slow"] = Field(
        description="`fast`: what is known now; `slow`: wait for what is being collected."
    )
    timeout_ms: Annotated[int, Field(ge=1, le=900_000)] = Field(
        description="The answer comes within this, and within 25 s at the most."
    )
    scope: ScopeBody = ScopeBody()
    failure_context: FailureContext
    workload_context: WorkloadContext = WorkloadContext()
    continue_session: Annotated[str, Field(pattern=r"^ses_[0-9a-f]{32}$")] | None = None
    user_id: Plain = ""
