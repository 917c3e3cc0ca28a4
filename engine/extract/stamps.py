"""The time of a line as an interval with its basis: every stamp form that job logs carry.

A stamp of one second resolution is `[t, t + 999999 us]`. What a stamp leaves out (year, zone,
date) is taken from the attempt; what cannot be known stays open.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from engine.extract.calendar import QUARTER_US, Calendar, shifts_into
from engine.extract.stamp_forms import (
    CTIME,
    DATED,
    EPOCH,
    GLOG,
    GSP_TIME,
    ISO,
    KERNEL_UPTIME,
    KMSG,
    LIBFABRIC,
    MINUTE,
    MONTH_DAY,
    MONTHS,
    SHORT,
    SLASHED,
    STOPPED_AT,
    SYSLOG,
    TIME_ONLY,
    UPTIME,
    micros,
)
from engine.model.moment import UnknownTimezoneError, to_us
from engine.model.observation import TimeBasis, When
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

_SECOND: Final = 1_000_000
MINUTE_US: Final = 60 * _SECOND
_HEAD_CHARS: Final = 72  # how far behind the line start, or behind its prefix, a stamp may begin
_NAIVE: Final = ("local", "yearless", "neighbour")
_REMEMBERED: Final = 4096
_OPENERS: Final = " \t[<(|"


class StampReader:
    """Reads the stamps of one stream; remembers what its own lines say of the boot time."""

    def __init__(self, label: StreamLabel, workload: Workload) -> None:
        self._problems: list[str] = []
        name = label.timezone or workload.timezone
        try:
            self._calendar = Calendar(name)
        except UnknownTimezoneError as error:
            self._calendar = Calendar(None)
            self._problems.append(f"{error}; stamps without an offset were read as UTC")
        self._start = to_us(workload.start) if workload.start else None
        self._end = to_us(workload.end) if workload.end else label.captured_at_us
        self._clock = _clock_of(label)
        self._boot: tuple[int, int] | None = None
        if label.boot_time_us is not None:
            self._boot = (label.boot_time_us, label.boot_time_us + _SECOND - 1)
        self._boot_given = label.boot_time_us is not None
        self._seen_us: int | None = None
        self._syslog = label.source == "syslog"
        # a node's or a daemon's log may well lie outside; only a job's own output may not
        self._may_shift = label.source == "applog" and not (label.timezone or workload.timezone)
        self._naive: tuple[int, int] | None = None
        self._shift = (0, 0)
        self._years: dict[tuple[int, int], int] = {}
        self._recent: dict[str, When | None] = {}

    @property
    def attempt(self) -> When:
        """The attempt's own bounds: all that is known of a line without any stamp near it."""
        if self._start is None and self._end is None:
            return When(clock=self._clock)
        return When(self._start, self._end, "attempt", "scheduler")

    def read(self, text: str, body: int = 0) -> When | None:
        """The time that a line carries, None where it carries none.

        `body` is where the text starts behind rank and pod prefixes. Seconds since boot come
        back as basis `uptime` with clock `boot`, to be resolved by `resolve`.
        """
        when = self._at(text, 0)
        if when is None and body:
            when = self._at(text, body) or self._amid(text, body)
        if when is None:
            when = self._near(text, body)
        if when is None and (match := STOPPED_AT.search(text)):
            iso = ISO.match(text, match.end())
            when = self._iso(iso) if iso else None
        if when is None and "libfabric:" in text and (match := LIBFABRIC.search(text)):
            when = self._epoch_seconds(int(match[1]))
        if when is not None and when.clock != "boot" and when.earliest_us is not None:
            self._seen_us = when.earliest_us
            self._note_naive(when)
            if self._syslog:
                self._learn_boot(text, when)
        return when

    def resolve(self, when: When) -> When:
        """Turn what a stamp left open into wall time, once the whole stream was read.

        Seconds since boot need the boot time; naive stamps move by the shift of `settle`.
        """
        if self._shift != (0, 0) and when.basis in _NAIVE:
            return replace(
                when,
                earliest_us=None if when.earliest_us is None else when.earliest_us + self._shift[0],
                latest_us=None if when.latest_us is None else when.latest_us + self._shift[1],
            )
        if when.clock != "boot" or when.earliest_us is None or when.latest_us is None:
            return when
        if self._boot is None:
            return When(clock=self._clock)
        return When(
            when.earliest_us + self._boot[0], when.latest_us + self._boot[1], "uptime", self._clock
        )

    def settle(self) -> list[str]:
        """Decide, at the end of the stream, whether its naive stamps are of another zone.

        A job's own output lies inside its attempt. Where every naive stamp lies outside by whole
        quarters of an hour and fits inside when moved, it is moved; where several moves fit, the
        times become that wide. Returns the warning to report, if any.
        """
        if not self._may_shift or self._naive is None or self._start is None or self._end is None:
            return self._problems
        fits = shifts_into(self._naive, self._start, self._end)
        if fits is None:
            return self._problems
        if not fits:
            return [
                *self._problems,
                "stamps without a zone lie outside the attempt; a timezone may be missing",
            ]
        self._shift = (fits[0], fits[-1])
        moved = " or ".join(f"{shift / (4 * QUARTER_US):+g} h" for shift in sorted({*self._shift}))
        return [
            *self._problems,
            f"stamps without a zone lie outside the attempt; read as moved by {moved}",
        ]

    def _note_naive(self, when: When) -> None:
        if self._may_shift and when.basis in _NAIVE:
            earliest, latest = when.earliest_us or 0, when.latest_us or 0
            if self._naive is None:
                self._naive = (earliest, latest)
            else:
                self._naive = (min(earliest, self._naive[0]), max(latest, self._naive[1]))

    def _at(self, text: str, place: int) -> When | None:
        length = len(text)
        while place < length and text[place] in _OPENERS:
            place += 1
        if place >= length:
            return None
        char = text[place]
        if char.isdigit():
            for pattern, reader in self._NUMERIC:
                if match := pattern.match(text, place):
                    when = self._remembered(match, reader)
                    if when is not None:
                        return when
        elif char.isupper():
            for pattern, reader in self._WORDED:
                if match := pattern.match(text, place):
                    return self._remembered(match, reader)
        return None

    def _remembered(self, match: re.Match[str], reader: Callable[..., When | None]) -> When | None:
        """Read a stamp once: in a storm many lines carry the same."""
        if match.re is TIME_ONLY:
            return reader(self, match)
        text = match[0]
        if text not in self._recent:
            if len(self._recent) >= _REMEMBERED:
                self._recent.clear()
            self._recent[text] = reader(self, match)
        return self._recent[text]

    def _amid(self, text: str, body: int) -> When | None:
        """A stamp between two prefixes: `12: [2026-11-03 12:00:00.123] [rank12] ...`."""
        return (match := ISO.search(text, 0, body)) and self._remembered(match, StampReader._iso)

    def _near(self, text: str, body: int) -> When | None:
        """A stamp a little behind the start: `INFO:root:2024-...`, `[NeMo W 2024-...`."""
        stop = body + _HEAD_CHARS + 32
        for pattern, reader in self._LOOSE:
            match = pattern.search(text, body, stop)
            if match and match.start() <= body + _HEAD_CHARS:
                start = match.start()
                if start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "-/._"):
                    return reader(self, match)
        return None

    def _iso(self, match: re.Match[str]) -> When | None:
        year, month, day, *clock, zone_text = match.groups()
        return self._stamp(int(year), int(month), int(day), clock, zone_text)

    def _short(self, match: re.Match[str]) -> When | None:
        year, month, day, *clock, zone_text = match.groups()
        return self._stamp(2000 + int(year), int(month), int(day), clock, zone_text)

    def _slashed(self, match: re.Match[str]) -> When | None:
        first, second, year, *clock, zone_text = match.groups()
        dates = {(int(second), int(first)), (int(first), int(second))}
        read = (
            self._stamp(int(year), month, day, clock, zone_text) for month, day in sorted(dates)
        )
        return self._nearest([when for when in read if when is not None])

    def _month_day(self, match: re.Match[str]) -> When | None:
        month, day, *clock = match.groups()
        return self._yearless(int(month), int(day), clock)

    def _glog(self, match: re.Match[str]) -> When | None:
        year, date, *clock = match.groups()
        month, day = divmod(int(date), 100)
        if year:
            return self._stamp(int(year), month, day, clock, None)
        return self._yearless(month, day, clock)

    def _syslog_form(self, match: re.Match[str]) -> When | None:
        name, day, *clock, year = match.groups()
        month = MONTHS.get(name)
        if month is None:
            return None
        if year:
            return self._stamp(int(year), month, int(day), clock, None)
        return self._yearless(month, int(day), clock)

    def _minute(self, match: re.Match[str]) -> When | None:
        name, day, hour, minute = match.groups()
        month = MONTHS.get(name)
        if month is None or not self._syslog:
            return None
        when = self._yearless(month, int(day), [hour, minute, "00", ""])
        if when is None or when.earliest_us is None:
            return None
        return replace(when, latest_us=when.earliest_us + MINUTE_US - 1)

    def _ctime(self, match: re.Match[str]) -> When | None:
        name, day, *clock, zone_text, year = match.groups()
        month = MONTHS.get(name)
        if month is None:
            return None
        zone_text = zone_text if zone_text in ("UTC", "GMT") else None
        return self._stamp(int(year), month, int(day), clock, zone_text)

    def _dated(self, match: re.Match[str]) -> When | None:
        name, day, year, *clock = match.groups()
        month = MONTHS.get(name)
        return self._stamp(int(year), month, int(day), clock, None) if month else None

    def _uptime(self, match: re.Match[str]) -> When | None:
        if not self._syslog:
            return None
        us, width = micros(match[2])
        earliest = int(match[1]) * _SECOND + us
        return When(earliest, earliest + width, "uptime", "boot")

    def _kmsg(self, match: re.Match[str]) -> When | None:
        if not self._syslog:
            return None
        return When(int(match[1]), int(match[1]), "uptime", "boot")

    def _epoch(self, match: re.Match[str]) -> When | None:
        seconds, fraction, more = match.groups()
        if fraction and more:
            return None
        us, width = micros(fraction or more)
        return self._epoch_seconds(int(seconds), us, width)

    def _epoch_seconds(self, seconds: int, us: int = 0, width: int = _SECOND - 1) -> When | None:
        if not 946_684_800 <= seconds < 4_102_444_800:  # the years 2000 to 2100
            return None
        earliest = seconds * _SECOND + us
        return When(earliest, earliest + width, "stamp", self._clock)

    def _time_only(self, match: re.Match[str]) -> When | None:
        """The attempt's day or days on which this time of day fits; several make it wide."""
        anchor = self._seen_us if self._start is None else self._start
        if anchor is None:
            return None
        end = max(anchor, self._end if self._end is not None else anchor)
        fits: list[When] = []
        days = self._calendar.days_between(anchor - 86_400 * _SECOND, end + 86_400 * _SECOND)
        for year, month, day in days:
            when = self._stamp(year, month, day, match.groups(), None)
            if when and when.earliest_us is not None and when.latest_us is not None:
                fits.append(replace(when, basis="yearless"))
        inside = [
            when
            for when in fits
            if (when.latest_us or 0) >= anchor - 60 * _SECOND
            and (when.earliest_us or 0) <= end + 1800 * _SECOND
        ]
        if not inside:
            return self._nearest(fits)
        return When(inside[0].earliest_us, inside[-1].latest_us, "yearless", self._clock)

    def _stamp(
        self,
        year: int,
        month: int,
        day: int,
        clock: "list[str] | tuple[str, ...]",
        zone_text: str | None,
    ) -> When | None:
        hour, minute, second, fraction = clock
        span = self._calendar.instant(
            year, month, day, (int(hour), int(minute), int(second)), zone_text
        )
        if span is None:
            return None
        us, width = micros(fraction)
        basis: TimeBasis = "stamp" if zone_text else "local"
        return When(span[0] + us, span[1] + us + width, basis, self._clock)

    def _yearless(self, month: int, day: int, clock: "list[str]") -> When | None:
        anchor = next(
            (us for us in (self._end, self._start, self._seen_us) if us is not None), None
        )
        if anchor is None:
            return None
        year = self._years.get((month, day))
        if year is None:
            middle = self._calendar.year_of(anchor)
            read = (
                self._stamp(candidate, month, day, clock, None)
                for candidate in (middle - 1, middle, middle + 1)
            )
            nearest = self._nearest([item for item in read if item is not None])
            if nearest is None or nearest.earliest_us is None:
                return None
            year = self._years[month, day] = self._calendar.year_of(nearest.earliest_us)
        when = self._stamp(year, month, day, clock, None)
        return replace(when, basis="yearless") if when else None

    def _nearest(self, candidates: list[When]) -> When | None:
        """The candidate nearest to the attempt; a tie between days inside it makes it wide."""
        if not candidates:
            return None
        ranked = sorted(candidates, key=lambda when: (self._distance(when), when.earliest_us or 0))
        best = [when for when in ranked if self._distance(when) == self._distance(ranked[0])]
        if len(best) == 1:
            return best[0]
        return replace(best[0], latest_us=max(when.latest_us or 0 for when in best))

    def _distance(self, when: When) -> int:
        earliest, latest = when.earliest_us or 0, when.latest_us or 0
        start = self._start if self._start is not None else self._end
        if start is None:
            start = self._seen_us or 0
        end = self._end if self._end is not None else start
        return max(start - latest, earliest - max(start, end), 0)

    def _learn_boot(self, text: str, when: When) -> None:
        """A line with both stamps gives the boot time; lines that agree make it sharper."""
        if self._boot_given or when.earliest_us is None or when.latest_us is None:
            return
        match = KERNEL_UPTIME.search(text, 0, 200)
        if match is None:
            return
        up = int(match[1]) * _SECOND + micros(match[2])[0]
        low, high = when.earliest_us - up, when.latest_us - up
        if self._boot is not None and self._boot[0] <= high and low <= self._boot[1]:
            low, high = max(low, self._boot[0]), min(high, self._boot[1])
        self._boot = (low, high)

    @property
    def wants_boot_time(self) -> bool:
        """Whether lines with uptime alone could not be dated as yet."""
        return self._syslog and self._boot is None

    def learn_gsp(self, text: str) -> None:
        """The GSP history of an uptime-only log bounds the boot time to some two minutes.

        The driver prints it when a waiting RPC has timed out: up to 45 s after `ts_start`, and
        somewhat later where calls queue.
        """
        up, started = UPTIME.match(text), GSP_TIME.search(text)
        if self._boot is None and up and started:
            low = int(started[1], 16) - int(up[1]) * _SECOND
            self._boot = (low - _SECOND, low + 120 * _SECOND)

    _NUMERIC: Final[tuple[tuple[re.Pattern[str], Callable[..., When | None]], ...]] = (
        (ISO, _iso),
        (SHORT, _short),
        (SLASHED, _slashed),
        (MONTH_DAY, _month_day),
        (TIME_ONLY, _time_only),
        (EPOCH, _epoch),
        (KMSG, _kmsg),
    )
    _WORDED: Final[tuple[tuple[re.Pattern[str], Callable[..., When | None]], ...]] = (
        (GLOG, _glog),
        (SYSLOG, _syslog_form),
        (DATED, _dated),
        (CTIME, _ctime),
        (MINUTE, _minute),
    )
    _LOOSE: Final[tuple[tuple[re.Pattern[str], Callable[..., When | None]], ...]] = (
        (ISO, _iso),
        (SLASHED, _slashed),
        (GLOG, _glog),
        (MONTH_DAY, _month_day),
        (UPTIME, _uptime),
    )


def _clock_of(label: StreamLabel) -> str:
    if label.source == "scheduler":
        return "scheduler"
    return label.nodes[0] if len(label.nodes) == 1 else ""
