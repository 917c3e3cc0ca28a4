"""From the graph to a decision: one root, several rivals, or none."""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.anchor import Anchor, contradicts
from engine.correlate import Graph
from engine.episodes import Episode, may_precede, surely_before
from engine.meanings import (
    AMBIGUOUS_CAUSES,
    COLLECTIVE_UNEXPLAINED,
    FALLBACK,
    NO_FAILURE,
    UNEXPLAINED,
)
from engine.moments import MINUTE_US, OPEN_FUTURE
from engine.normalise import Bounds
from engine.progress import Progress
from engine.terminal import Claim

# Progress this long after a fault's last line means that the job survived it.
SETTLE_US = 2 * MINUTE_US
# The largest default timer in use (30 min) and ten minutes: the tail window of DESIGN.
CAUSAL_WINDOW_US = 40 * MINUTE_US
_ROLE_ORDER = {"root": 0, "lean_root": 1, "ambiguous": 2}
_UNLINKED_TIER = 3.5
# These tell that something failed, never what: they support no cause.
_CASCADE_TAGS = (
    "collective_failure", "rank_exit", "launcher_report", "store_error", "teardown",
    "progress_stall",
)  # fmt: skip
_FINISHED = "mark_training_finished"
# What a record may say more exactly than the scheduler's "failed". A cancel is no such detail:
# a scheduler that saw one would have said so.
_FINER = frozenset({"out_of_memory", "not_started", "node_fail", "evicted", "preempted", "timeout"})
_LOCATED_ONLY = frozenset({"rank_never_entered", "rank_lagging"})
_DEVICE_DOMAINS = frozenset({"gpu", "pcie"})


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


@dataclass(slots=True)
class Decision:
    """What the reasoning came to. `causes` holds the primary alone, or all rivals."""

    terminal: str
    manifestation: str
    domain: str
    failure_class: str
    causes: list[Cause] = field(default_factory=list)
    is_ambiguous: bool = False
    coincident: list[Episode] = field(default_factory=list)
    contributing: list[Episode] = field(default_factory=list)
    dropped: dict[int, str] = field(default_factory=dict)
    backed: frozenset[str] = frozenset()

    @property
    def primary(self) -> Cause | None:
        """The one cause, or None where there are rivals or nothing."""
        return self.causes[0] if len(self.causes) == 1 and not self.is_ambiguous else None


class Decider:
    """Weighs the candidates of one case."""

    def __init__(
        self, graph: Graph, anchor: Anchor, claim: Claim, progress: Progress, *,
        bounds: Bounds, names: tuple[str, ...] = (), signal: str | None = None,
    ) -> None:  # fmt: skip
        self._graph = graph
        self._anchor = anchor
        self._claim = claim
        self._progress = progress
        self._bounds = bounds
        self._names = names
        self._signal = signal
        self._dropped: dict[int, str] = {}
        self._backed: set[str] = set()
        self._first = frozenset(anchor.first_ranks)

    def decide(self) -> Decision:
        """Return the decision; never raises on odd evidence, abstains instead."""
        if self._claim.terminal == "completed":
            return Decision("completed", "none", "none", NO_FAILURE)
        causes = self._causes()
        stops = [cause for cause in causes if cause.tier == 0]
        faults = [cause for cause in causes if cause.tier != 0]
        chosen = self._choose(stops, faults)
        if chosen and chosen[0].tier == 0 and self._hides_hang(chosen[0]):
            return self._unexplained()
        if not chosen:
            return self._finished() or self._unexplained()
        if all(cause.symptom in _LOCATED_ONLY for cause in chosen):
            return self._located(chosen, causes)
        return self._conclude(chosen, causes)

    # --- candidates -------------------------------------------------------------------------

    def _causes(self) -> list[Cause]:
        """Group the unexplained, linked, timely candidates by symptom."""
        episodes = self._graph.episodes
        live: list[int] = []
        for position, episode in enumerate(episodes):
            if not episode.is_candidate:
                continue
            reason = self._drop_reason(position, episode)
            if reason:
                self._dropped[position] = reason
            else:
                live.append(position)
        alive = set(live)
        groups: dict[str, list[int]] = {}
        for position in live:
            if self._is_explained(position, alive):
                continue
            if self._is_far_beside(position):
                self._dropped[position] = "outside_causal_window"
                continue
            if episodes[position].meaning.alone == "insufficient" and not self._is_backed(position):
                self._dropped[position] = "proves_nothing_alone"
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
        return self._link(position) == 0

    def _is_backed(self, position: int) -> bool:
        episode = self._graph.episodes[position]
        if episode.meaning.manifestation == "never_started" and not self._progress.has_output:
            # Passing trouble at the start counts where nothing shows that the job ever ran.
            self._backed.add(episode.symptom)
            return True
        lone = Cause(episode.symptom, [position], [episode], 0, 0, "unknown")
        return is_supported(self._graph, lone)

    def _drop_reason(self, position: int, episode: Episode) -> str:
        meaning = episode.meaning
        if meaning.tier == 0:
            if contradicts(episode, self._claim):
                return "contradicts_scheduler"
            return "other_job" if self._is_foreign_stop(episode) else ""
        slow = meaning.manifestation == "slow"
        if not slow and self._progress.outlived(episode, SETTLE_US):
            return "survived"
        if self._anchor.is_after_stop(episode):
            return "after_stop"
        if episode.is_lasting and not self._graph.children[position]:
            return "not_linked"
        first_exit = self._anchor.first_exit
        if (
            first_exit is not None
            and first_exit is not episode
            and not episode.is_claim
            and surely_before(first_exit, episode)
            and not (meaning.tier <= 1 and episode.trust in ("node", "platform"))
        ):
            return "after_failure"
        return ""

    def _is_foreign_stop(self, episode: Episode) -> bool:
        """A stop of a pod that does not carry the job's name, which the job's state denies."""
        pod = episode.subject.pod
        if not pod or not self._names or pod.startswith(self._names):
            return False
        return episode.meaning.terminal != self._claim.terminal

    def _is_explained(self, position: int, alive: set[int]) -> bool:
        graph = self._graph
        episode = graph.episodes[position]
        for other in graph.ancestors(position):
            if other not in alive:
                continue
            cause = graph.episodes[other]
            if not may_precede(cause, episode) and not cause.is_lasting:
                continue
            if position in graph.ancestors(other) and self._rank(position) < self._rank(other):
                continue
            return True
        return False

    def _rank(self, position: int) -> tuple[object, ...]:
        """A total order for cycles: tier, role, onset, then the stable episode order."""
        episode = self._graph.episodes[position]
        role = _ROLE_ORDER.get(episode.meaning.role, 3)
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
        below = self._graph.descendants(position)
        for other in below:
            if not first.isdisjoint(self._graph.episodes[other].subject.ranks):
                return 2
        if below or episode.trust == "workload" or episode.meaning.manifestation == "slow":
            return 1
        if any(item.source in ("scheduler", "kubernetes") for item in episode.observations):
            return 1
        return 0

    def _fold_claims(self, causes: list[Cause]) -> list[Cause]:
        """A raw state word yields to any record that says the same with more detail."""
        detailed = [c for c in causes if not self._is_claim_only(c)]
        kept = list(detailed)
        for cause in causes:
            if not self._is_claim_only(cause):
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

    def _is_claim_only(self, cause: Cause) -> bool:
        return cause.symptom in FALLBACK and cause.symptom.startswith("sched_")

    # --- choice -----------------------------------------------------------------------------

    def _choose(self, stops: list[Cause], faults: list[Cause]) -> list[Cause]:
        for stop in stops:
            faults = [fault for fault in faults if self._outranks(fault, stop)]
        if faults:
            return self._best(faults)
        return self._best(stops) if stops else []

    def _hides_hang(self, stop: Cause) -> bool:
        """Whether the job had stopped on its own long before a limit or a person ended it."""
        if stop.head.meaning.terminal not in ("timeout", "cancelled"):
            return False
        waits = [
            episode
            for episode in self._graph.episodes
            if episode.has_tag("collective_failure", "progress_stall")
        ]
        if self._progress.stalled is True:
            return True
        return any(
            episode.seen_last != OPEN_FUTURE and surely_before(episode, stop.head)
            for episode in waits
            if self._progress.stalled is not False
        )

    def _outranks(self, fault: Cause, stop: Cause) -> bool:
        """Whether a fault was there before the decision to stop and explains more than it."""
        head, end = fault.head, stop.head
        if not may_precede(head, end):
            return False
        if fault.tier > 3.5:
            # Ambiguous device and link errors are what a stop looks like from inside, unless the
            # job had visibly stopped long before.
            return self._progress.stalled is True and surely_before(head, end)
        terminal = end.meaning.terminal
        if head.meaning.manifestation == "slow":
            return terminal == "timeout"
        if terminal in ("preempted", "evicted"):
            return fault.tier <= 2 and fault.link >= 1 and surely_before(head, end)
        if terminal == "timeout":
            exited = bool(self._anchor.first_ranks)
            if self._progress.stalled is True or exited:
                return True
            return not self._progress.has_steps and surely_before(head, end)
        if self._is_claim_only(stop):
            return fault.link >= 1 or surely_before(head, end)
        return fault.link >= 1 and surely_before(head, end)

    def _best(self, causes: list[Cause]) -> list[Cause]:
        lowest = min(cause.tier for cause in causes)
        rivals = [cause for cause in causes if cause.tier == lowest]
        if len(rivals) > 1 and lowest >= 2.5:
            rivals = _keep_max(rivals, lambda cause: cause.link)
        if len(rivals) > 1 and len({cause.domain for cause in rivals}) == 1:
            # One domain told by the node and by the job: the node speaks for itself.
            trusted = [c for c in rivals if c.head.trust in ("platform", "node")]
            rivals = trusted or rivals
        if len(rivals) > 1:
            rivals = self._earliest(rivals)
        if len(rivals) > 1:
            rivals = _keep_max(rivals, lambda cause: cause.link)
        if len(rivals) > 1:
            rivals = _keep_max(rivals, lambda cause: -_ROLE_ORDER[cause.head.meaning.role])
        if len(rivals) > 1:
            for cause in rivals:
                cause.reach = self._reach(cause)
            rivals = _keep_max(rivals, lambda cause: len(cause.reach))
        return _merge_same_subject(rivals)

    def _earliest(self, rivals: list[Cause]) -> list[Cause]:
        """Keep the cause that surely began before every other one, if there is such a one."""
        for cause in rivals:
            if all(other is cause or surely_before(cause.head, other.head) for other in rivals):
                return [cause]
        late = [
            cause
            for cause in rivals
            if any(o is not cause and surely_before(o.head, cause.head) for o in rivals)
        ]
        return [cause for cause in rivals if cause not in late] or rivals

    def _reach(self, cause: Cause) -> frozenset[int]:
        ranks: set[int] = set()
        for position in cause.positions:
            for other in self._graph.descendants(position) | {position}:
                ranks.update(self._graph.episodes[other].subject.ranks)
        failed = set(self._anchor.failed_ranks)
        return frozenset(ranks & failed if failed else ranks)

    # --- conclusion -------------------------------------------------------------------------

    def _conclude(self, chosen: list[Cause], causes: list[Cause]) -> Decision:
        ambiguous = len(chosen) > 1
        domains = sorted({cause.domain for cause in chosen})
        head = chosen[0].head
        decision = Decision(
            self._terminal(None if ambiguous else chosen[0]),
            self._manifestation(head),
            domains[0] if len(domains) == 1 else "unknown",
            AMBIGUOUS_CAUSES if ambiguous else chosen[0].symptom,
            chosen,
            ambiguous,
            dropped=self._dropped,
            backed=frozenset(self._backed),
        )
        used = {id(episode) for cause in chosen for episode in cause.episodes}
        for cause in causes:
            for episode in cause.episodes:
                if id(episode) in used or episode.is_claim:
                    continue
                if cause.link >= 1:
                    decision.contributing.append(episode)
                else:
                    decision.coincident.append(episode)
        return decision

    def _finished(self) -> Decision | None:
        """Nobody says how it ended, but the job itself says that it came to its end."""
        if self._claim.terminal != "unknown" or self._anchor.first_exit is not None:
            return None
        if self._has_failure_signs():
            return None
        if any(e.symptom == _FINISHED for e in self._graph.episodes):
            return Decision("completed", "none", "none", NO_FAILURE, dropped=self._dropped)
        return None

    def _located(self, chosen: list[Cause], causes: list[Cause]) -> Decision:
        """It is known where the job got stuck, not why: suspects, and an open cause."""
        decision = self._conclude(chosen, causes)
        decision.is_ambiguous = True
        decision.domain = "unknown"
        decision.failure_class = COLLECTIVE_UNEXPLAINED
        return decision

    def _terminal(self, cause: Cause | None) -> str:
        terminal = self._claim.terminal
        proven = None if cause is None else cause.head.meaning.terminal
        if terminal == "running":
            return "hung" if self._signal == "hang" or self._looks_hung() else "running"
        if proven and cause is not None:
            recorded = proven == "cancelled" and cause.head.trust == "platform"
            if terminal == "unknown" or (terminal == "failed" and (recorded or proven in _FINER)):
                return proven
        return "failed" if terminal == "unknown" and cause is not None else terminal

    def _looks_hung(self) -> bool:
        return any(
            episode.has_tag("collective_failure", "progress_stall")
            for episode in self._graph.episodes
        )

    def _manifestation(self, head: Episode) -> str:
        own = head.meaning.manifestation
        if own == "crash" and not self._anchor.first_ranks and self._looks_hung():
            return "hang"
        return own

    def _unexplained(self) -> Decision:
        hung = self._looks_hung()
        terminal = self._terminal(None)
        if terminal == "unknown" and self._has_failure_signs():
            terminal = "failed"
        failure_class = COLLECTIVE_UNEXPLAINED if hung else UNEXPLAINED
        stopped = terminal in ("timeout", "cancelled")
        manifestation = "hang" if hung or (stopped and self._progress.stalled) else "unknown"
        if not hung and (self._anchor.failed_ranks or self._anchor.first_exit):
            manifestation = "crash"
        return Decision(terminal, manifestation, "unknown", failure_class, dropped=self._dropped)

    def _has_failure_signs(self) -> bool:
        return any(
            episode.meaning.role in ("secondary", "root", "lean_root", "ambiguous")
            for episode in self._graph.episodes
        )


def _keep_max(causes: list[Cause], measure: Callable[[Cause], int]) -> list[Cause]:
    best = max(measure(cause) for cause in causes)
    return [cause for cause in causes if measure(cause) == best]


def _merge_same_subject(rivals: list[Cause]) -> list[Cause]:
    """Symptoms of one domain on one subject are one cause told twice, not rivals."""
    if len(rivals) < 2:
        return rivals
    domains = {cause.domain for cause in rivals}
    if len(domains) > 1:
        return rivals
    places = [
        {(e.subject.node, e.subject.gpu, e.subject.ranks) for e in cause.episodes}
        for cause in rivals
    ]
    shared = set.intersection(*places)
    if not shared:
        return rivals
    rivals.sort(key=lambda cause: (cause.head.onset_latest, cause.symptom))
    return rivals[:1]


def _narrow_by_spread(
    domain: str, rivals: tuple[str, ...], episodes: list[Episode]
) -> tuple[str, tuple[str, ...]]:
    """The same device error on several devices at once is no single device's fault."""
    devices = {
        (episode.subject.node, episode.subject.gpu or episode.subject.rank)
        for episode in episodes
        if episode.subject.gpu or episode.subject.rank is not None
    }
    if not rivals or len(devices) < 2:
        return domain, rivals
    left = [item for item in (domain, *rivals) if item not in _DEVICE_DOMAINS]
    if not left:
        return domain, rivals
    # What remains are readings of the same program: they are no rivals to choose between.
    return left[0], ()


def is_supported(graph: Graph, cause: Cause) -> bool:
    """Whether anything else, by a rule, details or follows this cause on its own entity."""
    for position in cause.positions:
        own = graph.episodes[position]
        for other in graph.descendants(position) | graph.ancestors(position):
            found = graph.episodes[other]
            if found.symptom == cause.symptom or found.meaning.role in ("teardown", "marker"):
                continue
            if found.has_tag(*_CASCADE_TAGS):
                continue
            if _touches(own, found):
                return True
    return False


def _touches(own: Episode, other: Episode) -> bool:
    a, b = own.subject, other.subject
    if a.gpu and b.gpu:
        return a.gpu == b.gpu
    if a.ranks and b.ranks:
        return bool(set(a.ranks) & set(b.ranks))
    return a.node == b.node or not a.node or not b.node
