"""Collective failures without a direct cause: who never entered, who stands behind, who differs.

Counters speak only within one process group. Nobody is named unless the evidence separates a
strict minority of the ranks that it covers; the first rank to report a timeout is a waiter.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.case import Case
from engine.entities import Directory
from engine.episodes import Episode
from engine.meanings import Meanings
from engine.model.observation import Entity, Observation
from engine.moments import OPEN_FUTURE, OPEN_PAST
from engine.recorder import BLOCKED, COUNTERS, read_dumps

# Reports in which somebody lists the ranks that did not come.
_MISSING_LISTS = frozenset({"desync_report", "monitored_barrier", "horovod_stall"})
_POINT_TO_POINT = ("SEND", "RECV", "COALESCED", "ALLTOALL", "UNKNOWN")
_SIZED = ("ALLREDUCE", "BROADCAST", "ALLGATHER", "_ALLGATHER_BASE", "REDUCE_SCATTER")
MIN_RANKS = 3


@dataclass(slots=True)
class _Rank:
    """What one rank's lines say about one process group."""

    enqueued: int | None = None
    completed: int | None = None
    timed_out: int | None = None
    ops: dict[int, set[tuple[str, str]]] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)


@dataclass(slots=True)
class _Finding:
    symptom: str
    rank: int
    observations: list[Observation]
    onset: tuple[int, int]


def locate(
    episodes: list[Episode], directory: Directory, *, case: Case, meanings: Meanings
) -> list[Episode]:
    """Return the episodes that counters, lists of the missing, and silence add."""
    waiting = [episode for episode in episodes if episode.has_tag("collective_failure")]
    if not waiting:
        return []
    onset = _onset(waiting)
    groups = _gather(waiting)
    findings = _recorded(waiting, onset) or _mismatched(groups, onset)
    findings = findings or _complementary(waiting, directory, onset)
    if not findings:
        findings = _listed_missing(waiting, directory, onset)
    if not findings:
        findings = _behind(groups, onset)
    if not findings:
        findings = _stuck_watchdog(waiting, directory, onset)
    findings += _silent(waiting, directory, case, onset)
    return [_episode(finding, directory, meanings) for finding in findings]


def _onset(waiting: list[Episode]) -> tuple[int, int]:
    return (
        min(episode.onset_earliest for episode in waiting),
        min(episode.onset_latest for episode in waiting),
    )


def _recorded(waiting: list[Episode], onset: tuple[int, int]) -> list[_Finding]:
    behind = read_dumps(waiting)
    return [
        _Finding(symptom, rank, lines, onset)
        for symptom, ranks in (
            ("rank_never_entered", behind.absent),
            ("rank_lagging", behind.lagging),
        )
        for rank, lines in sorted(ranks.items())
    ]


def _gather(waiting: list[Episode]) -> dict[str, dict[int, _Rank]]:
    groups: dict[str, dict[int, _Rank]] = {}
    for episode in waiting:
        rank = episode.subject.rank
        if rank is None or episode.symptom in (COUNTERS, BLOCKED):
            continue
        for observation in episode.observations:
            fields = observation.fields
            if "seq" not in fields and "last_enqueued" not in fields:
                continue
            name = fields.get("pg_desc") or fields.get("pg") or ""
            _note(groups.setdefault(name, {}).setdefault(rank, _Rank()), observation)
    return _join_unnamed(groups)


def _join_unnamed(groups: dict[str, dict[int, _Rank]]) -> dict[str, dict[int, _Rank]]:
    """Lines without a group name belong to the only named group, if there is exactly one."""
    if "" not in groups or len(groups) != 2:
        return groups
    (name,) = [key for key in groups if key]
    for rank, entry in groups.pop("").items():
        for observation in entry.observations:
            _note(groups[name].setdefault(rank, _Rank()), observation)
    return groups


def _note(entry: _Rank, observation: Observation) -> None:
    fields = observation.fields
    entry.observations.append(observation)
    entry.enqueued = _higher(entry.enqueued, fields.get("last_enqueued"))
    entry.completed = _higher(entry.completed, fields.get("last_completed"))
    seq = _number(fields.get("seq"))
    if seq is None:
        return
    entry.timed_out = seq if entry.timed_out is None else min(entry.timed_out, seq)
    if op := fields.get("op"):
        size = fields.get("numel_in", "") if op.upper() in _SIZED else ""
        entry.ops.setdefault(seq, set()).add((op.upper(), size))


def _number(text: str | None) -> int | None:
    if text is None or not text.lstrip("-").isdigit():
        return None
    return int(text)


def _higher(known: int | None, text: str | None) -> int | None:
    value = _number(text)
    if value is None:
        return known
    return value if known is None else max(known, value)


def _is_minority(ranks: Iterable[int], of: int) -> bool:
    count = len(set(ranks))
    return of >= MIN_RANKS and count > 0 and 2 * count < of


def _mismatched(groups: dict[str, dict[int, _Rank]], onset: tuple[int, int]) -> list[_Finding]:
    """Ranks that issued another operation, or another size of it, at one sequence number."""
    for name, members in sorted(groups.items()):
        by_seq: dict[int, dict[tuple[str, str], set[int]]] = {}
        for rank, entry in members.items():
            for seq, ops in entry.ops.items():
                if len(ops) == 1:
                    by_seq.setdefault(seq, {}).setdefault(next(iter(ops)), set()).add(rank)
        # Without group names several groups count alike: only one number for all is telling.
        if not name and len(by_seq) != 1:
            continue
        for kinds in (by_seq[seq] for seq in sorted(by_seq)):
            if len(kinds) < 2 or any(op.startswith(_POINT_TO_POINT) for op, _ in kinds):
                continue
            differing = _odd_ones(kinds)
            if differing:
                return [
                    _Finding("rank_mismatched", rank, members[rank].observations, onset)
                    for rank in sorted(differing)
                ]
    return []


def _complementary(
    waiting: list[Episode], directory: Directory, onset: tuple[int, int]
) -> list[_Finding]:
    """Two sets of the missing that make up all ranks: each side waits in what it alone issued.

    A rank that is merely late or dead is missing everywhere, so this is the program's doing.
    """
    missing: dict[frozenset[int], list[Observation]] = {}
    for episode in waiting:
        if episode.symptom != "horovod_stall":
            continue
        for observation in episode.observations:
            parts = observation.fields.get("peer_rank", "").replace(",", " ").split()
            if parts and all(part.isdigit() for part in parts):
                missing.setdefault(frozenset(map(int, parts)), []).append(observation)
    if len(missing) != 2 or not directory.world_size:
        return []
    everyone = frozenset(range(directory.world_size))
    first, second = sorted(missing, key=lambda ranks: (len(ranks), min(ranks)))
    if first & second or first | second != everyone:
        return []
    lines = [item for items in missing.values() for item in items]
    odd = first if len(first) < len(second) else everyone
    return [_Finding("rank_mismatched", rank, lines, onset) for rank in sorted(odd)]


def _odd_ones(kinds: dict[tuple[str, str], set[int]]) -> set[int]:
    """The ranks outside the largest camp; all of them where no camp is larger."""
    camps = sorted(kinds.values(), key=lambda ranks: (-len(ranks), min(ranks)))
    everyone: set[int] = set().union(*camps)
    rest = everyone - camps[0]
    return rest if 2 * len(rest) < len(everyone) else everyone


def _listed_missing(
    waiting: list[Episode], directory: Directory, onset: tuple[int, int]
) -> list[_Finding]:
    found: dict[int, list[Observation]] = {}
    for episode in waiting:
        if episode.symptom not in _MISSING_LISTS:
            continue
        for observation in episode.observations:
            for part in observation.fields.get("peer_rank", "").replace(",", " ").split():
                if part.isdigit():
                    found.setdefault(int(part), []).append(observation)
    world = directory.world_size or len({r for e in waiting for r in e.subject.ranks} | set(found))
    if not _is_minority(found, world):
        return []
    return [
        _Finding("rank_never_entered", rank, items, onset) for rank, items in sorted(found.items())
    ]


def _behind(groups: dict[str, dict[int, _Rank]], onset: tuple[int, int]) -> list[_Finding]:
    """Rule 1: counters that end before the operation that peers wait in. Rule 2: lowest wait.

    The smallest groups first, their findings united: who waits in a small group has a reason of
    its own not to come to a larger one.
    """
    never: dict[int, _Finding] = {}
    lagging: dict[int, _Finding] = {}
    waiting: set[int] = set()
    for _, members in sorted(groups.items(), key=lambda item: (len(item[1]), item[0])):
        stuck = [entry.timed_out for entry in members.values() if entry.timed_out is not None]
        if not stuck:
            continue
        blocked_at = max(stuck)
        absent = {
            rank: entry
            for rank, entry in members.items()
            if entry.enqueued is not None and 0 <= entry.enqueued < blocked_at
        }
        first_open = {
            rank: entry.completed + 1 if entry.completed is not None else entry.timed_out
            for rank, entry in members.items()
            if entry.completed is not None or entry.timed_out is not None
        }
        values = {value for value in first_open.values() if value is not None}
        lag = [rank for rank, value in first_open.items() if value == min(values)]
        if _is_minority(absent, len(members)):
            _note_behind(never, "rank_never_entered", members, set(absent) - waiting, onset)
        elif len(values) == 2 and _is_minority(lag, len(first_open)):
            _note_behind(lagging, "rank_lagging", members, set(lag) - waiting, onset)
        waiting.update(r for r, entry in members.items() if r not in absent and entry.timed_out)
    found = never or lagging
    return [found[rank] for rank in sorted(found)]


def _note_behind(
    found: dict[int, _Finding], symptom: str, members: dict[int, _Rank], ranks: set[int],
    onset: tuple[int, int],
) -> None:  # fmt: skip
    for rank in ranks:
        found.setdefault(rank, _Finding(symptom, rank, members[rank].observations, onset))


def _stuck_watchdog(
    waiting: list[Episode], directory: Directory, onset: tuple[int, int]
) -> list[_Finding]:
    """A watchdog thread that is itself stuck on few ranks while the others merely waited."""
    stuck: dict[int, list[Observation]] = {}
    others: set[int] = set()
    for episode in waiting:
        for rank in episode.subject.ranks:
            if episode.has_tag("progress_stall"):
                stuck.setdefault(rank, []).extend(episode.observations)
            else:
                others.add(rank)
    alone = {rank: items for rank, items in stuck.items() if rank not in others}
    total = directory.world_size or len(others | set(stuck))
    if not others or len(alone) != len(stuck) or not _is_minority(alone, total):
        return []
    return [_Finding("rank_lagging", rank, items, onset) for rank, items in sorted(alone.items())]


def _silent(
    waiting: list[Episode], directory: Directory, case: Case, onset: tuple[int, int]
) -> list[_Finding]:
    """Ranks that spoke before and did not report what all others reported: a hint only."""
    reporters = {rank for episode in waiting for rank in episode.subject.ranks}
    if len(reporters) < 2 or directory.world_size < MIN_RANKS:
        return []
    spoke = {rank for stream in case.streams for rank in stream.ranks}
    spoke |= {o.entity.rank for o in case.observations if o.entity.rank is not None}
    missing = {rank for rank in spoke - reporters if rank < directory.world_size}
    if not _is_minority(missing, directory.world_size):
        return []
    speaker = min(waiting, key=lambda e: e.episode_id)
    evidence = [
        min(
            speaker.observations,
            key=lambda o: (o.first.origin.uri, o.first.origin.byte_offset, o.first.text),
        )
    ]
    return [_Finding("rank_silent", rank, evidence, onset) for rank in sorted(missing)[:64]]


def _episode(finding: _Finding, directory: Directory, meanings: Meanings) -> Episode:
    meaning = meanings.require(finding.symptom)
    subject = directory.subject(Entity(rank=finding.rank))
    episode = Episode(finding.symptom, meaning, subject)
    for observation in finding.observations:
        when = observation.when
        first = OPEN_PAST if when.earliest_us is None else when.earliest_us
        last = OPEN_FUTURE if when.latest_us is None else when.latest_us
        episode.add(observation, finding.onset[0], finding.onset[1], first, last)
    return episode
