"""The lines round a hit, one identity at a time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from engine.extract.demux import Demultiplexer, Identity
from engine.extract.segment import (
    Line,
    line_after,
    line_after_like,
    line_before,
    line_before_like,
)
from engine.extract.stamp_forms import SINCE
from engine.extract.stamps import StampReader
from engine.model.observation import When

LOOK_BYTES: Final = 64 << 10  # how far before and after a line its neighbours are looked for
# Of one stream, in all, so that hits in a log without stamps stay cheap:
WALK_LINES: Final = 40_000  # lines looked at one by one
WALK_BYTES: Final = 256 << 20  # bytes searched for the same prefix (some 5 GB/s)
WALK_LEAPS: Final = 100_000  # lines found by their prefix, and looked at


class Window:
    """Walks the lines of one identity, before and after a line, within bounds."""

    def __init__(self, demultiplexer: Demultiplexer, stamps: StampReader) -> None:
        self._demultiplexer = demultiplexer
        self.stamps = stamps
        self._lines_left = WALK_LINES
        self._bytes_left = WALK_BYTES
        self._leaps_left = WALK_LEAPS

    @property
    def is_spent(self) -> bool:
        """Whether no more neighbours will be looked at in this stream."""
        return min(self._lines_left, self._bytes_left, self._leaps_left) <= 0

    def identity(self, line: Line) -> Identity:
        """Whose line it is."""
        return self._demultiplexer.read(line.text)

    def forward(
        self, line: Line, whose: Identity, *, lines: int, look_bytes: int = LOOK_BYTES
    ) -> Iterator[tuple[Line, str]]:
        """Yield the following lines of identity `whose` with their bodies."""
        return self._walk(line, whose, (lines, look_bytes), line_after, line_after_like)

    def backward(
        self, line: Line, whose: Identity, *, lines: int, look_bytes: int = LOOK_BYTES
    ) -> Iterator[tuple[Line, str]]:
        """Yield the lines of identity `whose` before `line`, the nearest first."""
        return self._walk(line, whose, (lines, look_bytes), line_before, line_before_like)

    def _walk(
        self,
        line: Line,
        whose: Identity,
        bounds: tuple[int, int],
        step: Callable[[Line], Line | None],
        leap: Callable[[Line, bytes, int], tuple[Line | None, int]],
    ) -> Iterator[tuple[Line, str]]:
        lines, look_bytes = bounds
        key, lead = whose.key, whose.lead.encode()
        place: Line | None = line
        while place is not None and lines > 0 and look_bytes > 0:
            if self.is_spent:
                return
            if lead:
                place, searched = leap(place, lead, look_bytes)
                self._bytes_left -= searched
                self._leaps_left -= 1
            else:
                place = step(place)
                searched = place.end - place.start + 1 if place else 0
                self._lines_left -= 1
            look_bytes -= searched
            if place is None:
                return
            identity = self.identity(place)
            if identity.key == key:
                lines -= 1
                yield place, place.text[identity.body :]

    def when(self, line: Line, identity: Identity) -> When:
        """The time of a line: its own stamp, else between its neighbours', else the attempt's."""
        own = self.stamps.read(line.text, identity.body)
        return own if own is not None else self.between(line, identity)

    def between(self, line: Line, whose: Identity) -> When:
        """The interval between the stamped lines before and after, on the same identity."""
        if (when := self._since_line_above(line, whose)) is not None:
            return when
        before = after = None
        for place, body in self.backward(line, whose, lines=4000):
            before = self.stamps.read(place.text, len(place.text) - len(body))
            if before is not None:
                break
        for place, body in self.forward(line, whose, lines=4000):
            after = self.stamps.read(place.text, len(place.text) - len(body))
            if after is not None:
                break
        return self._interval(before, after)

    def _since_line_above(self, line: Line, whose: Identity) -> When | None:
        """The time of a line that says how long after the line above it came."""
        match = SINCE.match(line.text)
        passed = 0
        lines = self.backward(line, whose, lines=4000)
        while match is not None:
            passed += int(match[1]) * 1_000_000 + int(match[2])
            above = next(lines, None)
            if above is None:
                return None
            text = above[0].text
            match = SINCE.match(text)
            if match is None and (when := self.stamps.read(text)) is not None:
                if when.earliest_us is None or when.latest_us is None:
                    return None
                return replace(
                    when, earliest_us=when.earliest_us + passed, latest_us=when.latest_us + passed
                )
        return None

    def _interval(self, before: When | None, after: When | None) -> When:
        attempt = self.stamps.attempt
        if before is None and after is None:
            return attempt
        if before and after and (before.clock == "boot") != (after.clock == "boot"):
            after = None
        clock = (before or after or attempt).clock
        bounds = attempt if clock != "boot" else When()
        earliest = before.earliest_us if before else bounds.earliest_us
        latest = after.latest_us if after else bounds.latest_us
        if earliest is not None and latest is not None and latest < earliest:
            # stamps that run backwards, or an end before the last stamp: keep what was read
            stamped = before or after or attempt
            spread = [us for us in (earliest, latest, stamped.latest_us) if us is not None]
            known = (before is not None, after is not None)
            if known == (True, True):
                earliest, latest = min(spread), max(spread)
            elif before is not None:
                earliest, latest = before.earliest_us, before.latest_us
            else:
                earliest, latest = stamped.earliest_us, stamped.latest_us
        return When(earliest, latest, "neighbour", clock)
