"""Observations on one scale: times as intervals dated back by timers, bounds of the attempt."""

from dataclasses import dataclass

from engine.case import Case
from engine.model.moment import to_us
from engine.model.observation import Observation
from engine.moments import MINUTE_US, OPEN_FUTURE, OPEN_PAST, or_future, or_past
from engine.rulebook.book import OnsetTimer, Rulebook, SignatureDef

# Windows of DESIGN: health facts count from 10 min before the start to 5 min after the end.
BEFORE_US = 10 * MINUTE_US
AFTER_US = 5 * MINUTE_US


@dataclass(slots=True, frozen=True)
class Bounds:
    """The attempt's own start and end in microseconds, open where unknown."""

    start: int
    end: int

    @property
    def earliest(self) -> int:
        """Older facts are history."""
        return self.start if self.start == OPEN_PAST else self.start - BEFORE_US

    @property
    def latest(self) -> int:
        """Later facts are consequences."""
        return self.end if self.end == OPEN_FUTURE else self.end + AFTER_US


def bounds_of(case: Case) -> Bounds:
    """Return the attempt's bounds."""
    start, end = case.workload.start, case.workload.end
    return Bounds(
        OPEN_PAST if start is None else to_us(start), OPEN_FUTURE if end is None else to_us(end)
    )


class Signatures:
    """Looks up what a signature says of timers and trust, by rule and source."""

    def __init__(self, book: Rulebook) -> None:
        self._by_rule: dict[str, list[SignatureDef]] = {}
        self._found: dict[tuple[str, str], list[SignatureDef]] = {}
        self._proves: dict[tuple[str, str, str], bool] = {}
        for signature in book.signatures:
            self._by_rule.setdefault(signature.rule, []).append(signature)
            self._by_rule.setdefault(f"{signature.rule}#{signature.name}", []).append(signature)

    def of(self, rule: str, source: str) -> list[SignatureDef]:
        """Return the signatures of a rule that read a source (all of them where none says so)."""
        key = (rule, source)
        if key not in self._found:
            found = self._by_rule.get(rule) or self._by_rule.get(rule.split("#", 1)[0]) or []
            self._found[key] = [item for item in found if source in item.sources] or found
        return self._found[key]

    def timer(self, rule: str, source: str, fields: dict[str, str]) -> OnsetTimer | None:
        """Return the timer that dates this observation back, or None."""
        timers = [item.onset for item in self.of(rule, source) if item.onset is not None]
        for timer in timers:
            if timer.field is not None and timer.field in fields:
                return timer
        return timers[0] if timers else None

    def proves(self, rule: str, source: str, trust: str) -> bool:
        """Whether a rule may prove anything from evidence of this trust."""
        key = (rule, source, trust)
        if key not in self._proves:
            found = self.of(rule, source)
            self._proves[key] = not found or any(
                not item.proves_from or trust in item.proves_from for item in found
            )
        return self._proves[key]


def seen_interval(observation: Observation, bounds: Bounds) -> tuple[int, int]:
    """Return when the first line was written, bounded by the attempt where nothing better is."""
    when = observation.when
    earliest, latest = or_past(when.earliest_us), or_future(when.latest_us)
    if when.basis in ("none", "attempt"):
        earliest = max(earliest, bounds.earliest)
        latest = min(latest, bounds.latest)
    outside = latest < bounds.earliest or earliest > bounds.latest
    if when.basis == "neighbour" and observation.source == "applog" and outside:
        # The stamps round it are of something quoted: a job prints nothing before it starts.
        return bounds.earliest, bounds.latest
    return earliest, latest


def onset_interval(
    interval: tuple[int, int], timer: OnsetTimer | None, fields: dict[str, str]
) -> tuple[int, int]:
    """Date an interval back by a timer: `[t - value - max, t - value - min]`."""
    if timer is None:
        return interval
    value = timer.default_us
    if timer.field is not None and timer.field in fields:
        try:
            value = int(float(fields[timer.field]) * timer.unit_us)
        except (ValueError, OverflowError):
            value = timer.default_us
    earliest, latest = interval
    return (
        earliest if earliest == OPEN_PAST else earliest - value - timer.max_us,
        latest if latest == OPEN_FUTURE else latest - value - timer.min_us,
    )
