"""The terminal anchor: which ranks failed first, and what stopped the job from outside."""

from dataclasses import dataclass, field

from engine.episodes import Episode, stands_above, surely_before
from engine.moments import CROSS_CLOCK_SLACK_US, OPEN_FUTURE
from engine.terminal import Claim

_TRUE = frozenset({"1", "true", "yes"})
# Ended by somebody else's signal: torchelastic and srun send TERM, then KILL, to the siblings.
_VICTIM_CODES = frozenset({-15, 143})
# Printed by slurmstepd the moment it ends a step, for whatever reason.
STOP_LINES = frozenset({"slurm_step_ended"})
_ABORT_CODES = frozenset({-6, 134})


@dataclass(slots=True)
class Anchor:
    """What is known of the end of the attempt.

    `first_ranks` failed first as far as launchers and exits tell; `failed_ranks` is everyone with
    an exit of its own. `first_exit` is the earliest exit that no signal from outside explains.
    """

    first_ranks: tuple[int, ...]
    failed_ranks: tuple[int, ...]
    first_exit: Episode | None
    stops: list[Episode]
    stop_lines: list[Episode] = field(default_factory=list)

    def is_above_stop(self, episode: Episode) -> bool:
        """Whether the log that shows an episode shows it above the line that ended the step."""
        return any(line is not episode and stands_above(episode, line) for line in self.stop_lines)

    def is_after_stop(self, episode: Episode) -> bool:
        """Whether an episode began only after the job had been told to stop."""
        for stop in self.stops:
            if stop is episode:
                continue
            if surely_before(stop, episode):
                return True
            if stop.subject.rank is None and _only_below(stop, episode):
                return True
        return False


def _only_below(stop: Episode, episode: Episode) -> bool:
    """One authority's line above every sighting, in every stream that shows the episode."""
    if episode.onset_earliest != episode.seen_first:
        return False
    return episode.places().keys() <= stop.places().keys() and stands_above(stop, episode)


@dataclass(slots=True)
class _Exit:
    rank: int
    code: int | None
    is_first: bool
    episode: Episode
    latest: int


def find_anchor(episodes: list[Episode], claim: Claim) -> Anchor:
    """Return the anchor of a case from its counting episodes."""
    exits: list[_Exit] = []
    waiting: set[int] = set()
    stops: list[Episode] = []
    first_exit: Episode | None = None
    for episode in episodes:
        if episode.has_tag("collective_failure"):
            waiting.update(episode.subject.ranks)
        if is_stop(episode, claim):
            stops.append(episode)
        if episode.symptom.startswith("sched_") or not episode.has_tag(
            "rank_exit", "launcher_report", "process_killed"
        ):
            continue
        own = list(_exits_of(episode))
        exits.extend(own)
        code = _code(episode)
        if code in _VICTIM_CODES:
            continue
        if first_exit is None or episode.onset_latest < first_exit.onset_latest:
            first_exit = episode
    first_ranks = _first_ranks(exits, waiting)
    failed = sorted({item.rank for item in exits if item.code not in _VICTIM_CODES})
    lines = [episode for episode in episodes if episode.symptom in STOP_LINES]
    return Anchor(first_ranks, tuple(failed), first_exit, stops, lines)


def bound_by_exits(episodes: list[Episode]) -> None:
    """Narrow what a rank printed without a stamp: it was alive, so it was before its exit."""
    ends: dict[int, int] = {}
    for episode in episodes:
        if not episode.has_tag("rank_exit", "launcher_report") or episode.reason:
            continue
        rank, latest = episode.subject.rank, episode.onset_latest
        if rank is not None:
            ends[rank] = max(latest, ends.get(rank, latest))
    for episode in episodes:
        rank = episode.subject.rank
        if rank is None or episode.trust != "workload":
            continue
        end = ends.get(rank, OPEN_FUTURE)
        if episode.onset_earliest <= end < episode.onset_latest:
            episode.onset_latest = end


def is_stop(episode: Episode, claim: Claim) -> bool:
    """Whether an authority's recorded decision ended the job, by this episode."""
    meaning = episode.meaning
    if meaning.tier != 0 or meaning.role != "root" or episode.reason:
        return False
    return not contradicts(episode, claim)


def contradicts(episode: Episode, claim: Claim) -> bool:
    """Whether a job-printed stop says something else than the scheduler itself.

    slurmstepd prints "STEP CANCELLED" for every step that it tears down, whatever the reason.
    """
    terminal = episode.meaning.terminal
    if episode.trust in ("platform", "node") or terminal is None:
        return False
    if not episode.symptom.startswith("sched_") or claim.terminal in ("unknown", "running"):
        return False
    return terminal != claim.terminal


def _exits_of(episode: Episode) -> list[_Exit]:
    found: list[_Exit] = []
    for observation in episode.observations:
        rank = episode.subject.rank
        if rank is None:
            continue
        fields = observation.fields
        found.append(
            _Exit(
                rank,
                exit_code(fields),
                fields.get("first", "").lower() in _TRUE,
                episode,
                episode.onset_latest,
            )
        )
    return found


def _code(episode: Episode) -> int | None:
    codes = [exit_code(item.fields) for item in episode.observations]
    known = [code for code in codes if code is not None]
    return known[0] if known and len(set(known)) == 1 else None


def exit_code(fields: dict[str, str]) -> int | None:
    """Return the exit code of a report, negative for a signal."""
    for name in ("exit_code", "exit"):
        text = fields.get(name, "")
        if text.lstrip("-").isdigit():
            code = int(text)
            if code:
                return code
    text = fields.get("signal", "")
    if text.isdigit() and text != "0":
        return -int(text)
    return None


def _first_ranks(exits: list[_Exit], waiting: set[int]) -> tuple[int, ...]:
    """Ranks that failed first; an abort by the watchdog is a victim's end, never a first."""
    own = [item for item in exits if item.code not in _VICTIM_CODES]
    own = [item for item in own if not (item.code in _ABORT_CODES and item.rank in waiting)]
    flagged = [item for item in own if item.is_first] or own
    if not flagged:
        return ()
    dated = [item.latest for item in flagged if item.latest != OPEN_FUTURE]
    if not dated:
        return tuple(sorted({item.rank for item in flagged}))
    edge = min(dated) + CROSS_CLOCK_SLACK_US
    return tuple(sorted({item.rank for item in flagged if item.latest <= edge}))
