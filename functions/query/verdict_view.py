"""A verdict arranged for reading: the answer, what it rests on, what was missing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from markupsafe import Markup

from engine.model.envelope import Envelope
from engine.model.hostlist import compact_hostlist
from engine.model.verdict import (
    AffectedEntity,
    AffectedNode,
    Coverage,
    Evidence,
    NotEvaluated,
    RootCause,
    Symptom,
    TimelineEntry,
    Verdict,
)
from functions.adapters.results import Result
from functions.query.context import Context
from functions.query.difference import Change
from functions.query.graph_picture import graph_picture
from functions.query.plain import between, counted, short, words
from functions.query.symptom_names import entity_name, symptom_titles
from functions.query.timeline_picture import timeline_picture

MAX_EVIDENCE: Final = 60
MAX_SYMPTOMS: Final = 120
MAX_RANKS: Final = 256
MAX_NODES: Final = 64
_SOURCES: Final = (
    "applog", "syslog", "scheduler", "kubernetes", "metrics", "flight_recorder", "inventory",
)  # fmt: skip
_WINDOWS: Final = ("startup", "whole", "tail", "history")
_LEVELS: Final = {
    "definitive": "The failing part, or whoever stopped the job, says so itself.",
    "probable": "Inferred; nothing contradicts it.",
    "ambiguous": "Two or more causes fit; none is chosen.",
    "insufficient": "The evidence allows no cause. This is not a sign of health.",
}
_SET_ASIDE: Final = ("noise", "unrelated")


@dataclass(slots=True, frozen=True)
class EvidenceView:
    """A piece of evidence and what cites it."""

    evidence: Evidence
    number: int
    supports: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class CoverageRow:
    """One source: what was seen of it in each window, groups of nodes apart."""

    source: str
    cells: dict[str, list[Coverage]]


@dataclass(slots=True, frozen=True)
class Causes:
    """The root causes under the right heading: a cause, rivals, or none."""

    heading: str
    causes: Sequence[RootCause]
    is_open: bool


@dataclass
class VerdictView:
    """Everything that the verdict page shows; `contexts` by evidence id."""

    result: Result
    current: Result
    envelope: Envelope
    revisions: Sequence[Result]
    contexts: Mapping[str, Context] = field(default_factory=dict)
    changes: Sequence[Change] = ()
    timeline: Markup | None = None
    graph: Markup | None = None

    def __post_init__(self) -> None:
        self.timeline = timeline_picture(self.verdict)
        self.graph = graph_picture(self.verdict)

    @property
    def verdict(self) -> Verdict:
        """The verdict itself."""
        return self.envelope.verdict

    @cached_property
    def is_newest(self) -> bool:
        """Whether no later revision replaced this one."""
        return self.result.revision == self.current.revision

    @cached_property
    def heading(self) -> str:
        """The answer in one line."""
        verdict = self.verdict
        primary = next((each for each in verdict.root_causes if each.primary), None)
        if primary is not None:
            return primary.title
        if verdict.domain == "none":
            return "Nothing failed"
        if verdict.root_causes:
            several = len(verdict.root_causes) > 1
            return "Several causes fit" if several else f"Suspected: {verdict.root_causes[0].title}"
        return "No cause found"

    @cached_property
    def where(self) -> str:
        """Where the primary cause is, in words; empty for the job itself."""
        primary = next((each for each in self.verdict.root_causes if each.primary), None)
        if primary is None or primary.entity.kind == "job":
            return ""
        return entity_name(primary.entity)

    @cached_property
    def lasted(self) -> str:
        """How long the attempt ran, in words."""
        return between(self.verdict.workload.start, self.verdict.workload.end)

    @cached_property
    def level_meaning(self) -> str:
        """What the level of quality means."""
        return _LEVELS[self.verdict.quality.level]

    @cached_property
    def causes(self) -> Causes:
        """The root causes and how to read them."""
        found = self.verdict.root_causes
        is_open = bool(found) and not any(each.primary for each in found)
        heading = "Root cause"
        if is_open:
            heading = "Either of these" if len(found) > 1 else "Suspected cause"
        elif len(found) > 1:
            heading = "Root causes"
        return Causes(heading, found, is_open)

    @cached_property
    def nodes(self) -> str:
        """The attempt's nodes in compact notation."""
        return compact_hostlist(self.verdict.workload.nodes)

    @cached_property
    def to_act_on(self) -> list[AffectedNode]:
        """Culprit and suspect nodes, culprits first."""
        nodes = [e for e in self.verdict.affected_nodes if e.role in ("culprit", "suspect")]
        return sorted(nodes, key=lambda each: (each.role, each.node))[:MAX_NODES]

    @cached_property
    def named(self) -> list[AffectedEntity]:
        """Culprit and suspect entities other than nodes."""
        found = self.verdict.affected_entities
        named = [e for e in found if e.role in ("culprit", "suspect") and e.kind != "node"]
        return sorted(named, key=lambda e: (e.role, e.kind, e.node or "", e.id))[:MAX_RANKS]

    @cached_property
    def victims(self) -> str:
        """Who only suffered: nodes and ranks apart, as far as the verdict tells; may be empty.

        The verdict counts those that it leaves out together. Where it lists every node of the
        job they are ranks, where it lists every rank they are nodes.
        """
        verdict = self.verdict
        names = sorted(each.node for each in verdict.affected_nodes if each.role == "victim")
        ranks = sum(each.role == "victim" for each in verdict.affected_ranks)
        nodes, rest = len(names), verdict.victims_omitted
        if self._lists_every_node:
            ranks, rest = ranks + rest, 0
        elif self._lists_every_rank:
            nodes, rest = nodes + rest, 0
        told = []
        if nodes:
            among = "" if nodes == len(names) else "among them "
            listed = f" ({among}{short(compact_hostlist(names), 160)})" if names else ""
            told.append(counted(nodes, "node") + listed)
        if ranks:
            told.append(counted(ranks, "rank"))
        if rest:
            more = "more " if told else ""
            told.append(f"{rest:,} {more}{'node or rank' if rest == 1 else 'nodes or ranks'}")
        return " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)

    @property
    def _lists_every_node(self) -> bool:
        nodes = self.verdict.workload.nodes
        return bool(nodes) and {e.node for e in self.verdict.affected_nodes}.issuperset(nodes)

    @property
    def _lists_every_rank(self) -> bool:
        size = self.verdict.workload.world_size
        return bool(size) and len(self.verdict.affected_ranks) >= (size or 0)

    @cached_property
    def titles(self) -> dict[str, str]:
        """Titles of symptoms."""
        return symptom_titles(self.verdict)

    @cached_property
    def moments(self) -> Sequence[TimelineEntry]:
        """The timeline's entries."""
        return self.verdict.timeline

    @cached_property
    def evidence(self) -> list[EvidenceView]:
        """Evidence in reading order: of root causes, of named entities, the rest."""
        known = {each.evidence_id: each for each in self.verdict.evidence}
        supports: dict[str, list[str]] = {}
        for cause in self.verdict.root_causes:
            for each in cause.evidence:
                supports.setdefault(each, []).append(f"cause: {cause.title}")
        for entity in self.verdict.affected_entities:
            if entity.role in ("culprit", "suspect"):
                for each in entity.evidence:
                    supports.setdefault(each, []).append(f"{entity.role}: {entity_name(entity)}")
        titles = self.titles
        for symptom in self.verdict.symptoms:
            for each in symptom.evidence:
                if each not in supports:
                    supports[each] = [f"{symptom.role}: {titles[symptom.symptom]}"]
        order = [each for each in supports if each in known]
        order += [each for each in known if each not in supports]
        return [
            EvidenceView(
                known[each],
                number,
                tuple(dict.fromkeys(supports.get(each, ())))[:3],
            )
            for number, each in enumerate(order[:MAX_EVIDENCE], start=1)
        ]

    @cached_property
    def evidence_omitted(self) -> int:
        """How many pieces are only in the JSON."""
        return max(0, len(self.verdict.evidence) - MAX_EVIDENCE)

    @cached_property
    def windows(self) -> list[str]:
        """The window classes that the coverage speaks of."""
        present = {each.window for each in self.verdict.coverage}
        return [each for each in _WINDOWS if each in present]

    @cached_property
    def coverage(self) -> list[CoverageRow]:
        """The coverage as a matrix of sources by window."""
        rows = []
        for source in _SOURCES:
            own = [each for each in self.verdict.coverage if each.source == source]
            if own:
                cells = {w: [e for e in own if e.window == w] for w in self.windows}
                rows.append(CoverageRow(source, cells))
        return rows

    @cached_property
    def linked(self) -> list[Symptom]:
        """Symptoms that belong to the failure."""
        return [e for e in self.verdict.symptoms if e.role not in _SET_ASIDE][:MAX_SYMPTOMS]

    @cached_property
    def set_aside(self) -> list[Symptom]:
        """Symptoms that were seen and do not count, with the reason."""
        return [e for e in self.verdict.symptoms if e.role in _SET_ASIDE][:MAX_SYMPTOMS]

    @cached_property
    def symptoms_omitted(self) -> int:
        """How many symptoms are only in the JSON."""
        return len(self.verdict.symptoms) - len(self.linked) - len(self.set_aside)

    @cached_property
    def missing_sources(self) -> list[str]:
        """Sources that nobody gave, for lack of which whole groups of rules say nothing."""
        found = self.verdict.rules.not_evaluated
        return sorted({each.reason for each in found if each.rule == "*"})

    @cached_property
    def broken_rules(self) -> list[NotEvaluated]:
        """Single rules that could not be evaluated, or raised."""
        return [each for each in self.verdict.rules.not_evaluated if each.rule != "*"]

    @cached_property
    def reasons(self) -> list[str]:
        """Why the level is what it is, in words."""
        return [words(each) for each in self.verdict.quality.reasons]
