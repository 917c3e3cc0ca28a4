"""Calendar dates and wall clocks of one zone to microseconds since the epoch, cached."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final

from engine.model.moment import from_us, to_us, zone

QUARTER_US: Final = 900_000_000  # offsets from UTC are whole quarters of an hour
_BEFORE_US: Final = 120_000_000  # how far outside its attempt a job's own output may lie
_AFTER_US: Final = 300_000_000
_NEAR_US: Final = 600_000_000  # it begins or ends about when the attempt does
_CACHE_LIMIT: Final = 8192
_Clock = tuple[int, int, int]


class Calendar:
    """Wall time of one zone; hours that a clock change repeats come back as a wide interval."""

    def __init__(self, timezone_name: str | None) -> None:
        self._zone = zone(timezone_name)
        self._hours: dict[tuple[int, int, int, int, str | None], tuple[int, int] | None] = {}

    def instant(
        self, year: int, month: int, day: int, clock: _Clock, zone_text: str | None
    ) -> tuple[int, int] | None:
        """Return the (earliest, latest) start of that second, None where no such time exists."""
        hour, minute, second = clock
        if minute > 59 or second > 60:
            return None
        key = (year, month, day, hour, zone_text)
        if key not in self._hours:
            if len(self._hours) >= _CACHE_LIMIT:
                self._hours.clear()
            self._hours[key] = self._hour(year, month, day, hour, zone_text)
        span = self._hours[key]
        if span is None:
            return None
        us = (minute * 60 + second) * 1_000_000
        return span[0] + us, span[1] + us

    def year_of(self, us: int) -> int:
        """The year that a moment falls in, in this zone."""
        return from_us(us).astimezone(self._zone).year

    def days_between(self, first_us: int, last_us: int) -> Iterator[tuple[int, int, int]]:
        """Yield at most 400 (year, month, day) from the first moment's day to the last's."""
        day = from_us(first_us).astimezone(self._zone).date()
        last = min(from_us(last_us).astimezone(self._zone).date(), day + timedelta(days=400))
        while day <= last:
            yield day.year, day.month, day.day
            day = date.fromordinal(day.toordinal() + 1)

    def _hour(
        self, year: int, month: int, day: int, hour: int, zone_text: str | None
    ) -> tuple[int, int] | None:
        try:
            naive = datetime(year, month, day, hour)
            if zone_text:
                offset = zone(zone_text.strip())
                us = to_us(naive.replace(tzinfo=offset))
                return us, us
            if self._zone is UTC:
                us = to_us(naive.replace(tzinfo=UTC))
                return us, us
            both = sorted(to_us(naive.replace(tzinfo=self._zone, fold=fold)) for fold in (0, 1))
        except (ValueError, OverflowError):
            return None
        # a gap (spring) gives nonsense twice, an hour apart, as a fold (autumn) gives two hours
        return both[0], both[-1]


def shifts_into(seen: tuple[int, int], start: int, end: int) -> list[int] | None:
    """The shifts, in microseconds, that bring stamps wholly outside an attempt into it.

    `seen` holds the first and last stamp. Whole hours win over other quarters. None where some
    stamp lies inside already; an empty list where nothing fits.
    """
    first, last = seen
    low, high = start - _BEFORE_US, end + _AFTER_US
    if last >= low and first <= high:
        return None
    fits = [
        shift
        for shift in (step * QUARTER_US for step in range(-56, 57))
        if first + shift >= low
        and last + shift <= high
        and (first + shift <= start + _NEAR_US or last + shift >= end - _NEAR_US)
    ]
    return [shift for shift in fits if shift % (4 * QUARTER_US) == 0] or fits
