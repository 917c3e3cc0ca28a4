"""A failure as a picture: nodes by time, where it began, how it spread, silence as silence."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from markupsafe import Markup

from engine.model.verdict import Symptom, Verdict
from functions.query.drawing import CHARACTER_PX, Drawing
from functions.query.plain import counted, moment, short
from functions.query.symptom_names import symptom_titles
from functions.query.time_axis import TimeAxis
from functions.query.timeline_frame import draw_axis, draw_cuts, draw_edges, name_edges, top_of

_WIDTH: Final = 1080.0
_GUTTER: Final = 158.0
_RIGHT: Final = _WIDTH - 22.0
_LANE: Final = 21.0
_MAX_ROWS: Final = 12
_MAX_LANES: Final = 5
_LABEL: Final = 40
_DRAWN: Final = ("root", "contributing", "downstream", "teardown")
_NAMED: Final = ("culprit", "suspect")
_ROLE_ORDER: Final = {"culprit": 0, "suspect": 1, "victim": 2, "observed": 3}


@dataclass(slots=True, frozen=True)
class _Mark:
    """Symptoms of one kind and role in one row: not before `earliest`, by `first`, until `last`."""

    row: str
    role: str
    title: str
    earliest: datetime
    first: datetime
    last: datetime
    count: int
    entities: int

    @property
    def label(self) -> str:
        several = f" ×{self.entities}" if self.entities > 1 else ""
        return short(self.title, _LABEL) + several

    @property
    def tip(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        until = "" if self.last == self.first else f" to {_stamp(self.last)}"
        since = "" if self.earliest == self.first else f", not before {_stamp(self.earliest)}"
        return f"{self.title} ({self.role}{times}) {_stamp(self.first)}{until}{since}"


def timeline_picture(verdict: Verdict) -> Markup | None:
    """Draw the timeline; None where nothing has a time."""
    marks = _merge_rows(_marks(verdict), verdict)
    job = verdict.workload
    edges = [t for t in (moment(job.start), moment(job.end)) if t is not None]
    gaps = _gaps(verdict)
    times = [t for mark in marks for t in (mark.first, mark.last)]
    times += [t for gap in gaps for t in gap[:2]] + edges
    progress = moment(verdict.progress.last_step_at)
    if progress is not None:
        times.append(progress)
    if not times:
        return None
    if len(set(times)) == 1:
        times.append(times[0] + timedelta(seconds=1))
    axis = TimeAxis(times, left=_GUTTER + 14, right=_RIGHT)
    return _draw(verdict, axis, marks, gaps=gaps, progress=progress)


def _marks(verdict: Verdict) -> list[_Mark]:
    titles = symptom_titles(verdict)
    node_of = {each.rank: each.node for each in verdict.affected_ranks}
    dated = {
        evidence: at
        for entry in verdict.timeline
        if entry.kind in _DRAWN and (at := moment(entry.at)) is not None
        for evidence in entry.evidence
    }
    start = moment(verdict.workload.start)
    merged: dict[tuple[str, str, str], _Mark] = {}
    for symptom in verdict.symptoms:
        earliest = moment(symptom.first_seen or symptom.last_seen)
        if symptom.role not in _DRAWN or earliest is None or _is_the_end(symptom):
            continue
        last = max(earliest, moment(symptom.last_seen) or earliest)
        # One sighting from first to last is one moment that is known no better than that.
        first = next((dated[each] for each in symptom.evidence if each in dated), None)
        if first is None:
            is_loose = symptom.count == 1 or (start is not None and earliest <= start)
            first = last if is_loose else earliest
        first = min(max(first, earliest), last)
        row = _row_of(symptom, node_of)
        key = (row, symptom.role, symptom.symptom)
        title = titles[symptom.symptom]
        new = _Mark(row, symptom.role, title, earliest, first, last, symptom.count, 1)
        held = merged.get(key)
        merged[key] = new if held is None else _joined(held, new)
    return sorted(merged.values(), key=lambda m: (m.first, _DRAWN.index(m.role), m.title, m.row))


def _is_the_end(symptom: Symptom) -> bool:
    """The scheduler's record of the job's end is drawn as the end, not as one more symptom."""
    return symptom.symptom.startswith("sched_") and symptom.role == "downstream"


def _joined(one: _Mark, other: _Mark) -> _Mark:
    return replace(
        one,
        earliest=min(one.earliest, other.earliest),
        first=min(one.first, other.first),
        last=max(one.last, other.last),
        count=one.count + other.count,
        entities=one.entities + other.entities,
    )


def _row_of(symptom: Symptom, node_of: dict[int, str | None]) -> str:
    entity = symptom.entity
    if entity.node:
        return entity.node
    if entity.kind == "rank" and entity.id.isdecimal():
        return node_of.get(int(entity.id)) or f"rank {entity.id}"
    if entity.kind in ("filesystem", "switch", "link", "queue"):
        return entity.id
    return ""


def _merge_rows(marks: list[_Mark], verdict: Verdict) -> list[_Mark]:
    """Put the nodes beyond the first dozen into one row, so that their spread still shows."""
    role_of = {each.node: _ROLE_ORDER[each.role] for each in verdict.affected_nodes}
    rows: dict[str, tuple[int, datetime, str]] = {}
    for mark in marks:
        if mark.row:
            rows.setdefault(mark.row, (role_of.get(mark.row, 4), mark.first, mark.row))
    order = sorted(rows, key=lambda row: rows[row])
    if len(order) <= _MAX_ROWS:
        return marks
    rest = set(order[_MAX_ROWS - 1 :])
    name = f"{len(rest)} more"
    kept = [mark for mark in marks if mark.row not in rest]
    folded: dict[tuple[str, str], _Mark] = {}
    for mark in marks:
        if mark.row in rest:
            new, key = replace(mark, row=name), (mark.role, mark.title)
            folded[key] = _joined(folded[key], new) if key in folded else new
    return kept + list(folded.values())


def _gaps(verdict: Verdict) -> list[tuple[datetime, datetime, str]]:
    found = []
    for entry in verdict.timeline:
        start, end = moment(entry.at), moment(entry.until)
        if entry.kind == "gap" and start is not None and end is not None and end > start:
            found.append((start, end, entry.text))
    return found


def _draw(
    verdict: Verdict,
    axis: TimeAxis,
    marks: list[_Mark],
    *,
    gaps: list[tuple[datetime, datetime, str]],
    progress: datetime | None,
) -> Markup:
    rows = list(dict.fromkeys(["", *(mark.row for mark in _in_row_order(marks, verdict))]))
    roles = {each.node: each.role for each in verdict.affected_nodes}
    lanes = {row: _lanes([m for m in marks if m.row == row], axis) for row in rows}
    heights = {row: _height(len(lanes[row]), roles.get(row, "")) for row in rows}
    heights[""] = _height(len(lanes[""]) + (2 if gaps or progress else 1), "")
    top = top_of(axis)
    height = top + sum(heights.values()) + 8
    picture = Drawing(
        "timeline",
        f"Timeline of job {short(verdict.workload.job_id, 60)}",
        _described(marks, gaps),
        _WIDTH,
        height,
    )
    draw_axis(picture, axis, height)
    y = top
    for number, row in enumerate(rows):
        _draw_band(
            picture, row, roles.get(row, ""), y=y, height=heights[row], is_odd=bool(number % 2)
        )
        y += heights[row]
    draw_cuts(picture, axis, height)
    draw_edges(picture, axis, verdict, height)
    job = verdict.workload
    edges = [axis.x(at) for each in (job.start, job.end) if (at := moment(each)) is not None]
    y = top
    for row in rows:
        base = y + 5
        if row == "":
            name_edges(picture, axis, verdict, base + _LANE / 2 + 4)
            base += _LANE
            if gaps or progress:
                _draw_job_row(picture, axis, gaps, progress=progress, y=base)
                base += _LANE
        for lane in lanes[row]:
            for mark in lane:
                _draw_mark(picture, axis, mark, edges=edges, y=base + _LANE / 2)
            base += _LANE
        y += heights[row]
    return picture.markup()


def _height(lanes: int, role: str) -> float:
    height = _LANE * max(1, lanes) + 10
    # The role stands below the name.
    return max(height, _LANE + 19) if role in _NAMED else height


def _in_row_order(marks: list[_Mark], verdict: Verdict) -> list[_Mark]:
    roles = {each.node: _ROLE_ORDER[each.role] for each in verdict.affected_nodes}
    more = {mark.row: mark.row.endswith(" more") for mark in marks}
    return sorted(marks, key=lambda m: (more[m.row], roles.get(m.row, 4), m.first, m.row))


def _lanes(marks: list[_Mark], axis: TimeAxis) -> list[list[_Mark]]:
    """Stack marks whose bars or labels would overlap; what does not fit is left to the list."""
    lanes: list[list[_Mark]] = []
    ends: list[list[tuple[float, float]]] = []
    for mark in sorted(marks, key=lambda m: (_DRAWN.index(m.role), m.first)):
        left, right = _extent(mark, axis)
        for lane, taken in zip(lanes, ends, strict=True):
            if all(right + 8 < a or left - 8 > b for a, b in taken):
                lane.append(mark)
                taken.append((left, right))
                break
        else:
            if len(lanes) < _MAX_LANES:
                lanes.append([mark])
                ends.append([(left, right)])
    return lanes


def _extent(mark: _Mark, axis: TimeAxis) -> tuple[float, float]:
    first, last = axis.x(mark.first), axis.x(mark.last)
    width = _label_px(mark)
    side = _label_side(mark, axis)
    if side == "left":
        return first - width, last + 7
    if side == "right":
        return first - 7, last + width
    return first - 7, max(last + 7, first + width)


def _label_px(mark: _Mark) -> float:
    letter = CHARACTER_PX * (1.12 if mark.role == "root" else 1.0)
    return len(mark.label) * letter + 14


def _label_side(mark: _Mark, axis: TimeAxis) -> str:
    """Right of the bar, else left of it, else on it."""
    width = _label_px(mark)
    if axis.x(mark.last) + width <= _WIDTH - 4:
        return "right"
    return "left" if axis.x(mark.first) - width > _GUTTER else "on"


def _draw_band(
    picture: Drawing, row: str, role: str, *, y: float, height: float, is_odd: bool
) -> None:
    cls = "band odd" if is_odd else "band"
    picture.add("rect", x=0.0, y=y, width=_WIDTH, height=height, cls=cls)
    picture.text(8, y + 20, row or "job", limit=19, cls=f"row {role}")
    if role in _NAMED:
        picture.text(8, y + 20 + 13, role, cls=f"rowrole {role}")


def _draw_job_row(
    picture: Drawing,
    axis: TimeAxis,
    gaps: list[tuple[datetime, datetime, str]],
    *,
    progress: datetime | None,
    y: float,
) -> None:
    middle = y + _LANE / 2
    for start, end, text in gaps:
        left, right = axis.x(start), axis.x(end)
        picture.add("rect", x=left, y=y + 2, width=max(2.0, right - left), height=_LANE - 4,
                    cls="gap", tip=f"{text}: {_stamp(start)} to {_stamp(end)}")  # fmt: skip
        if right - left > len(text) * CHARACTER_PX + 12:
            picture.text(
                (left + right) / 2, middle + 4, text, limit=60, cls="gaplabel", text_anchor="middle"
            )
        else:
            picture.text(right + 6, middle + 4, text, limit=60, cls="gaplabel")
    if progress is not None:
        x = axis.x(progress)
        picture.add("rect", x=x - 1.5, y=y + 2, width=3.0, height=_LANE - 4, cls="progress",
                    tip=f"last step seen {_stamp(progress)}")  # fmt: skip
        if not gaps:
            picture.text(x + 6, middle + 4, "last step seen", cls="gaplabel")


def _draw_mark(
    picture: Drawing, axis: TimeAxis, mark: _Mark, *, edges: list[float], y: float
) -> None:
    first, last = axis.x(mark.first), axis.x(mark.last)
    picture.open("g", cls=f"mark {mark.role}")
    earliest = axis.x(mark.earliest)
    if first - earliest > 8:
        picture.add("line", x1=earliest, x2=first - 6, y1=y, y2=y, cls="unsure")
    if last - first > 3:
        picture.add("rect", x=first, y=y - 2.5, width=last - first, height=5.0, rx=2.5, cls="span")
    picture.add("path", d=_shape(mark.role, first, y), tip=mark.tip)
    side = _label_side(mark, axis)
    if side == "left":
        lines = [x for x in edges if first - 14 < x < first]
        picture.text(
            min([first - 10, *(x - 5 for x in lines)]),
            y + 4,
            mark.label,
            limit=_LABEL + 6,
            text_anchor="end",
        )
    else:
        x = last if side == "right" else first
        picture.text(x + 10, y + 4, mark.label, limit=_LABEL + 6)
    picture.close("g")


def _shape(role: str, x: float, y: float) -> str:
    """A shape of its own for each role: told apart without colour."""
    if role == "root":
        return f"M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"
    if role == "contributing":
        return f"M{x:.1f} {y - 6:.1f}l6.5 11h-13z"
    if role == "teardown":
        return f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z"
    return f"M{x - 5:.1f} {y:.1f}a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"


def _described(marks: list[_Mark], gaps: list[tuple[datetime, datetime, str]]) -> str:
    told = []
    for mark in [m for m in marks if m.role == "root"][:3]:
        told.append(
            f"It began with {mark.title} on {mark.row or 'the job'} at {_stamp(mark.first)}."
        )
    rows = {mark.row for mark in marks if mark.role == "downstream" and mark.row}
    if rows:
        told.append(f"It spread to {counted(len(rows), 'node')}.")
    told += [f"{text}." for _, _, text in gaps[:2]]
    told.append("The table below lists every moment.")
    return " ".join(told)


def _stamp(time: datetime) -> str:
    return (
        time.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00").removesuffix(".000")
    )
