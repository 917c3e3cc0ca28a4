"""Counts over results: how failures develop, and which nodes are named again and again."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Final, Literal

from functions.adapters.results import Result

Period = Literal["day", "week", "month"]
Subject = Literal["domain", "failure_class", "terminal_state", "quality", "cluster", "user"]

PERIODS: Final[tuple[Period, ...]] = ("day", "week", "month")
SUBJECTS: Final[tuple[Subject, ...]] = (
    "domain", "failure_class", "terminal_state", "quality", "cluster", "user",
)  # fmt: skip
MAX_COUNTED: Final = 10_000
"""Results that one tally reads at most; a tally that was cut says so."""


@dataclass(slots=True, frozen=True)
class Trend:
    """Counts a period, oldest first and without holes; `start` is the period's first day.

    `is_complete` is False where more results matched than were counted: the oldest are missing.
    """

    period: Period
    subject: Subject
    starts: tuple[str, ...]
    counts: dict[str, tuple[int, ...]]
    counted: int
    is_complete: bool

    @property
    def totals(self) -> tuple[int, ...]:
        """All counts of each period together."""
        return tuple(sum(column) for column in zip(*self.counts.values(), strict=True))

    def as_json(self) -> dict[str, object]:
        """Return the trend as JSON: one object a period."""
        return {
            "period": self.period,
            "subject": self.subject,
            "counted": self.counted,
            "is_complete": self.is_complete,
            "periods": [
                {
                    "start": start,
                    "total": total,
                    "counts": {k: row[i] for k, row in self.counts.items() if row[i]},
                }
                for i, (start, total) in enumerate(zip(self.starts, self.totals, strict=True))
            ],
        }


@dataclass(slots=True, frozen=True)
class Stretch:
    """A period by its index in the trend, or several empty ones together, which have none."""

    start: str
    periods: int
    index: int | None


@dataclass(slots=True)
class NodeTally:
    """How often a node was named; `classes` counts failure classes it was culprit of."""

    cluster: str
    node: str
    culprit: int = 0
    suspect: int = 0
    last: str = ""
    last_attempt: str = ""
    classes: Counter[str] = field(default_factory=Counter)

    def as_json(self) -> dict[str, object]:
        """Return the tally as JSON."""
        return {
            "cluster": self.cluster,
            "node": self.node,
            "culprit": self.culprit,
            "suspect": self.suspect,
            "last": self.last,
            "last_attempt": self.last_attempt,
            "classes": dict(sorted(self.classes.items())),
        }


def count_trend(
    results: Iterable[Result], period: Period, *, subject: Subject, at_most: int = MAX_COUNTED
) -> Trend:
    """Count results by period and subject; what has no date counts for nothing."""
    cells: dict[str, Counter[str]] = {}
    counted = 0
    is_complete = True
    for result in results:
        if counted == at_most:
            is_complete = False
            break
        start = _start(result.ended_key[:10], period)
        if start is None:
            continue
        counted += 1
        value = str(getattr(result, subject) or "unknown")
        cells.setdefault(value, Counter())[start] += 1
    starts = _fill({start for row in cells.values() for start in row}, period)
    order = sorted(cells, key=lambda value: (-cells[value].total(), value))
    counts = {value: tuple(cells[value][start] for start in starts) for value in order}
    return Trend(period, subject, starts, counts, counted, is_complete)


def stretches(trend: Trend) -> list[Stretch]:
    """Return the periods oldest first; more than two empty ones in a row are one stretch."""
    single = [Stretch(start, 1, index) for index, start in enumerate(trend.starts)]
    held = [index for index, total in enumerate(trend.totals) if total]
    found = [single[index] for index in held[:1]]
    for before, index in pairwise(held):
        empty = _periods_between(trend.starts[before], trend.starts[index], trend.period)
        if empty <= _MAX_EMPTY_APART:
            found += single[before + 1 : index]
        else:
            first = _following(trend.starts[before], trend.period)
            found.append(Stretch(first or trend.starts[before], empty, None))
        found.append(single[index])
    return found


def count_nodes(results: Iterable[Result]) -> list[NodeTally]:
    """Return the nodes that were named culprit or suspect, the most often named first."""
    tallies: dict[tuple[str, str], NodeTally] = {}
    for result in results:
        named = [(node, "culprit") for node in result.culprits]
        named += [(node, "suspect") for node in result.suspects]
        for node, role in named:
            key = (result.cluster, node)
            tally = tallies.setdefault(key, NodeTally(result.cluster, node))
            if role == "culprit":
                tally.culprit += 1
                tally.classes[result.failure_class] += 1
            else:
                tally.suspect += 1
            ended = result.ended_key.split("#", 1)[0]
            if ended > tally.last:
                tally.last, tally.last_attempt = ended, result.attempt_key
    return sorted(tallies.values(), key=lambda t: (-t.culprit, -t.suspect, t.cluster, t.node))


def _start(day: str, period: Period) -> str | None:
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return None
    if period == "week":
        found -= timedelta(days=found.weekday())
    elif period == "month":
        found = found.replace(day=1)
    return found.isoformat()


_MAX_PERIODS: Final = 400
_MAX_EMPTY_APART: Final = 2


def _fill(starts: set[str], period: Period) -> tuple[str, ...]:
    """Return every period from the first to the last, or only those known where they are many."""
    if not starts:
        return ()
    last = max(starts)
    filled = [min(starts)]
    while filled[-1] < last:
        following = _following(filled[-1], period)
        if following is None:
            break
        filled.append(following)
        if len(filled) > _MAX_PERIODS:
            return tuple(sorted(starts))
    return tuple(filled)


def _following(start: str, period: Period) -> str | None:
    """Return the first day of the next period; None at the end of the calendar."""
    here = date.fromisoformat(start)
    step = timedelta(days={"day": 1, "week": 7, "month": 32}[period])
    return None if here > date.max - step else _start((here + step).isoformat(), period)


def _periods_between(start: str, end: str, period: Period) -> int:
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    if period == "month":
        return 12 * (last.year - first.year) + last.month - first.month - 1
    return (last - first).days // {"day": 1, "week": 7}[period] - 1
