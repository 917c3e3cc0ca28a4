"""Candidates: which episodes may be a cause at all, how they tie to the failure, and why not.

A candidate is dropped with a reason, explained by another one, or grouped with the same symptom on
other subjects into one cause.
"""

from dataclasses import dataclass

from engine.anchor import Anchor, contradicts
from engine.correlate import Graph
from engine.episodes import Episode, may_precede, surely_before, surely_earlier
from engine.meanings import FALLBACK
from engine.moments import MINUTE_US, OPEN_FUTURE
from engine.normalise import Bounds
from engine.progress import Progress
from engine.terminal import Claim
from engine.witnesses import is_supported

# Progress this long after a fault's last line means that the job survived it.
SETTLE_US = 2 * MINUTE_US
# The largest default timer in use (30 min) and ten minutes: the tail window of DESIGN.
CAUSAL_WINDOW_US = 40 * MINUTE_US
ROLE_ORDER = {"root": 0, "lean_root": 1, "ambiguous": 2}
_UNLINKED_TIER = 3.5
# A state of a device, and the symptom that ends it.
_ENDED_BY = {"nic_link_down": "nic_link_up"}
_STARTED = "pod_container_started"
# Explicit program errors (catalogue 4.2); what is above is ambiguous.
EXPLICIT_TIER = 3
_DEVICE_DOMAINS = frozenset({"gpu", "pcie"})
_PROGRAM_DOMAINS = frozenset({"application", "framework", "data"})
_FABRIC_DOMAINS = frozenset({"gpu", "pcie", "nvlink", "network"})


# Ends that slowness does not bring about by itself.
_BROKEN = frozenset({"failed", "out_of_memory", "node_fail", "not_started"})


@dataclass(slots=True)
class Cause:
    """One symptom on one or several subjects, weighed as one possible cause."""

    symptom: str
    positions: list[int]
    episodes: list[Episode]
    tier: float
    link: int
    domain: str
    rivals: tuple[str, ...] = ()
    reach: frozenset[int] = frozenset()

    @property
    def head(self) -> Episode:
        """The episode that speaks for the cause: the earliest, on the strongest trust."""
        return self.episodes[0]


class Candidates:
    """The candidates of one case; `dropped` and `backed` are filled by `causes`."""

    def __init__(
        self, graph: Graph, anchor: Anchor, claim: Claim, progress: Progress, *,
        bounds: Bounds, names: tuple[str, ...],
    ) -> None:  # fmt: skip
        self._graph = graph
        self._anchor = anchor
        self._claim = claim
        self._progress = progress
        self._bounds = bounds
        self._names = names
        self._first = frozenset(anchor.first_ranks)
        self._has_limit = any(
            e.meaning.tier == 0 and e.meaning.terminal == "timeout" for e in anchor.stops
        )
        self._returns = _last_returns(graph)
        self.dropped: dict[int, str] = {}
        self.backed: set[str] = set()

    def causes(self) -> list[Cause]:
        """Group the unexplained, linked, timely candidates by symptom."""
        episodes = self._graph.episodes
        live: list[int] = []
        for position, episode in enumerate(episodes):
            if not episode.is_candidate:
                continue
            reason = self._drop_reason(position, episode)
            if reason:
                self.dropped[position] = reason
            else:
                live.append(position)
        alive = set(live)
        groups: dict[str, list[int]] = {}
        for position in live:
            if self._is_explained(position, alive):
                continue
            if self._is_far_beside(position):
                self.dropped[position] = "outside_causal_window"
                continue
            if self._came_back(position):
                self.dropped[position] = "survived"
                continue
            if episodes[position].meaning.alone == "insufficient" and not self._is_backed(position):
                self.dropped[position] = "proves_nothing_alone"
            else:
                groups.setdefault(episodes[position].symptom, []).append(position)
        causes = [self._cause(symptom, positions) for symptom, positions in sorted(groups.items())]
        return self._fold_claims(causes)

    def _is_far_beside(self, position: int) -> bool:
        """A fault that explains nothing seen counts only close to the end (catalogue T4)."""
        episode = self._graph.episodes[position]
        if self._bounds.end == OPEN_FUTURE or episode.meaning.manifestation == "slow":
            return False
        if episode.seen_last + CAUSAL_WINDOW_US >= self._bounds.end:
            return False
        return self._link(position) == 0 and not self.may_hang_on(episode)

    def _came_back(self, position: int) -> bool:
        """A link that was down for a moment, of which nothing that was seen failed."""
        down = self._graph.episodes[position]
        back = _ENDED_BY.get(down.symptom)
        if back is None or self._link(position) > 0:
            return False
        last = self._returns.get((back, down.subject.node, down.subject.nic))
        return last is not None and last >= down.seen_last

    def may_hang_on(self, episode: Episode) -> bool:
        """A device broke for good inside the attempt, and no dated step says that the job went on.

        A hang on it lasts until a limit ends it, however long that takes.
        """
        meaning = episode.meaning
        return (
            self._claim.terminal == "timeout"
            and meaning.role == "root"
            and meaning.tier <= 1
            and meaning.accuses
            and episode.trust in ("node", "platform")
            and episode.seen_first >= self._bounds.start
            and episode.seen_last <= self._bounds.end
            and self._progress.has_steps
            and not self._progress.is_dated
        )

    def _is_backed(self, position: int) -> bool:
        episode = self._graph.episodes[position]
        if episode.meaning.manifestation == "never_started" and not self._ran_after(episode):
            # Passing trouble at the start counts where nothing shows that the job ever ran.
            self.backed.add(episode.symptom)
            return True
        return is_supported(self._graph, [position])

    def _ran_after(self, episode: Episode) -> bool:
        """Whether the job ran in spite of trouble at its start."""
        if self._claim.terminal == "not_started" and not self._progress.has_steps:
            return False
        if self._progress.has_output:
            return True
        is_old = (
            self._bounds.end != OPEN_FUTURE
            and episode.seen_last + CAUSAL_WINDOW_US < self._bounds.end
        )
        return is_old and any(other.symptom == _STARTED for other in self._graph.episodes)

    def _drop_reason(self, position: int, episode: Episode) -> str:
        meaning = episode.meaning
        if meaning.tier == 0:
            if contradicts(episode, self._claim):
                return "contradicts_scheduler"
            return "other_job" if self._is_foreign_stop(episode) else ""
        slow = meaning.manifestation == "slow"
        if slow and self._claim.terminal in _BROKEN and not self.effects(position):
            return "not_linked"
        if not slow and self._progress.outlived(episode, SETTLE_US):
            return "survived"
        if self._anchor.is_after_stop(episode):
            return "after_stop"
        if episode.is_lasting and not self.effects(position):
            return "not_linked"
        first_exit = self._anchor.first_exit
        if (
            first_exit is not None
            and first_exit is not episode
            and surely_earlier(first_exit, episode)
            and not (meaning.tier <= 1 and episode.trust in ("node", "platform"))
        ):
            return "after_failure"
        return ""

    def _is_foreign_stop(self, episode: Episode) -> bool:
        """A stop of a pod or workload without the job's name, which the job's state denies."""
        objects = {o.fields.get("workload", "") for o in episode.observations}
        objects = {name.lower() for name in {episode.subject.pod, *objects} if name}
        if not objects or not self._names:
            return False
        if any(own.lower() in name for own in self._names for name in objects):
            return False
        stopped = (episode.meaning.terminal, "evicted", "cancelled")
        return self._claim.terminal not in stopped

    def _is_explained(self, position: int, alive: set[int]) -> bool:
        graph = self._graph
        episode = graph.episodes[position]
        for other in graph.ancestors(position):
            if other not in alive:
                if self._is_aftermath(position, other):
                    return True
                continue
            cause = graph.episodes[other]
            if not may_precede(cause, episode) and not cause.is_lasting:
                continue
            if cause.meaning.tier == 0 and (
                self._anchor.is_above_stop(episode)
                or self.ended_steps(episode, cause)
                or self._is_at_odds(episode)
            ):
                continue
            if cause.symptom == episode.symptom and not surely_earlier(cause, episode):
                # The same on several subjects is one cause, not one the cause of the others.
                continue
            if position in graph.ancestors(other) and self._rank(position) < self._rank(other):
                continue
            return True
        return False

    def ended_steps(self, episode: Episode, stop: Episode) -> bool:
        """An explicit error without a stamp below the last step: a time limit ends no program so.

        It raised and the others waited until the limit; why else would no step stand below it.
        """
        return (
            stop.meaning.terminal == "timeout"
            and episode.meaning.role == "root"
            and episode.meaning.tier == EXPLICIT_TIER
            and episode.is_undated
            and self._progress.is_below(episode)
        )

    def _is_at_odds(self, episode: Episode) -> bool:
        """An error without a stamp in a job that ran into its limit without logging a step.

        Whether the error or the stop came first is open.
        """
        return self._has_limit and episode.is_undated and not self._progress.has_steps

    def _is_aftermath(self, position: int, other: int) -> bool:
        """Whether a consequence that was there before is why this happened: no beginning then."""
        graph = self._graph
        before = graph.episodes[other]
        return (
            before.meaning.role == "secondary"
            and before.has_tag("collective_failure", "store_error")
            and surely_before(before, graph.episodes[position])
            and position not in graph.ancestors(other)
        )

    def _rank(self, position: int) -> tuple[object, ...]:
        """A total order for cycles: tier, role, onset, then the stable episode order."""
        episode = self._graph.episodes[position]
        role = ROLE_ORDER.get(episode.meaning.role, 3)
        return (episode.meaning.tier, role, episode.onset_earliest, position)

    def _cause(self, symptom: str, positions: list[int]) -> Cause:
        episodes = [self._graph.episodes[position] for position in positions]
        links = [self._link(position) for position in positions]
        best = max(links)
        # Where some sightings are tied to the failure, those that are not do not accuse.
        kept = [p for p, link in zip(positions, links, strict=True) if link == best or link > 0]
        episodes = [self._graph.episodes[position] for position in kept]
        order = sorted(range(len(kept)), key=lambda i: (episodes[i].onset_latest, kept[i]))
        kept = [kept[i] for i in order]
        episodes = [episodes[i] for i in order]
        meaning = episodes[0].meaning
        tier: float = meaning.tier
        if meaning.role == "ambiguous":
            tier = max(tier, 4)
        if best == 0:
            tier = _UNLINKED_TIER if tier <= 2 else tier + 1.5
        domain, rivals = _narrow_by_spread(meaning.domain, meaning.rivals, episodes)
        return Cause(symptom, kept, episodes, tier, best, domain, rivals)

    def _link(self, position: int) -> int:
        """2: on a rank that failed first, or explains its end; 1: tied to the job; 0: beside."""
        episode = self._graph.episodes[position]
        first = self._first
        if episode.meaning.tier == 0 or not first.isdisjoint(episode.subject.ranks):
            return 2
        proven = episode.meaning.terminal
        if proven and proven == self._claim.terminal and proven not in ("failed", "unknown"):
            # The scheduler itself says that this is how the job ended.
            return 2
        below = [
            other
            for other in self.effects(position)
            if not _is_same_fault(episode, self._graph.episodes[other])
        ]
        for other in below:
            if not first.isdisjoint(self._graph.episodes[other].subject.ranks):
                return 2
        if below or episode.trust == "workload" or episode.meaning.manifestation == "slow":
            return 1
        if any(item.source in ("scheduler", "kubernetes") for item in episode.observations):
            return 1
        return 0

    def effects(self, position: int) -> list[int]:
        """What a candidate explains, but for bare words that the job ended: all faults do that."""
        episodes = self._graph.episodes
        below = sorted(self._graph.descendants(position))
        return [other for other in below if not episodes[other].is_bare_state]

    def _fold_claims(self, causes: list[Cause]) -> list[Cause]:
        """A raw state word yields to any record that says the same with more detail."""
        detailed = [c for c in causes if not is_claim(c)]
        kept = list(detailed)
        for cause in causes:
            if not is_claim(cause):
                continue
            terminal = cause.head.meaning.terminal
            if any(
                other.head.meaning.terminal == terminal
                or (other.tier == 0 and cause.tier == 0)
                or self._explains_claim(other, cause)
                for other in detailed
            ):
                continue
            kept.append(cause)
        return kept

    def _explains_claim(self, other: Cause, claim: Cause) -> bool:
        """A fault on the very node that the scheduler lost is why it was lost."""
        if not claim.head.has_tag("node_loss") or other.tier > 2:
            return False
        if other.head.has_tag("node_loss"):
            return True
        nodes = {episode.subject.node for episode in claim.episodes}
        return bool(nodes & {e.subject.node for e in other.episodes} - {""})


def _last_returns(graph: Graph) -> dict[tuple[str, str, str], int]:
    """When each device last came back: (symptom, node, nic) to microseconds."""
    found: dict[tuple[str, str, str], int] = {}
    endings = frozenset(_ENDED_BY.values())
    for episode in graph.episodes:
        if episode.symptom in endings:
            key = (episode.symptom, episode.subject.node, episode.subject.nic)
            found[key] = max(found.get(key, episode.seen_last), episode.seen_last)
    return found


def is_claim(cause: Cause) -> bool:
    """Whether a cause is nothing but the scheduler's state word."""
    return cause.symptom in FALLBACK and cause.symptom.startswith("sched_")


def _narrow_by_spread(
    domain: str, rivals: tuple[str, ...], episodes: list[Episode]
) -> tuple[str, tuple[str, ...]]:
    """The same device error on several devices at once is no single device's fault."""
    devices = {
        (episode.subject.node, episode.subject.gpu or episode.subject.rank)
        for episode in episodes
        if episode.subject.gpu or episode.subject.rank is not None
    }
    if not rivals or len(devices) < 2 or _DEVICE_DOMAINS.isdisjoint((domain, *rivals)):
        return domain, rivals
    left = [item for item in (domain, *rivals) if item not in _DEVICE_DOMAINS]
    if not left:
        return domain, rivals
    # What remains may be readings of the same program: those are no rivals to choose between.
    return left[0], () if _PROGRAM_DOMAINS.issuperset(left) else tuple(left[1:])


def _is_same_fault(own: Episode, other: Episode) -> bool:
    """Whether a node tells the same physical fault in other words: that ties it to no rank."""
    return (
        own.meaning.tier <= 1
        and other.trust == "node"
        and other.meaning.domain in _FABRIC_DOMAINS
        and own.meaning.domain in _FABRIC_DOMAINS
    )
