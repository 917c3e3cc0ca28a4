"""Rules written in Python: a read-only view of the episodes in, proposals out, bounded in work.

They ship with the code (`rules/python/`) and import `engine.api` alone. Work is counted in views
handed out, never in seconds, so that a slow machine changes no verdict. A rule that raises or uses
up its budget proposes nothing, is listed under `not_evaluated`, and the rest goes on.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from engine.case import Case
from engine.correlate import Edge, Graph
from engine.episodes import Episode
from engine.meanings import Meanings
from engine.model.observation import Observation
from engine.model.verdict import HistoryEntry
from engine.moments import OPEN_FUTURE, OPEN_PAST, known
from engine.normalise import Bounds

SHIPPED: Final = Path(__file__).resolve().parent.parent / "rules" / "python"
WORK_BUDGET: Final = 100_000
RECOVERED: Final[Literal["recovered"]] = "recovered"


class BudgetError(Exception):
    """A Python rule asked for more views than its work budget allows."""


class Meter:
    """Counts the work of one rule; raises `BudgetError` beyond `budget`."""

    def __init__(self, budget: int = WORK_BUDGET) -> None:
        self._left = budget

    def spend(self, units: int = 1) -> None:
        """Count `units` of work."""
        self._left -= units
        if self._left < 0:
            raise BudgetError("the work budget is used up")


@dataclass(slots=True, frozen=True)
class SightingView:
    """One folded observation of an episode: the text of its first line and what was captured."""

    text: str
    fields: tuple[tuple[str, str], ...]
    pid: int | None
    node: str
    first_us: int | None

    def get(self, name: str) -> str:
        """Return a captured field, or nothing."""
        return next((value for key, value in self.fields if key == name), "")


@dataclass(slots=True, frozen=True)
class EpisodeView:
    """What a rule may know of an episode; `set_aside` is the reason why it does not count."""

    number: int
    symptom: str
    domain: str
    role: str
    tier: int
    tags: tuple[str, ...]
    set_aside: str
    trust: str
    node: str
    rank: int | None
    ranks: tuple[int, ...]
    gpu: str
    nic: str
    filesystem: str
    pod: str
    count: int
    first_us: int | None
    last_us: int | None


@dataclass(slots=True, frozen=True)
class SymptomProposal:
    """A symptom that the `basis` episodes show together, on the first one's entity.

    A symptom of a rule file gives it its meaning. It becomes the sufficient cause of `explains`.
    """

    symptom: str
    basis: tuple[EpisodeView, ...]
    explains: tuple[EpisodeView, ...] = ()


@dataclass(slots=True, frozen=True)
class EdgeProposal:
    """`cause` explains `effect`."""

    cause: EpisodeView
    effect: EpisodeView
    strength: Literal["sufficient", "contributing"] = "sufficient"


@dataclass(slots=True, frozen=True)
class RecoveryProposal:
    """`episode` was over long before the job's end, or is not the job's: it explains nothing.

    It is kept, set aside for `reason`.
    """

    episode: EpisodeView
    reason: Literal["recovered", "other_process"] = RECOVERED


Proposal = SymptomProposal | EdgeProposal | RecoveryProposal


class Evidence:
    """The read-only view that a rule gets. Iterating costs one unit of work a view."""

    def __init__(
        self, episodes: list[Episode], meter: Meter, *, end_us: int | None,
        history: tuple[HistoryEntry, ...],
    ) -> None:  # fmt: skip
        self._episodes = episodes
        self._meter = meter
        self.end_us = end_us
        self._history = history

    def episodes(self, *symptoms: str, counting: bool = True) -> Iterator[EpisodeView]:
        """Yield episodes (of `symptoms`, where given) in a stable order.

        With `counting` false those that were set aside come too, such as those before the job.
        """
        for number, episode in enumerate(self._episodes):
            if (symptoms and episode.symptom not in symptoms) or (counting and episode.reason):
                continue
            self._meter.spend()
            yield _view(number, episode)

    def sightings(self, episode: EpisodeView) -> Iterator[SightingView]:
        """Yield what an episode was folded from, by place."""
        found = self._episodes[episode.number].observations
        for observation in sorted(found, key=_place):
            self._meter.spend()
            yield SightingView(
                observation.first.text,
                tuple(sorted(observation.fields.items())),
                observation.entity.pid,
                observation.entity.node,
                observation.when.earliest_us,
            )

    def history(self) -> Iterator[HistoryEntry]:
        """Yield earlier and concurrent verdicts that were given as evidence."""
        for entry in sorted(self._history, key=lambda e: (e.end or "", e.attribution_id)):
            self._meter.spend()
            yield entry


Rule = Callable[[Evidence], Iterable[Proposal]]


@dataclass(slots=True)
class Proposed:
    """What all Python rules together propose for one case."""

    episodes: list[Episode] = field(default_factory=list)
    edges: list[tuple[Episode, Episode, str, bool]] = field(default_factory=list)
    not_evaluated: list[tuple[str, str]] = field(default_factory=list)

    def join(self, graph: Graph) -> None:
        """Add the proposed edges to the graph, and what could not be evaluated."""
        places = {id(episode): place for place, episode in enumerate(graph.episodes)}
        for cause, effect, rule, is_sufficient in self.edges:
            if id(cause) in places and id(effect) in places:
                graph.add(Edge(places[id(cause)], places[id(effect)], rule, is_sufficient))
        graph.not_evaluated.extend(self.not_evaluated)


def run_python_rules(
    names: Iterable[str], episodes: list[Episode], *, case: Case, meanings: Meanings,
    bounds: Bounds, budget: int = WORK_BUDGET, find: Callable[[str], Rule] | None = None,
) -> Proposed:  # fmt: skip
    """Run the named rules over all episodes, those set aside included; `find` gives the code."""
    proposed = Proposed()
    end = known(bounds.end)
    for name in sorted(names):
        rule_id = f"python/{name}"
        try:
            rule = (find or shipped_rule)(name)
            view = Evidence(episodes, Meter(budget), end_us=end, history=case.history)
            made = [_build(item, episodes, meanings) for item in rule(view)]
        except Exception as error:  # noqa: BLE001 - the one point that isolates a Python rule
            reason = f"{type(error).__name__}: {error}"[:300]
            proposed.not_evaluated.append((rule_id, reason))
            continue
        for part in made:
            part.add_to(proposed, rule_id)
    return proposed


@lru_cache(maxsize=64)
def shipped_rule(name: str) -> Rule:
    """Return the `evaluate` of `rules/python/<name>.py` of this release, and of no other folder.

    Raises `FileNotFoundError` for a rule that does not ship with this code.
    """
    path = SHIPPED / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"rules.python.{name}", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path.name} does not ship with this release")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rule: Rule = module.evaluate
    return rule


@dataclass(slots=True)
class _Made:
    """A proposal turned into the engine's own terms, not yet applied."""

    episode: Episode | None = None
    edges: list[tuple[Episode, Episode, bool]] = field(default_factory=list)
    recovered: Episode | None = None
    reason: str = ""

    def add_to(self, proposed: Proposed, rule_id: str) -> None:
        if self.episode is not None:
            proposed.episodes.append(self.episode)
        proposed.edges.extend((cause, effect, rule_id, firm) for cause, effect, firm in self.edges)
        if self.recovered is not None and not self.recovered.reason:
            self.recovered.reason = self.reason


def _build(proposal: Proposal, episodes: list[Episode], meanings: Meanings) -> _Made:
    match proposal:
        case RecoveryProposal():
            return _Made(recovered=episodes[proposal.episode.number], reason=proposal.reason)
        case EdgeProposal():
            pair = (episodes[proposal.cause.number], episodes[proposal.effect.number])
            return _Made(edges=[(*pair, proposal.strength == "sufficient")])
        case SymptomProposal():
            made = _episode(proposal, episodes, meanings)
            effects = [episodes[view.number] for view in proposal.explains]
            return _Made(episode=made, edges=[(made, effect, True) for effect in effects])


def _episode(proposal: SymptomProposal, episodes: list[Episode], meanings: Meanings) -> Episode:
    meaning = meanings.get(proposal.symptom)
    if meaning is None:
        raise KeyError(f"no rule defines symptom {proposal.symptom!r}")
    basis = [episodes[view.number] for view in proposal.basis]
    reason = "" if meaning.status == "stable" else f"{meaning.status}_rule"
    made = Episode(proposal.symptom, meaning, basis[0].subject, reason)
    for episode in basis:
        for observation in episode.observations:
            made.add(
                observation, episode.onset_earliest, episode.onset_latest,
                episode.seen_first, episode.seen_last,
            )  # fmt: skip
    return made


def _view(number: int, episode: Episode) -> EpisodeView:
    subject, meaning = episode.subject, episode.meaning
    first = episode.seen_first if episode.seen_first != OPEN_FUTURE else None
    last = episode.seen_last if episode.seen_last not in (OPEN_PAST, OPEN_FUTURE) else None
    return EpisodeView(
        number, episode.symptom, meaning.domain, meaning.role, meaning.tier, meaning.tags,
        episode.reason, episode.trust, subject.node, subject.rank, subject.ranks, subject.gpu,
        subject.nic, subject.filesystem, subject.pod, episode.count,
        first if first != OPEN_PAST else None, last,
    )  # fmt: skip


def _place(observation: Observation) -> tuple[str, int, str]:
    origin = observation.first.origin
    return (origin.uri, origin.byte_offset, observation.first.text)
