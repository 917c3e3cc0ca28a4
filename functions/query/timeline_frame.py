"""The frame of a timeline: times above, stretches that are cut out, the job's start and end."""

from typing import Final

from engine.model.verdict import Verdict
from functions.query.drawing import CHARACTER_PX, Drawing
from functions.query.plain import clock, duration, moment, short
from functions.query.time_axis import TimeAxis

_TICKS: Final = 17.0
_CUT_LABELS: Final = 32.0
_TOP: Final = 30.0
_ROW_NAME: Final = 40.0
_APART_PX: Final = 6.0
_TICKS_APART_PX: Final = 150.0
"""Room for two times with dates side by side, the last of which ends at its line."""


def top_of(axis: TimeAxis) -> float:
    """Return where the rows begin: below the times, and below what tells of cuts if there are."""
    return _TOP + 16.0 if axis.breaks else _TOP


def draw_axis(picture: Drawing, axis: TimeAxis, height: float) -> None:
    """Draw the times to read the picture by."""
    day = ""
    for x, time in axis.ticks(_TICKS_APART_PX):
        picture.add("line", x1=x, x2=x, y1=top_of(axis) - 6, y2=height - 8, cls="grid")
        told, date = f"{time:%H:%M:%S}", f"{time:%m-%d}"
        label = told if date == day or not day else f"{date} {told}"
        day = date
        anchor = "end" if x > picture.width - 50 else "middle"
        picture.text(min(x, picture.width - 4), _TICKS, label, cls="tick", text_anchor=anchor)
    picture.text(8, _TICKS, f"{axis.times[0]:%Y-%m-%d} UTC", cls="tick")


def draw_cuts(picture: Drawing, axis: TimeAxis, height: float) -> None:
    """Shade the stretches that are cut out, each with how long it was above it."""
    top = top_of(axis)
    for place in axis.breaks:
        picture.add(
            "rect", x=place.left + 4, y=top, width=place.right - place.left - 8,
            height=height - top - 8, cls="cut", tip=f"{duration(place.lasted)} without events",
        )  # fmt: skip
        picture.text((place.left + place.right) / 2, _CUT_LABELS, duration(place.lasted),
                     cls="cutlabel", text_anchor="middle")  # fmt: skip


def draw_edges(picture: Drawing, axis: TimeAxis, verdict: Verdict, height: float) -> None:
    """Draw the lines at which the job started and ended."""
    for text, time in (("start", verdict.workload.start), ("end", verdict.workload.end)):
        at = moment(time)
        if at is not None:
            x = axis.x(at)
            picture.add("line", x1=x, x2=x, y1=top_of(axis) - 4, y2=height - 8, cls="edge",
                        tip=f"job {text} {clock(time)}")  # fmt: skip


def name_edges(picture: Drawing, axis: TimeAxis, verdict: Verdict, y: float) -> None:
    """Name those lines, each on a side where its name covers neither a line nor the other name."""
    ended = f"end: {short(verdict.workload.state or verdict.terminal_state, 30)}"
    edges = [
        (axis.x(at), name, sides)
        for time, name, sides in (
            (verdict.workload.start, "start", ("start", "end")),
            (verdict.workload.end, ended, ("end", "start")),
        )
        if (at := moment(time)) is not None
    ]
    taken = [(x, x) for x, _, _ in edges]
    placed = []
    for x, name, sides in edges:
        for anchor in sides:
            left, right = _extent(x, name, anchor)
            is_inside = left > _ROW_NAME and right < picture.width
            if is_inside and all(right <= a or left >= b for a, b in taken):
                taken.append((left, right))
                placed.append((x, name, anchor))
                break
    if len(placed) < len(edges):
        # Both at the right edge, with no room between them: one name for both.
        placed = [(min(x for x, _, _ in edges), ", ".join(name for _, name, _ in edges), "end")]
    for x, name, anchor in placed:
        at_x = x + _APART_PX if anchor == "start" else x - _APART_PX
        picture.text(at_x, y, name, cls="edgelabel", text_anchor=anchor)


def _extent(x: float, name: str, anchor: str) -> tuple[float, float]:
    width = _APART_PX + len(name) * CHARACTER_PX
    return (x, x + width) if anchor == "start" else (x - width, x)
