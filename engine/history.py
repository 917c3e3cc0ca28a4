"""Earlier and concurrent verdicts, where they were given as evidence.

They never change a cause: they say whether the same failure moved with the node, moved with the
job, or is shared by jobs that have a node, switch, mount or image in common.
"""

from engine.case import Case
from engine.decide import Decision
from engine.entities import Directory
from engine.model.canonical import short_id
from engine.model.verdict import History, HistoryEntry

EARLIER, SAME_NODE, CONCURRENT = "earlier_attempt", "same_node", "concurrent"


def read_history(case: Case, decision: Decision) -> History:
    """Return the given verdicts in a stable order, and the incident that they share, if any."""
    if not case.history:
        return History()
    entries = sorted(
        case.history, key=lambda e: (e.relation, e.end or "", e.job_id, e.attribution_id)
    )
    incident = None
    if same := _alike(case, decision):
        # What several jobs have in common names the incident alike from each of them.
        common = sorted({name for entry in same for name in entry.shared})
        incident = short_id(
            "inc", case.workload.cluster, decision.domain, decision.failure_class,
            *(common or [case.workload.job_id]),
        )  # fmt: skip
    return History(verdicts=tuple(entries), incident_id=incident)


def history_reasons(case: Case, decision: Decision, directory: Directory) -> list[str]:
    """Return the reason codes that history adds; none where no history was given."""
    found: set[str] = set()
    nodes = set(directory.names.nodes)
    for entry in _alike(case, decision):
        shared = {directory.names.canonical(name) for name in entry.shared}
        if entry.relation == EARLIER:
            # On other machines the job is what both attempts have in common.
            found.add("recurs_with_job" if nodes and not shared & nodes else "recurs_in_job")
        elif entry.relation == SAME_NODE and shared & nodes:
            found.add("recurs_on_node")
        elif entry.relation == CONCURRENT and shared:
            found.add("shared_with_other_jobs")
    return sorted(found)


def _alike(case: Case, decision: Decision) -> list[HistoryEntry]:
    if decision.domain in ("none", "unknown"):
        return []
    wanted = (decision.domain, decision.failure_class)
    return [entry for entry in case.history if (entry.domain, entry.failure_class) == wanted]
