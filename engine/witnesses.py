"""Second witnesses: what else speaks for a cause, beside the failure that it explains."""

from collections.abc import Collection, Sequence

from engine.correlate import Graph
from engine.episodes import Episode
from engine.meanings import LOCATED

# These tell that something failed, never what: they support no cause.
_CASCADE_TAGS = (
    "collective_failure", "rank_exit", "launcher_report", "store_error", "teardown",
    "progress_stall",
)  # fmt: skip


def is_supported(graph: Graph, positions: Sequence[int], dropped: Collection[int] = ()) -> bool:
    """Whether anything else, by a rule, details or follows this cause on its own entity."""
    for position in positions:
        own = graph.episodes[position]
        below = graph.descendants(position)
        unclear = own.meaning.role == "ambiguous"
        for other in below | graph.ancestors(position):
            found = graph.episodes[other]
            if unclear and other in below and not _speaks_of(found, own.meaning.domain):
                # A consequence elsewhere says that it happened, not which reading holds.
                continue
            if found.symptom == own.symptom or found.meaning.role in ("teardown", "marker"):
                continue
            if other in dropped or (found.meaning.tier == 0 and own.meaning.tier > 0):
                # What does not count supports nothing, and a stop says nothing about a fault.
                continue
            if found.is_bare_state or found.has_tag(*_CASCADE_TAGS):
                continue
            if found.symptom in LOCATED:
                # That a rank did not come says nothing of what kept it.
                continue
            if not _is_second_witness(own, found):
                continue
            if _touches(own, found):
                return True
    return False


def _speaks_of(episode: Episode, domain: str) -> bool:
    meaning = episode.meaning
    return meaning.role == "confirm" or domain in (meaning.domain, *meaning.rivals)


def _is_second_witness(own: Episode, other: Episode) -> bool:
    """Whether `other` says something of its own, rather than what a program did about `own`.

    A process that stops because of what it saw raises an exception; the exception is no second
    sighting. A line that details the cause, a fact from a more trusted stream, or a device or
    resource fault is.
    """
    if other.meaning.role in ("secondary", "teardown", "marker", "noise"):
        return False
    if other.meaning.role == "confirm" or other.meaning.tier < own.meaning.tier:
        return True
    if other.trust != own.trust:
        # The node and the job see by different eyes.
        return True
    return other.meaning.tier <= 2


def _touches(own: Episode, other: Episode) -> bool:
    a, b = own.subject, other.subject
    if a.gpu and b.gpu and ("|#" in a.gpu) == ("|#" in b.gpu):
        return a.gpu == b.gpu
    if a.ranks and b.ranks:
        return bool(set(a.ranks) & set(b.ranks))
    return a.node == b.node or not a.node or not b.node
