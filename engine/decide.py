"""From the graph to a decision: one root, several rivals, or none."""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.anchor import Anchor
from engine.candidates import (
    CAUSAL_WINDOW_US,
    EXPLICIT_TIER,
    ROLE_ORDER,
    Candidates,
    Cause,
    is_claim,
)
from engine.correlate import Graph
from engine.episodes import Episode, may_precede, stands_above, surely_before, surely_earlier
from engine.meanings import (
    AMBIGUOUS_CAUSES,
    COLLECTIVE_UNEXPLAINED,
    NO_FAILURE,
    UNEXPLAINED,
)
from engine.moments import MINUTE_US, OPEN_FUTURE
from engine.normalise import Bounds
from engine.progress import STALL, Progress
from engine.terminal import Claim

# Two faults in the same seconds on different nodes, one inside a machine and one outside of it.
_TWIN_US = 10_000_000
_TWIN_TIER = 4
_HIDING_TIER = 5
_INSIDE = frozenset({"gpu", "nvlink", "pcie"})
# An error that explains nothing else may have been caught and passed by, so only one shortly
# before counts.
NEAR_US = 5 * MINUTE_US
_FINISHED = "mark_training_finished"
# What a record may say more exactly than the scheduler's "failed". A cancel is no such detail:
# a scheduler that saw one would have said so.
_FINER = frozenset({"out_of_memory", "not_started", "node_fail", "evicted", "preempted", "timeout"})
# Words that a platform uses for any stop that it was told to make.
_COARSE = frozenset({"cancelled", "evicted"})
_LOCATED_ONLY = frozenset({"rank_never_entered", "rank_lagging"})


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
        self._signal = signal
        self._candidates = Candidates(graph, anchor, claim, progress, bounds=bounds, names=names)

    def decide(self) -> Decision:
        """Return the decision; never raises on odd evidence, abstains instead."""
        if self._claim.terminal == "completed":
            return Decision("completed", "none", "none", NO_FAILURE)
        causes = self._candidates.causes()
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

    # --- choice -----------------------------------------------------------------------------

    def _choose(self, stops: list[Cause], faults: list[Cause]) -> list[Cause]:
        above = faults
        for stop in stops:
            above = [fault for fault in above if self._outranks(fault, stop)]
        if above:
            return self._best(above)
        if not stops:
            return []
        chosen = self._best(stops)
        hidden = [fault for fault in faults if self._may_hide_behind(fault, chosen[0])]
        return [*chosen, *self._best(hidden)] if hidden else chosen

    def _may_hide_behind(self, fault: Cause, stop: Cause) -> bool:
        """Whether a time limit may have ended what a fault had stopped: nothing shows a step since.

        Where steps carry no time the log's own order tells; a job that never logged one tells
        nothing either.
        """
        if stop.head.meaning.terminal != "timeout" or self._progress.is_dated:
            return False
        head = fault.head
        if fault.tier > _HIDING_TIER or fault.link < 1 or fault.domain == "unknown":
            return False
        if not may_precede(head, stop.head):
            return False
        if any(stands_above(line, head) for line in self._anchor.stop_lines):
            return False
        return not self._progress.has_steps or self._progress.is_below(head)

    def _hides_hang(self, stop: Cause) -> bool:
        """Whether the job had stopped on its own long before a limit or a person ended it."""
        if stop.head.meaning.terminal not in ("timeout", "cancelled"):
            return False
        if self._progress.is_stall_proven:
            return True
        end = stop.head
        return any(
            self._waited_before(episode, end)
            for episode in self._graph.episodes
            if episode.has_tag("collective_failure", "progress_stall")
        )

    def _is_above(self, episode: Episode, end: Episode) -> bool:
        """What stands above the line that says so was written before the stop."""
        return stands_above(episode, end) or self._anchor.is_above_stop(episode)

    def _waited_before(self, episode: Episode, end: Episode) -> bool:
        """Whether ranks waited before the stop, by the clocks or, without steps, by the log."""
        if not self._progress.has_steps and self._is_above(episode, end):
            return True
        return (
            episode.seen_last != OPEN_FUTURE
            and episode.seen_first <= end.onset_latest
            and surely_before(episode, end)
            and not self._progress.outlived(episode, 0)
        )

    def _outranks(self, fault: Cause, stop: Cause) -> bool:
        """Whether a fault was there before the decision to stop and explains more than it."""
        head, end = fault.head, stop.head
        if not may_precede(head, end):
            return False
        if fault.tier > 3.5:
            # Ambiguous device and link errors are what a stop looks like from inside, unless the
            # job had visibly stopped long before.
            if self._progress.stalled is True and surely_before(head, end):
                return True
            return end.meaning.terminal == "cancelled" and self._broke_before(fault)
        terminal = end.meaning.terminal
        if head.meaning.manifestation == "slow":
            return terminal == "timeout"
        if terminal in ("preempted", "evicted"):
            return fault.tier <= 2 and fault.link >= 1 and surely_before(head, end)
        if terminal == "timeout":
            exited = bool(self._anchor.first_ranks)
            if self._progress.stalled is True or exited:
                return True
            if self._candidates.ended_steps(head, end) or self._candidates.may_hang_on(head):
                return True
            earlier = surely_before(head, end) or self._is_above(head, end)
            return not self._progress.has_steps and earlier
        if is_claim(stop):
            return fault.link >= 1 or surely_before(head, end)
        return fault.link >= 1 and surely_before(head, end)

    def _broke_before(self, fault: Cause) -> bool:
        """A fault above the line that ended the step, which peers had already suffered from."""
        if fault.head.meaning.role == "ambiguous" or fault.link < 1:
            return False
        return all(self._anchor.is_above_stop(episode) for episode in fault.episodes) and any(
            self._graph.descendants(position) for position in fault.positions
        )

    def _not_late(self, causes: list[Cause]) -> list[Cause]:
        """Without faults that surely began after an explicit error at least as well tied.

        A lower tier wins only where it can have come first (catalogue 4.2): a device that is
        lost while a failed job is torn down did not make it fail.
        """
        return [
            cause for cause in causes if not any(self._came_first(o, cause) for o in causes)
        ] or causes

    def _came_first(self, first: Cause, late: Cause) -> bool:
        if first is late or first.tier > EXPLICIT_TIER or late.tier >= first.tier:
            return False
        if first.link < max(1, late.link):
            return False
        if not all(surely_earlier(first.head, episode) for episode in late.episodes):
            return False
        apart = late.head.onset_earliest - first.head.onset_latest
        is_tied = first.link == 2 or any(
            self._candidates.effects(position) for position in first.positions
        )
        return apart <= (CAUSAL_WINDOW_US if is_tied else NEAR_US)

    def _best(self, causes: list[Cause]) -> list[Cause]:
        causes = self._not_late(causes)
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
            rivals = _keep_max(rivals, lambda cause: -ROLE_ORDER[cause.head.meaning.role])
        if len(rivals) > 1:
            for cause in rivals:
                cause.reach = self._reach(cause)
            rivals = _keep_max(rivals, lambda cause: len(cause.reach))
        return _merge_same_subject(self._with_twin(rivals, causes))

    def _with_twin(self, chosen: list[Cause], causes: list[Cause]) -> list[Cause]:
        """Join a fault that another node's kernel tells of in the same seconds.

        A device lost here and a cable pulled there: either stops everybody, neither explains the
        other, and a lower tier says only how sure each is of itself.
        """
        head = chosen[0].head
        if len(chosen) > 1 or not _is_placed_fault(chosen[0]):
            return chosen
        twins = [
            cause
            for cause in causes
            if cause is not chosen[0]
            and _is_placed_fault(cause)
            and cause.link >= 1
            and (cause.domain in _INSIDE) != (chosen[0].domain in _INSIDE)
            and not surely_earlier(head, cause.head)
            and not surely_earlier(cause.head, head)
            and not _nodes(cause) & _nodes(chosen[0])
        ]
        return [*chosen, *twins]

    def _earliest(self, rivals: list[Cause]) -> list[Cause]:
        """Leave out what surely began after another one, unless nothing is left then."""
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
            self._terminal(next((c for c in chosen if c.tier == 0 or not ambiguous), None)),
            self._manifestation(head),
            domains[0] if len(domains) == 1 else "unknown",
            AMBIGUOUS_CAUSES if ambiguous else chosen[0].symptom,
            chosen,
            ambiguous,
            dropped=self._candidates.dropped,
            backed=frozenset(self._candidates.backed),
        )
        used = {id(episode) for cause in chosen for episode in cause.episodes}
        for cause in causes:
            for episode in cause.episodes:
                if id(episode) in used:
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
            return Decision(
                "completed", "none", "none", NO_FAILURE, dropped=self._candidates.dropped
            )
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
            if terminal in _COARSE and cause.tier == 0 and cause.head.trust == "platform":
                # The platform's own reason says why it stopped, removed or ended the job.
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
        waited = any(
            episode.symptom != STALL and episode.has_tag("collective_failure", "progress_stall")
            for episode in self._graph.episodes
        )
        failure_class = COLLECTIVE_UNEXPLAINED if waited else UNEXPLAINED
        stopped = terminal in ("timeout", "cancelled")
        manifestation = "hang" if hung or (stopped and self._progress.stalled) else "unknown"
        if not hung and (self._anchor.failed_ranks or self._anchor.first_exit):
            manifestation = "crash"
        return Decision(
            terminal, manifestation, "unknown", failure_class, dropped=self._candidates.dropped
        )

    def _has_failure_signs(self) -> bool:
        return any(
            episode.meaning.role in ("secondary", "root", "lean_root", "ambiguous")
            for episode in self._graph.episodes
        )


def _is_placed_fault(cause: Cause) -> bool:
    """Whether a node's own log tells of a fault, and when it began to within seconds."""
    head = cause.head
    return (
        head.trust in ("node", "platform")
        and head.meaning.role in ("root", "lean_root")
        and head.meaning.accuses
        and head.meaning.tier <= _TWIN_TIER
        and bool(_nodes(cause))
        and head.onset_latest - head.onset_earliest <= _TWIN_US
    )


def _nodes(cause: Cause) -> set[str]:
    return {episode.subject.node for episode in cause.episodes if episode.subject.node}


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
