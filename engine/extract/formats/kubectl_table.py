"""Tables that kubectl prints for people, cut at their header's columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from engine.extract.formats.cluster import Cluster, Pending
from engine.extract.formats.kubernetes import add_condition, add_event
from engine.extract.formats.sheet import Line, Sheet, age_us
from engine.model.observation import When

AGE_COUNT = re.compile(r"^(\S{1,24})(?: \(x(\d{1,9}) over (\S{1,24})\))?$")
_TABLE_WORDS: Final = {
    "pods": ("READY", "STATUS", "RESTARTS"),
    "events": ("TYPE", "REASON", "OBJECT"),
    "nodes": ("STATUS", "ROLES", "AGE"),
}
_PHASES: Final = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_KINDS: Final = {
    "po": "Pod", "pod": "Pod", "pods": "Pod", "no": "Node", "node": "Node", "nodes": "Node",
    "job": "Job", "jobs": "Job", "workload": "Workload", "pytorchjob": "PyTorchJob",
    "jobset": "JobSet", "rayjob": "RayJob", "replicaset": "ReplicaSet",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """One cell row of a table with the line it came from."""

    cells: dict[str, str]
    line: Line


def columns_of(text: str) -> list[tuple[str, int]]:
    """Return (name, start) of header words; kubectl parts columns by two spaces or more."""
    return [(match[0], match.start()) for match in re.finditer(r"\S+(?: \S+)*", text)]


def cut_row(text: str, columns: Sequence[tuple[str, int]]) -> dict[str, str]:
    """Cut a row at the header's columns, or at runs of spaces where the row does not line up."""
    starts = [start for _, start in columns] + [len(text) + 1]
    lines_up = all(
        start == 0 or start >= len(text) or (text[start - 1] == " " and text[start] != " ")
        for start in starts[:-1]
    )
    names = [name for name, _ in columns]
    if lines_up:
        return {
            name: text[starts[at] : starts[at + 1] if at + 1 < len(names) else None].strip()
            for at, name in enumerate(names)
        }
    cells = re.split(r"\s{2,}", text.strip(), maxsplit=len(names) - 1)
    if len(cells) == len(names):
        return dict(zip(names, cells, strict=True))
    words = text.split(None, len(names) - 1)
    return dict(zip(names, words, strict=False))


def read_table(sheet: Sheet, cluster: Cluster, index: int) -> int | None:
    """Read the table whose header is at `index`; return the index after it, None if none is."""
    words = sheet.lines[index].text.split()
    joined = set(words)
    kind = next((name for name, need in _TABLE_WORDS.items() if joined.issuperset(need)), None)
    if kind is None or words[0] not in ("NAME", "NAMESPACE", "LAST"):
        return None
    columns = columns_of(sheet.lines[index].text)
    after = index + 1
    for line in sheet.lines[index + 1 :]:
        if not line.text.strip() or line.text.startswith(("$", "#", "Name:")):
            break
        row = Row(cut_row(line.text, columns), line)
        if not (row.cells.get("NAME") or row.cells.get("OBJECT")):
            break
        {"pods": _pod_row, "events": _event_row, "nodes": _node_row}[kind](cluster, row)
        after += 1
    return after


def _pod_row(cluster: Cluster, row: Row) -> None:
    name, status = row.cells.get("NAME", ""), row.cells.get("STATUS", "")
    node = row.cells.get("NODE", "").replace("<none>", "")
    is_phase = status in _PHASES
    restarts = row.cells.get("RESTARTS", "").split(" ")[0]
    captured = cluster.sheet.label.captured_at_us
    when = When() if captured is None else When(None, captured, "relative", "scheduler")
    cluster.pending.append(
        Pending(
            "k8s.pod",
            {
                "name": name,
                "phase": status if is_phase else None,
                "reason": None if is_phase else status,
                "node": node,
                "message": f"restarts {restarts}" if restarts not in ("", "0") else None,
            },
            [row.line], when, None, name, "pod", node, name,
        )
    )  # fmt: skip


def _node_row(cluster: Cluster, row: Row) -> None:
    name = row.cells.get("NAME", "")
    states = row.cells.get("STATUS", "").split(",")
    ready = {"Ready": "True", "NotReady": "False"}.get(states[0], "Unknown")
    cordoned = "SchedulingDisabled" if "SchedulingDisabled" in states else ""
    add_condition(
        cluster,
        kind="Node",
        name=name,
        condition={"type": "Ready", "status": ready, "reason": cordoned},
        when=When(),
        lines=[row.line],
        node=name,
    )


def _event_row(cluster: Cluster, row: Row) -> None:
    kind, _, name = row.cells.get("OBJECT", "").partition("/")
    last = AGE_COUNT.match(row.cells.get("LAST SEEN", ""))
    add_event(
        cluster,
        kind=_KINDS.get(kind.lower(), kind),
        name=name,
        values={
            "type": row.cells.get("TYPE"),
            "reason": row.cells.get("REASON"),
            "count": (last and last[2]) or row.cells.get("COUNT"),
            "message": row.cells.get("MESSAGE"),
        },
        node=row.cells.get("SOURCE", "").partition(", ")[2],
        when=aged(cluster.sheet, row.cells.get("LAST SEEN", "")),
        lines=[row.line],
    )


def aged(sheet: Sheet, text: str) -> When:
    """Return the interval of `3m5s` or `3m5s (x5 over 4m)` before the capture."""
    match = AGE_COUNT.match(text.strip())
    last = age_us(match[1]) if match else None
    if match is None or last is None:
        return sheet.at(text.strip())
    first = age_us(match[3]) if match[3] else None
    when = sheet.before_capture(last[0], slack_us=last[1])
    if first is None or when.latest_us is None:
        return when
    earliest = sheet.before_capture(first[0], slack_us=first[1])
    return When(earliest.earliest_us, when.latest_us, "relative", "scheduler")
