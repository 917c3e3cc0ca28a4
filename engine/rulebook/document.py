"""What a rule file may say. One file, one rule; the id is the path below `rules/`.

Five kinds. `symptom` names something that can be seen and the signatures that see it (each symptom
is defined once); `signature` adds signatures to a symptom defined elsewhere; `family` is one
signature and a table of symptoms keyed on a captured code (XIDs); `cause` says which symptom
explains which; `metric` turns samples into a symptom. Durations are text such as `10s`,
`5m`, `-2s`, `500ms`.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from engine.model.contract import StrictDocument
from engine.model.vocabulary import (
    ActionName,
    Domain,
    EntityKind,
    Manifestation,
    QualityLevel,
    Source,
    TerminalState,
    Trust,
)
from engine.model.workload import as_list

Status = Literal["experimental", "stable", "deprecated"]
SymptomRole = Literal[
    "root",        # by default an initiating event
    "lean_root",   # initiating more often than not; loses to any root on the same or named entity
    "ambiguous",   # needs a second signal; alone it never reaches more than `alone`
    "confirm",     # details or points at another event
    "secondary",   # a consequence: finds the peer and the time, never the verdict
    "teardown",    # noise after the failure
    "marker",      # boot, checkpoint, progress, reset: a moment on the timeline
    "noise",       # benign; kept with its reason
]  # fmt: skip
Join = Literal[
    "same_gpu", "same_node", "same_rank", "same_process", "same_link", "same_nic",
    "same_switch", "same_filesystem", "nvlink_domain", "named_peer", "job",
]  # fmt: skip
SymptomId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{2,63}$")]
RuleId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[a-z0-9][a-z0-9_]*)+$")]

_DURATION = re.compile(r"^(-?\d+(?:\.\d+)?)(ms|s|m|h|d)$")
_UNIT_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def parse_duration_us(value: Any) -> Any:
    """Return microseconds of `10s`, `-2s`, `500ms`, `5m`, `1h`, `1d`; raises `ValueError`."""
    if isinstance(value, int):
        return value
    if str(value).strip() == "0":
        return 0
    match = _DURATION.match(str(value).strip())
    if not match:
        raise ValueError(f"{value!r} is no duration: write a number and ms, s, m, h or d")
    return int(float(match[1]) * _UNIT_US[match[2]])


DurationUs = Annotated[int, BeforeValidator(parse_duration_us)]
Listed = BeforeValidator(as_list)


class Onset(StrictDocument):
    """How long before its line a symptom began: `[t - value - max, t - value - min]`.

    `value` is the captured `field` (in `unit`), or `default` where the line does not carry it.
    """

    field: str | None = None
    unit: Literal["us", "ms", "s", "m"] = "ms"
    default: DurationUs = 0
    min: DurationUs = 0
    max: DurationUs = 0


class Signature(StrictDocument):
    """One line form. `scan` finds the line (multi-pattern automaton), `extract` reads it.

    `extract` is Python `re` with named groups; it must match wherever `scan` means to. Groups
    with a reserved name fill the entity (see docs/rules.md). `identity` groups are part of the
    fold key. `proves_from`: from other trusts the line is kept as observed and proves nothing.
    `when` restricts captured values: all listed groups must have one of the listed values.
    `block_has` and `block_lacks` look at the lines of the block: one must hold an expression, or
    none may. With `gives_way` it says nothing where a signature of another rule reads the line.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")] = "main"
    sources: Annotated[tuple[Source, ...], Listed]
    proves_from: Annotated[tuple[Trust, ...], Listed] = ()
    scan: str = Field(min_length=4)
    short_literal: str | None = None  # why `scan` may lack a fixed text of six bytes
    extract: str | None = None
    ignore_case: bool = False
    identity: Annotated[tuple[str, ...], Listed] = ()
    when: dict[str, Annotated[tuple[str, ...], Listed]] = Field(default={})
    unless: Annotated[tuple[str, ...], Listed] = ()
    block: str | None = None
    block_has: Annotated[tuple[str, ...], Listed] = ()
    block_lacks: Annotated[tuple[str, ...], Listed] = ()
    gives_way: bool = False
    set: dict[str, str] = Field(default={})
    onset: Onset | None = None
    samples: Annotated[tuple[str, ...], Listed]
    near_misses: Annotated[tuple[str, ...], Listed] = ()


class Advice(StrictDocument):
    """An action this cause asks for; `target` names what kind of entity it acts on."""

    action: ActionName
    target: Literal["gpu", "node", "job", "filesystem", "network", "none"] = "job"
    reason: str


class Meaning(StrictDocument):
    """What a symptom means to the engine.

    `tier` 0 recorded intent, 1 physical fault, 2 confirmed resource or service fault, 3 explicit
    program error, 4 ambiguous device error, 5 ambiguous link error, 6 cascade, 7 teardown.
    `proof` `direct`: the failing component, or the authority that stopped the job, reports it
    itself. `alone` caps the quality when nothing else supports it. `rivals` are the domains that
    fit equally well when it stands alone (then the verdict is ambiguous). `terminal` is the
    terminal state it proves. `accuses` false: never names a node or rank as culprit.
    """

    symptom: SymptomId
    title: str
    domain: Domain
    role: SymptomRole
    tier: int = Field(ge=0, le=7)
    manifestation: Manifestation = "crash"
    entity: EntityKind = "job"
    proof: Literal["direct", "inferred"] = "direct"
    alone: QualityLevel = "definitive"
    rivals: Annotated[tuple[Domain, ...], Listed] = ()
    terminal: TerminalState | None = None
    accuses: bool = True
    tags: Annotated[tuple[str, ...], Listed] = ()
    about: str = ""
    explanation: str = ""
    actions: tuple[Advice, ...] = ()


class _Rule(StrictDocument):
    id: RuleId
    version: int = Field(ge=1)
    status: Status = "stable"
    deprecated: str | None = None
    sources: Annotated[tuple[str, ...], Listed]


class SymptomRule(_Rule, Meaning):
    """A symptom and its signatures (none for symptoms that format readers or the engine make)."""

    kind: Literal["symptom"]
    signatures: tuple[Signature, ...] = ()


class SignatureRule(_Rule):
    """More signatures for a symptom that another rule defines (text variants of a family's row)."""

    kind: Literal["signature"]
    symptom: SymptomId
    signatures: tuple[Signature, ...]


class FamilyRow(Meaning):
    """One code of a family; `when` restricts further captured groups (e.g. severity)."""

    code: Annotated[tuple[str, ...], Listed]
    when: dict[str, Annotated[tuple[str, ...], Listed]] = Field(default={})
    unless_text: str | None = None
    match_text: str | None = None
    samples: Annotated[tuple[str, ...], Listed] = ()


class FamilyRule(_Rule):
    """One signature and a table keyed on the captured group `key`; first matching row wins."""

    kind: Literal["family"]
    title: str
    key: str
    signatures: tuple[Signature, ...]
    rows: tuple[FamilyRow, ...]
    default: Meaning


class Window(StrictDocument):
    """Effect onset minus cause onset must be able to lie in `[min, max]`."""

    min: DurationUs = 0
    max: DurationUs = 60_000_000


class CauseRule(_Rule):
    """`causes` explain `effects` where `join` holds within `window`. `#tag` names a tag.

    A sufficient cause explains its effect fully; a contributing one stays beside the way.
    `requires` are symptoms that must also be present in the job; `unless` must be absent.
    """

    kind: Literal["cause"]
    title: str
    causes: Annotated[tuple[str, ...], Listed]
    effects: Annotated[tuple[str, ...], Listed]
    join: Annotated[tuple[Join, ...], Listed]
    window: Window = Window()
    strength: Literal["sufficient", "contributing"] = "sufficient"
    requires: Annotated[tuple[str, ...], Listed] = ()
    unless: Annotated[tuple[str, ...], Listed] = ()

    @model_validator(mode="after")
    def _window_is_ordered(self) -> "CauseRule":
        if self.window.min > self.window.max:
            raise ValueError("window.min is after window.max")
        return self


class MetricRule(_Rule, Meaning):
    """Samples to a symptom. `promql` is what a live backend is asked for the job's nodes.

    `metric` names are matched exactly on files; `detector`: `above`, `below` (against
    `threshold`), `increase` (counter rose by more than `threshold` in the window), `value_in`
    (`values`), `bits` (any bit of `mask`), `outlier_low` and `outlier_high` (mean over the
    window against the median of the job's peers, `ratio`). `for_fraction` of samples must agree.
    """

    kind: Literal["metric"]
    metric: Annotated[tuple[str, ...], Listed]
    promql: str
    detector: Literal[
        "above", "below", "increase", "value_in", "bits", "outlier_low", "outlier_high"
    ]
    threshold: str | None = None
    ratio: str | None = None
    mask: str | None = None
    values: Annotated[tuple[str, ...], Listed] = ()
    for_fraction: str = "0"
    labels: dict[str, str] = Field(default={})


RuleDocument = Annotated[
    SymptomRule | SignatureRule | FamilyRule | CauseRule | MetricRule, Field(discriminator="kind")
]
