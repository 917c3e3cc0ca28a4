"""Earlier and concurrent verdicts, where they were given as evidence."""

from engine.case import Case
from engine.decide import Decision
from engine.model.canonical import short_id
from engine.model.verdict import History, HistoryEntry


def read_history(case: Case, decision: Decision) -> History:
    """Return the given verdicts in a stable order, and the incident that they share, if any."""
    if not case.history:
        return History()
    entries = sorted(
        case.history, key=lambda e: (e.relation, e.end or "", e.job_id, e.attribution_id)
    )
    same = [entry for entry in entries if _is_same(entry, decision)]
    incident = None
    if same and decision.domain not in ("none", "unknown"):
        shared = sorted({name for entry in same for name in entry.shared})
        incident = short_id("inc", decision.domain, decision.failure_class, *shared)
    return History(verdicts=tuple(entries), incident_id=incident)


def _is_same(entry: HistoryEntry, decision: Decision) -> bool:
    return entry.failure_class == decision.failure_class and entry.domain == decision.domain
