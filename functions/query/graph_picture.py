"""The causal graph as a picture: what began it on the left, what ended the job on the right."""

from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from engine.model.verdict import Symptom, Verdict
from functions.query.drawing import Drawing
from functions.query.plain import short
from functions.query.symptom_names import symptom_titles

_BOX_W: Final = 240.0
_BOX_H: Final = 58.0
_GAP_X: Final = 46.0
_GAP_Y: Final = 14.0
_MARGIN: Final = 4.0
_MAX_BOXES: Final = 24
_DRAWN: Final = ("root", "contributing", "downstream", "teardown")


@dataclass(slots=True)
class _Box:
    symptom: str
    role: str
    parents: set[int] = field(default_factory=set)
    count: int = 0
    entities: int = 0
    places: dict[str, None] = field(default_factory=dict)
    column: int = 0
    row: float = 0.0


def graph_picture(verdict: Verdict) -> Markup | None:
    """Draw the graph, equal symptoms in one box; None where nothing was linked to a cause."""
    boxes, left_out = _boxes(verdict)
    if not any(box.role == "root" for box in boxes):
        return None
    _without_shortcuts(boxes)
    _place(boxes)
    columns = max(box.column for box in boxes) + 1
    rows = max(sum(1 for b in boxes if b.column == c) for c in range(columns))
    width = 2 * _MARGIN + columns * _BOX_W + (columns - 1) * _GAP_X
    height = 2 * _MARGIN + rows * _BOX_H + (rows - 1) * _GAP_Y + (20 if left_out else 0)
    titles = symptom_titles(verdict)
    picture = Drawing(
        "graph", "Causal graph", _described(boxes, titles), max(width, _BOX_W), height
    )
    for box in boxes:
        for parent in sorted(box.parents):
            _draw_edge(picture, boxes[parent], box)
    for box in boxes:
        _draw_box(picture, box, titles[box.symptom])
    if left_out:
        picture.text(_MARGIN, height - 6, f"and {left_out} more kinds of symptom", cls="sub")
    return picture.markup()


def _boxes(verdict: Verdict) -> tuple[list[_Box], int]:
    """Group symptoms of one kind and role, and link the groups as their members are linked."""
    drawn = [each for each in verdict.symptoms if each.role in _DRAWN]
    order = sorted(drawn, key=lambda s: (_DRAWN.index(s.role), s.first_seen or "~", s.symptom))
    kinds = list(dict.fromkeys((each.symptom, each.role) for each in order))
    linked = {(s.symptom, s.role) for s in drawn if s.caused_by or s.role != "teardown"}
    kinds = [kind for kind in kinds if kind in linked]
    number = {kind: index for index, kind in enumerate(kinds[:_MAX_BOXES])}
    boxes = [_Box(symptom, role) for symptom, role in kinds[:_MAX_BOXES]]
    group_of = {each.episode_id: number.get((each.symptom, each.role)) for each in drawn}
    for symptom in drawn:
        own = group_of[symptom.episode_id]
        if own is None:
            continue
        box = boxes[own]
        box.count += symptom.count
        box.entities += 1
        box.places.setdefault(_place_name(symptom))
        for parent in symptom.caused_by:
            above = group_of.get(parent)
            if above is not None and above != own:
                box.parents.add(above)
    return boxes, max(0, len(kinds) - _MAX_BOXES)


def _without_shortcuts(boxes: list[_Box]) -> None:
    """Drop links that only repeat a longer way between the same two: the picture gets legible."""
    above: list[set[int]] = []
    for box in boxes:
        seen: set[int] = set()
        waiting = list(box.parents)
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += boxes[each].parents
        above.append(seen)
    for number, box in enumerate(boxes):
        if number in above[number]:
            continue  # in a circle every link repeats another
        box.parents = {
            parent for parent in box.parents
            if not any(parent in above[other] for other in box.parents if other != parent)
        }  # fmt: skip


def _place_name(symptom: Symptom) -> str:
    entity = symptom.entity
    if entity.kind == "rank":
        return f"rank {entity.id}"
    if entity.kind == "job":
        return "the job"
    return entity.node or entity.id


def _place(boxes: list[_Box]) -> None:
    """Columns by the longest way from a root, without going round in circles; rows by parents."""
    for _ in boxes:
        for box in boxes:
            above = [boxes[p].column + 1 for p in box.parents if boxes[p].column < len(boxes)]
            if box.role != "root" and above:
                box.column = min(max(above), len(boxes))
    _close_columns(boxes)
    used: dict[int, int] = {}
    for box in sorted(boxes, key=lambda b: b.column):
        box.row = used.get(box.column, 0)
        used[box.column] = used.get(box.column, 0) + 1


def _close_columns(boxes: list[_Box]) -> None:
    """Leave no column empty; a circle among downstream symptoms would push some far right."""
    number = {column: i for i, column in enumerate(sorted({box.column for box in boxes}))}
    for box in boxes:
        box.column = min(number[box.column], 5)


def _corner(box: _Box) -> tuple[float, float]:
    return (
        _MARGIN + box.column * (_BOX_W + _GAP_X),
        _MARGIN + box.row * (_BOX_H + _GAP_Y),
    )


def _draw_edge(picture: Drawing, parent: _Box, child: _Box) -> None:
    x1, y1 = _corner(parent)
    x2, y2 = _corner(child)
    x1, y1, y2 = x1 + _BOX_W, y1 + _BOX_H / 2, y2 + _BOX_H / 2
    if child.column <= parent.column:
        return
    bend = max(20.0, (x2 - x1) / 2)
    curve = f"C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2 - 7:.1f} {y2:.1f}"
    picture.add("path", d=f"M{x1:.1f} {y1:.1f}{curve}", cls="link")
    picture.add("path", d=f"M{x2 - 8:.1f} {y2 - 4:.1f}l8 4l-8 4z", cls="arrow")


def _draw_box(picture: Drawing, box: _Box, title: str) -> None:
    x, y = _corner(box)
    picture.open("g", cls=f"box {box.role}")
    picture.add("rect", x=x, y=y, width=_BOX_W, height=_BOX_H, rx=5, tip=f"{title} ({box.symptom})")
    first, second = _two_lines(title, 29)
    picture.text(x + 10, y + 17, first, limit=30, cls="name")
    if second:
        picture.text(x + 10, y + 31, second, limit=29, cls="name")
    picture.text(x + 10, y + _BOX_H - 9, f"{box.role} · {_where(box)}", limit=34, cls="sub")
    picture.close("g")


def _two_lines(title: str, limit: int) -> tuple[str, str]:
    line = short(title, 2 * limit)
    if len(line) <= limit:
        return line, ""
    cut = line.rfind(" ", 0, limit + 1)
    cut = cut if cut > limit // 2 else limit
    return line[:cut], line[cut:].strip()


def _where(box: _Box) -> str:
    places = list(box.places)
    if len(places) == 1:
        times = f" ×{box.count}" if box.count > 1 else ""
        return places[0] + times
    return f"{box.entities} places" if len(places) > 2 else ", ".join(places)


def _described(boxes: list[_Box], titles: dict[str, str]) -> str:
    told = []
    for box in boxes:
        causes = ", ".join(titles[boxes[p].symptom] for p in sorted(box.parents))
        follows = f" follows from {causes}" if causes else f" is {box.role}"
        told.append(f"{titles[box.symptom]} ({_where(box)}){follows}.")
    return " ".join(told[:12])
