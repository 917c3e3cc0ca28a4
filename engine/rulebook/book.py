"""The compiled rulebook: what scanners and reasoning read at run time.

Plain slotted dataclasses decoded from one canonical artifact, because the whole set must load
in tens of milliseconds. Built from `engine.rulebook.document` by `engine.rulebook.compile`.
"""

from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class OnsetTimer:
    """Back-dating, in microseconds; see `document.Onset`. `unit_us` scales `field`."""

    field: str | None
    unit_us: int
    default_us: int
    min_us: int
    max_us: int


@dataclass(slots=True, frozen=True)
class Action:
    """See `document.Advice`."""

    action: str
    target: str
    reason: str


@dataclass(slots=True, frozen=True)
class SymptomDef:
    """See `document.Meaning`; `rule` is the id of the file that defines it."""

    symptom: str
    rule: str
    status: str
    title: str
    domain: str
    role: str
    tier: int
    manifestation: str
    entity: str
    proof: str
    alone: str
    rivals: tuple[str, ...]
    terminal: str | None
    accuses: bool
    tags: tuple[str, ...]
    about: str
    explanation: str
    actions: tuple[Action, ...]


@dataclass(slots=True, frozen=True)
class FamilyCase:
    """One row of a family table, in file order."""

    codes: tuple[str, ...]
    when: dict[str, tuple[str, ...]]
    match_text: str | None
    unless_text: str | None
    symptom: str


@dataclass(slots=True, frozen=True)
class SignatureDef:
    """One scannable line form; `index` is its pattern id in the automaton.

    `symptom` for a plain signature; for a family, `family_key` is the captured group and
    `family` the rows, with `symptom` as default.
    """

    index: int
    rule: str
    name: str
    symptom: str
    sources: tuple[str, ...]
    proves_from: tuple[str, ...]
    scan: str
    extract: str
    ignore_case: bool
    identity: tuple[str, ...]
    when: dict[str, tuple[str, ...]]
    unless: tuple[str, ...]
    block: str | None
    set: dict[str, str]
    onset: OnsetTimer | None
    family_key: str | None = None
    family: tuple[FamilyCase, ...] = ()
    block_has: tuple[str, ...] = ()
    block_lacks: tuple[str, ...] = ()
    gives_way: bool = False


@dataclass(slots=True, frozen=True)
class CauseDef:
    """See `document.CauseRule`; tags already resolved to symptoms, times in microseconds.

    `cause_tags` and `effect_tags` are those tags: a site's symptoms may carry them too.
    """

    rule: str
    status: str
    title: str
    causes: tuple[str, ...]
    effects: tuple[str, ...]
    joins: tuple[str, ...]
    min_us: int
    max_us: int
    strength: str
    requires: tuple[str, ...]
    unless: tuple[str, ...]
    cause_tags: tuple[str, ...] = ()
    effect_tags: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class MetricDef:
    """See `document.MetricRule`; numbers as decimal text, parsed by the detector."""

    rule: str
    symptom: str
    metrics: tuple[str, ...]
    promql: str
    detector: str
    threshold: str | None
    ratio: str | None
    mask: str | None
    values: tuple[str, ...]
    for_fraction: str
    labels: dict[str, str]


@dataclass(slots=True, frozen=True)
class Rulebook:
    """The whole compiled set with its version and its two digests.

    `python` maps the modules of `rules/python` to the digests of their source.
    """

    version: str
    extraction_digest: str
    reasoning_digest: str
    signatures: tuple[SignatureDef, ...]
    symptoms: dict[str, SymptomDef]
    causes: tuple[CauseDef, ...]
    metrics: tuple[MetricDef, ...]
    engine_version: str = "1"
    python: dict[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = field(default=())
