"""A trend as a picture: one bar a period, the most frequent subjects apart."""

from typing import Final

from markupsafe import Markup

from functions.query.drawing import Drawing
from functions.query.plain import counted, words
from functions.query.tallies import Stretch, Trend, stretches

MAX_APART: Final = 6
_WIDTH: Final = 1040.0
_HEIGHT: Final = 210.0
_LEFT: Final = 34.0
_FOOT: Final = 46.0
_TOP: Final = 12.0
_MAX_BARS: Final = 60
_DATE_PX: Final = 70.0


def drawn(trend: Trend) -> list[Stretch]:
    """Return what of a trend is drawn: all of it, or the newest where that is too wide."""
    return stretches(trend)[-_MAX_BARS:]


def trend_picture(trend: Trend) -> Markup:
    """Draw the trend; the table beside it holds the same numbers."""
    bars = drawn(trend)
    highest = max(trend.totals[bar.index] for bar in bars if bar.index is not None)
    apart = list(trend.counts)[:MAX_APART]
    picture = Drawing(
        "trend", f"Verdicts by {trend.period} and {words(trend.subject)}",
        f"{counted(trend.counted, 'verdict')}, drawn from {bars[0].start} to {bars[-1].start}, "
        f"at most {highest} in one {trend.period}. The table below holds every number.",
        _WIDTH, _HEIGHT,
    )  # fmt: skip
    floor = _HEIGHT - _FOOT
    scale = (floor - _TOP) / highest
    for value in sorted({highest, highest // 2} - {0}):
        y = floor - value * scale
        picture.add("line", x1=_LEFT, x2=_WIDTH, y1=y, y2=y, cls="grid")
        picture.text(_LEFT - 6, y + 4, str(value), cls="tick", text_anchor="end")
    step = (_WIDTH - _LEFT) / max(len(bars), 6)
    free = 0.0
    for number, bar in enumerate(bars):
        x = _LEFT + number * step
        if bar.index is None:
            _empty(picture, bar, trend.period, x=x, width=step)
            continue
        _stack(picture, trend, bar.index, x=x, width=step, scale=scale, apart=apart)
        if free <= x <= _WIDTH - _DATE_PX:
            picture.text(x, floor + 16, bar.start, cls="tick")
            free = x + _DATE_PX + 14
    x = _LEFT
    for number, name in enumerate([*apart, "others"] if len(trend.counts) > len(apart) else apart):
        cls = f"bar b{number}" if number < len(apart) else "bar rest"
        picture.add("rect", x=x, y=_HEIGHT - 14, width=10.0, height=10.0, cls=cls)
        picture.text(x + 15, _HEIGHT - 5, words(name), limit=26, cls="tick")
        x += 15 + 7.0 * min(26, len(name)) + 16
    return picture.markup()


def _stack(
    picture: Drawing, trend: Trend, index: int, *, x: float, width: float, scale: float,
    apart: list[str],
) -> None:  # fmt: skip
    start, y, rest = trend.starts[index], _HEIGHT - _FOOT, trend.totals[index]
    for number, name in enumerate(apart):
        count = trend.counts[name][index]
        rest -= count
        y = _bar(picture, x, y, width=width, count=count, scale=scale,
                 cls=f"bar b{number}", tip=f"{start}: {words(name)} {count}")  # fmt: skip
    _bar(picture, x, y, width=width, count=rest, scale=scale, cls="bar rest",
         tip=f"{start}: others {rest}")  # fmt: skip


def _empty(picture: Drawing, bar: Stretch, period: str, *, x: float, width: float) -> None:
    """Shade periods without verdicts that are drawn as one."""
    told, centre, broad = counted(bar.periods, period), (_TOP + _HEIGHT - _FOOT) / 2, _broad(width)
    picture.add("rect", x=x + 1, y=_TOP, width=broad, height=_HEIGHT - _FOOT - _TOP, cls="cut",
                tip=f"{told} from {bar.start} without verdicts")  # fmt: skip
    middle = x + 1 + broad / 2 + 4  # the letters' foot, so that they stand in the middle
    picture.add("text", told, x=middle, y=centre, cls="cutlabel", text_anchor="middle",
                transform=f"rotate(-90 {middle:.1f} {centre:.1f})")  # fmt: skip


def _bar(
    picture: Drawing, x: float, y: float, *, width: float, count: int, scale: float, cls: str,
    tip: str,
) -> float:  # fmt: skip
    if count <= 0:
        return y
    top = y - count * scale
    picture.add("rect", x=x + 1, y=top, width=_broad(width),
                height=max(0.5, y - top - 0.5), cls=cls, tip=tip)  # fmt: skip
    return top


def _broad(width: float) -> float:
    return max(2.0, min(width - 3, 56.0))
