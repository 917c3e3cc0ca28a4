"""A trend as a picture: one bar a period, the most frequent subjects apart."""

from typing import Final

from markupsafe import Markup

from functions.query.drawing import Drawing
from functions.query.plain import words
from functions.query.tallies import Trend

MAX_APART: Final = 6
_WIDTH: Final = 1040.0
_HEIGHT: Final = 210.0
_LEFT: Final = 34.0
_FOOT: Final = 46.0
_TOP: Final = 12.0
_MAX_BARS: Final = 60


def trend_picture(trend: Trend) -> Markup:
    """Draw the trend; the table beside it holds the same numbers."""
    first = max(0, len(trend.starts) - _MAX_BARS)
    starts, totals = trend.starts[first:], trend.totals[first:]
    apart = list(trend.counts)[:MAX_APART]
    picture = Drawing(
        "trend", f"Verdicts by {trend.period} and {words(trend.subject)}",
        f"{trend.counted} verdicts from {starts[0]} to {starts[-1]}, at most {max(totals)} "
        f"in one {trend.period}. The table below holds every number.",
        _WIDTH, _HEIGHT,
    )  # fmt: skip
    floor = _HEIGHT - _FOOT
    scale = (floor - _TOP) / max(totals)
    for value in sorted({max(totals), max(totals) // 2} - {0}):
        y = floor - value * scale
        picture.add("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, cls="grid")
        picture.text(_LEFT - 6, y + 4, str(value), cls="tick", text_anchor="end")
    step = (_WIDTH - _LEFT) / max(len(starts), 6)
    label_every = max(1, round(84 / step))
    for index, start in enumerate(starts):
        x, y = _LEFT + index * step, floor
        rest = totals[index]
        for number, name in enumerate(apart):
            count = trend.counts[name][first + index]
            rest -= count
            y = _bar(picture, x, y, width=step, count=count, scale=scale,
                     cls=f"bar b{number}", tip=f"{start}: {words(name)} {count}")  # fmt: skip
        _bar(picture, x, y, width=step, count=rest, scale=scale, cls="bar rest",
             tip=f"{start}: others {rest}")  # fmt: skip
        if index % label_every == 0:
            picture.text(x, floor + 16, start, cls="tick")
    x = _LEFT
    for number, name in enumerate([*apart, "others"] if len(trend.counts) > len(apart) else apart):
        cls = f"bar b{number}" if number < len(apart) else "bar rest"
        picture.add("rect", x=x, y=_HEIGHT - 14, width=10.0, height=10.0, cls=cls)
        picture.text(x + 15, _HEIGHT - 5, words(name), limit=26, cls="tick")
        x += 15 + 7.0 * min(26, len(name)) + 16
    return picture.markup()


def _bar(
    picture: Drawing, x: float, y: float, *, width: float, count: int, scale: float, cls: str,
    tip: str,
) -> float:  # fmt: skip
    if count <= 0:
        return y
    top = y - count * scale
    picture.add("rect", x=x + 1, y=top, width=max(2.0, min(width - 3, 56.0)),
                height=max(0.5, y - top - 0.5), cls=cls, tip=tip)  # fmt: skip
    return top
