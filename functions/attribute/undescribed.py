"""What evidence says of an attempt that nobody described, and of its own gaps.

The pipeline and the local command line both build their `Case` with these, so that the same
evidence gives the same bytes.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from engine.model.moment import from_us
from engine.model.observation import StreamSummary
from engine.model.plan import Report
from engine.model.workload import Workload

BUNDLE: Final = "bundle"
"""The connector name of the report that says what had to be inferred: no evidence is lost by it."""
_SHORTEST_US: Final = 5_000_000


def reported_losses(reports: Sequence[Report]) -> list[str]:
    """Return a sentence for each piece of evidence that existed and could not be read."""
    return sorted(
        f"{report.connector} {report.shard}: {report.reason}"
        for report in reports
        if report.status in ("error", "partial") and report.reason and report.connector != BUNDLE
    )


def with_window(workload: Workload, streams: Sequence[StreamSummary]) -> Workload:
    """Take start and end of an undescribed attempt from its records and its program's stamps.

    A program that stamps one line only, its last, says nothing of the start.
    """
    own = [each for each in streams if each.source in ("applog", "scheduler")]
    firsts = [each.first.earliest_us for each in own if each.first.earliest_us is not None]
    lasts = [each.last.latest_us for each in own if each.last.latest_us is not None]
    update: dict[str, datetime] = {}
    if lasts:
        update["end"] = from_us(max(lasts))
    if firsts and lasts and min(firsts) + _SHORTEST_US < max(lasts):
        update["start"] = from_us(min(firsts))
    return workload.model_copy(update=update)
