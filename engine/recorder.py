"""Flight-recorder dumps: who did not reach the operation that the rest of a group waits in.

Two rules, in this order (field notes 2.3). In a group where some members hold an uncompleted
operation, the members that hold none did not come. Otherwise, where the first uncompleted numbers
differ, the lowest stand behind.
"""

from dataclasses import dataclass, field

from engine.episodes import Episode
from engine.model.observation import Observation

COUNTERS = "fr_rank"
BLOCKED = "fr_blocked"
MIN_DUMPS = 3
# Their numbers count per pair, and only two members ever take part.
_POINT_TO_POINT = ("send", "recv", "coalesced")


@dataclass(slots=True)
class Behind:
    """What the dumps say: ranks that never came, ranks that stand behind, and the lines."""

    absent: dict[int, list[Observation]] = field(default_factory=dict)
    lagging: dict[int, list[Observation]] = field(default_factory=dict)


@dataclass(slots=True)
class _Group:
    members: frozenset[int]
    blocked: dict[int, int] = field(default_factory=dict)
    lines: dict[int, list[Observation]] = field(default_factory=dict)


def read_dumps(episodes: list[Episode]) -> Behind:
    """Return the ranks that the dumps single out; empty where they separate no minority."""
    groups: dict[tuple[str, str], _Group] = {}
    dumped: set[int] = set()
    for episode in episodes:
        rank = episode.subject.rank
        if episode.symptom not in (COUNTERS, BLOCKED) or rank is None:
            continue
        dumped.add(rank)
        for observation in episode.observations:
            _note(groups, rank, observation, is_blocked=episode.symptom == BLOCKED)
    if len(dumped) < MIN_DUMPS:
        return Behind()
    found = Behind()
    # The smallest groups first: a rank that waits in one of them has a reason of its own not to
    # come to a larger one (a blocked tensor-parallel pair is missing from the world).
    ordered = sorted(groups.items(), key=lambda item: (len(item[1].members), item[0]))
    waiting: set[int] = set()
    for _, group in ordered:
        _absent(group, found, waiting)
        waiting.update(group.blocked)
    if not found.absent:
        waiting.clear()
        for _, group in ordered:
            _lagging(group, found, waiting)
            waiting.update(group.blocked)
    world = dumped.union(*(group.members for group in groups.values()))
    named = set(found.absent) | set(found.lagging)
    return found if 2 * len(named) < len(world) else Behind()


def _note(
    groups: dict[tuple[str, str], _Group], rank: int, observation: Observation, *, is_blocked: bool
) -> None:
    fields = observation.fields
    members = fields.get("members", "")
    group = groups.setdefault(
        (fields.get("pg_desc", "") or fields.get("pg", ""), members), _Group(_expand(members))
    )
    group.lines.setdefault(rank, []).append(observation)
    seq = fields.get("seq", "")
    op = fields.get("op", "").rsplit(":", 1)[-1].lower()
    if is_blocked and seq.isdigit() and not op.startswith(_POINT_TO_POINT):
        group.blocked[rank] = min(int(seq), group.blocked.get(rank, int(seq)))


def _absent(group: _Group, found: Behind, waiting: set[int]) -> None:
    missing = group.members - set(group.blocked)
    if not group.blocked or 2 * len(missing) > len(group.members):
        return
    missing -= waiting
    lines = [min(group.lines[rank], key=_place) for rank in sorted(group.blocked)][:4]
    for rank in missing:
        found.absent.setdefault(rank, []).extend(group.lines.get(rank, lines))


def _lagging(group: _Group, found: Behind, waiting: set[int]) -> None:
    lowest = min(group.blocked.values(), default=0)
    behind = [r for r, seq in group.blocked.items() if seq == lowest and r not in waiting]
    if len(set(group.blocked.values())) < 2 or 2 * len(behind) > len(group.blocked):
        return
    for rank in behind:
        found.lagging.setdefault(rank, []).extend(group.lines[rank])


def _place(observation: Observation) -> tuple[str, int, str]:
    origin = observation.first.origin
    return (origin.uri, origin.byte_offset, observation.first.text)


def _expand(text: str) -> frozenset[int]:
    ranks: set[int] = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            last = int(high) if high.isdigit() else int(low)
            ranks.update(range(int(low), min(last, int(low) + 100_000) + 1))
    return frozenset(ranks)
