"""Earlier and concurrent verdicts, where they were given as evidence.

They never change a cause: they say whether the same failure moved with the node, moved with the
job, or is shared by jobs that have a node, switch, file system or image in common.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from engine.case import Case
from engine.decide import Decision
from engine.entities import Directory
from engine.model.canonical import short_id
from engine.model.moment import rfc3339, to_us
from engine.model.verdict import History, HistoryEntry, PastVerdict

EARLIER, SAME_NODE, CONCURRENT = "earlier_attempt", "same_node", "concurrent"
SWITCH, FILESYSTEM, IMAGE = "switch ", "filesystem ", "image "
"""How a shared thing's name begins that is no node: no node's name has a blank."""
_EXPLAINS: Final[dict[str, frozenset[str]]] = {
    SWITCH: frozenset({"network"}),
    FILESYSTEM: frozenset({"storage"}),
    IMAGE: frozenset({"framework", "application"}),
}
"""In which domains such a thing can be why jobs fail together; elsewhere sharing it is chance."""
_REMOTE: Final = ("lustre_", "nfs_", "parallel_fs_")
"""Failures of file systems that machines share: an EXT4 on `sda1` is each machine's own."""
_LUSTRE_TARGET: Final = re.compile(r"^([\w.]{1,16})-(?:OST|MDT)[0-9a-fA-F]{4}")


def read_history(case: Case, decision: Decision) -> History:
    """Return the given verdicts in a stable order, and the incident that they share, if any."""
    if not case.history:
        return History()
    entries = sorted(
        _weighed(case, decision),
        key=lambda e: (e.relation, e.end or "", e.job_id, e.attribution_id),
    )
    incident = None
    if same := _alike(entries, decision):
        incident = short_id(
            "inc", case.workload.cluster, decision.domain, decision.failure_class,
            *(_meeting(case, same) or _common(case, same)),
        )  # fmt: skip
    return History(verdicts=tuple(entries), incident_id=incident)


def history_reasons(case: Case, decision: Decision, directory: Directory) -> list[str]:
    """Return the reason codes that history adds; none where no history was given."""
    found: set[str] = set()
    nodes = set(directory.names.nodes)
    for entry in _alike(_weighed(case, decision), decision):
        shared = {directory.names.canonical(name) for name in entry.shared}
        if entry.relation == EARLIER:
            # On other machines the job is what both attempts have in common.
            found.add("recurs_with_job" if nodes and not shared & nodes else "recurs_in_job")
        elif entry.relation == SAME_NODE and shared & nodes:
            found.add("recurs_on_node")
        elif entry.relation == CONCURRENT and shared:
            found.add("shared_with_other_jobs")
    return sorted(found)


def shared_things(
    domain: str, failure_class: str, switches: Iterable[str], filesystems: Iterable[str]
) -> frozenset[str]:
    """Return the names, with their kinds, of what a failure names that jobs can share.

    A target of Lustre stands for its file system; a switch inside a machine (NVLink) is none.
    """
    found: set[str] = set()
    if domain in _EXPLAINS[SWITCH]:
        found |= {SWITCH + name for name in switches if name}
    if domain in _EXPLAINS[FILESYSTEM] and failure_class.startswith(_REMOTE):
        for name in filesystems:
            target = _LUSTRE_TARGET.match(name)
            found |= {FILESYSTEM + (target[1] if target else name)} if name else set()
    return frozenset(found)


def _meeting(case: Case, same: list[HistoryEntry]) -> tuple[str, ...]:
    """Return what most concurrent attempts share and the day it began, alike from each of them."""
    meeting = [entry for entry in same if entry.relation == CONCURRENT]
    counted = Counter(name for entry in meeting for name in entry.shared)
    if not counted:
        return ()
    name = min(counted, key=lambda each: (-counted[each], each))
    ends = [entry.end for entry in meeting if name in entry.shared and entry.end]
    if case.workload.end is not None:
        ends.append(rfc3339(to_us(case.workload.end)))
    return name, min(ends, default="")[:10]


def _common(case: Case, same: list[HistoryEntry]) -> list[str]:
    return sorted({name for entry in same for name in entry.shared}) or [case.workload.job_id]


def _weighed(case: Case, decision: Decision) -> Iterator[HistoryEntry]:
    """Yield the given verdicts with what they have in common with this one, or without if naught.

    What was given for its switch, file system or image alone and shares none that matters is not
    told at all.
    """
    own, accused = _named(decision), _accused(decision)
    for entry in case.history:
        if not isinstance(entry, PastVerdict) or entry.relation != CONCURRENT:
            yield HistoryEntry.model_validate(entry.model_dump(exclude={"named", "below"}))
            continue
        shared = {
            name
            for name in entry.shared
            if _counts(name, entry, domain=decision.domain, own=own, accused=accused)
        } | (own & set(entry.named))
        if shared:
            fields = entry.model_dump(exclude={"named", "below", "shared"})
            yield HistoryEntry.model_validate({**fields, "shared": tuple(sorted(shared))})


def _counts(
    name: str, entry: PastVerdict, *, domain: str, own: frozenset[str], accused: set[str]
) -> bool:
    """Whether a shared thing can be what both failures come from."""
    kind = next((each for each in _EXPLAINS if name.startswith(each)), None)
    if kind is None:
        return True
    if domain not in _EXPLAINS[kind]:
        return False
    ours = {each for each in own if each.startswith(kind)}
    theirs = {each for each in entry.named if each.startswith(kind)}
    if ours and theirs:
        return name in ours & theirs
    below = set(entry.below.get(name, ()))
    # A large job is below most switches: only those above the nodes that failed count.
    return not below or not accused or bool(below & accused)


def _named(decision: Decision) -> frozenset[str]:
    subjects = [each.subject for cause in decision.causes for each in cause.episodes]
    return shared_things(
        decision.domain,
        decision.failure_class,
        (subject.switch for subject in subjects),
        (subject.filesystem for subject in subjects),
    )


def _accused(decision: Decision) -> set[str]:
    subjects = [each.subject for cause in decision.causes for each in cause.episodes]
    return {subject.node for subject in subjects if subject.node}


def _alike(entries: Iterable[HistoryEntry], decision: Decision) -> list[HistoryEntry]:
    if decision.domain in ("none", "unknown"):
        return []
    wanted = (decision.domain, decision.failure_class)
    return [entry for entry in entries if (entry.domain, entry.failure_class) == wanted]
