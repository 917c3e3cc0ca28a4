"""Time laid out on a line whose long empty stretches are cut out, and shown as cut out."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

BREAK_PX: Final = 64.0
_LONG: Final = 0.35
"""A stretch without events is cut out when it is longer than this share of what is left."""
_MAX_BREAKS: Final = 3
_MIN_CUT: Final = timedelta(seconds=60)
_MIN_LEFT: Final = timedelta(seconds=2)
"""Less than this is not drawn as wide as the page: most stamps tell no more than the second."""


@dataclass(slots=True, frozen=True)
class Break:
    """A stretch that was cut out: where it is drawn, and how long it was."""

    left: float
    right: float
    lasted: timedelta


class TimeAxis:
    """Maps times to x; equal distances are equal times but across breaks."""

    def __init__(self, times: Sequence[datetime], *, left: float, right: float):
        """`times` are all that will be drawn; at least one."""
        self.times = sorted(set(times))
        self.left, self.right = left, right
        pairs = list(zip(self.times, self.times[1:], strict=False))
        cut = _long_stretches(pairs)
        kept = sum((b - a for i, (a, b) in enumerate(pairs) if i not in cut), timedelta())
        room = right - left - BREAK_PX * len(cut)
        # Events apart in time stay apart on the page, so each stretch gets a little in any case.
        floor = min(10.0, room / (2 * max(1, len(pairs))))
        spare = room - floor * (len(pairs) - len(cut))
        self.breaks: list[Break] = []
        self._knots: list[tuple[datetime, float]] = [(self.times[0], left)]
        x = left
        for index, (start, end) in enumerate(pairs):
            if index in cut:
                self.breaks.append(Break(x, x + BREAK_PX, end - start))
                x += BREAK_PX
            else:
                x += floor + (spare * ((end - start) / kept) if kept else 0.0)
            self._knots.append((end, x))

    def x(self, time: datetime) -> float:
        """Return where a time is drawn; what lies outside goes to the edge."""
        before = self._knots[0]
        if time <= before[0]:
            return before[1]
        for knot in self._knots[1:]:
            if time <= knot[0]:
                share = (time - before[0]) / (knot[0] - before[0])
                return before[1] + share * (knot[1] - before[1])
            before = knot
        return before[1]

    def ticks(self, apart_px: float) -> list[tuple[float, datetime]]:
        """Return times to label, first and last among them, at least `apart_px` apart."""
        chosen = [self._knots[0][::-1]]
        last = self._knots[-1]
        for time, x in self._knots[1:-1]:
            if x - chosen[-1][0] >= apart_px and last[1] - x >= apart_px:
                chosen.append((x, time))
        if last[1] - chosen[-1][0] >= apart_px:
            chosen.append(last[::-1])
        return chosen


def _long_stretches(pairs: Sequence[tuple[datetime, datetime]]) -> set[int]:
    cut: set[int] = set()
    while len(cut) < _MAX_BREAKS and len(pairs) - len(cut) > 1:
        spans = {i: b - a for i, (a, b) in enumerate(pairs) if i not in cut}
        longest = max(spans, key=lambda i: (spans[i], -i))
        whole = sum(spans.values(), timedelta())
        is_short = spans[longest] < _MIN_CUT or spans[longest] < whole * _LONG
        if is_short or whole - spans[longest] < _MIN_LEFT:
            break
        cut.add(longest)
    return cut
