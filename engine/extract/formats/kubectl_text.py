"""What kubectl prints for people: `describe` and the tables of `get`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from engine.extract.formats.cluster import Cluster, Pending
from engine.extract.formats.kubectl_table import (
    AGE_COUNT,
    Row,
    aged,
    columns_of,
    cut_row,
    read_table,
)
from engine.extract.formats.kubernetes import add_condition, add_event
from engine.extract.formats.sheet import Line, Sheet
from engine.model.moment import to_us
from engine.model.observation import When

_NAME = re.compile(r"^Name: {1,40}(\S{1,253})\s*$")
_AFTER_OBJECT = re.compile(r"^(?:Name: {1,40}\S|NAME(?:SPACE)? {2,}|LAST SEEN {2,}|\$ |# |===|---)")
_FIELD = re.compile(r"^( *)([A-Za-z0-9][A-Za-z0-9 ./()-]{0,60}?):(?: +(.*))?$")
_DASH_ROW = re.compile(r"^ *-{2,}(?: +-{2,})*\s*$")
_DEFAULT_KIND: Final = "Pod"


@dataclass(slots=True)
class _Described:
    """One described object while its lines go by."""

    name: str
    kind: str = ""
    values: dict[str, tuple[str, Line]] = field(default_factory=dict)
    containers: list[tuple[str, list[tuple[int, str, str, Line]]]] = field(default_factory=list)
    conditions: list[dict[str, tuple[str, Line]]] = field(default_factory=list)


def read_kubectl_text(sheet: Sheet, cluster: Cluster) -> None:
    """Consume every table and every described object of the sheet."""
    index = 0
    while index < len(sheet.lines):
        if index in sheet.consumed:
            index += 1
            continue
        after = read_table(sheet, cluster, index)
        if after is not None:
            sheet.consume(*range(index, after))
        else:
            first = len(cluster.pending)
            after = _read_described(sheet, cluster, index)
            # Only what became facts: specifications and what we do not know stay text.
            for each in cluster.pending[first:]:
                sheet.consume(*(line.number - 1 for line in each.lines))
        index = max(after or 0, index + 1)


def _read_described(sheet: Sheet, cluster: Cluster, index: int) -> int | None:
    match = _NAME.match(sheet.lines[index].text)
    if not match:
        return None
    stop = index + 1
    while stop < len(sheet.lines) and not _AFTER_OBJECT.match(sheet.lines[stop].text):
        stop += 1
    described = _Described(match[1])
    at = index + 1
    section = ""
    while at < stop:
        line = sheet.lines[at]
        parsed = _FIELD.match(line.text)
        if parsed and not parsed[1]:
            section = parsed[2]
            if parsed[3]:
                described.values.setdefault(section, (parsed[3].strip(), line))
        if section in ("Events", "Conditions") and at + 1 < stop:
            after = _described_table(cluster, described, section=section, at=at, stop=stop)
            if after is not None:
                at = after
                continue
        if parsed and parsed[1]:
            _nested(described, section, parsed, line=line)
        at += 1
    _finish_described(cluster, described, sheet.lines[index])
    return stop


def _nested(described: _Described, section: str, parsed: re.Match[str], *, line: Line) -> None:
    indent, key, value = len(parsed[1]), parsed[2], (parsed[3] or "").strip()
    if section in ("Containers", "Init Containers"):
        if indent <= 2:
            described.containers.append((key, []))
        elif described.containers:
            described.containers[-1][1].append((indent, key, value, line))
    elif section == "Status" and key in (
        "Last Transition Time", "Message", "Reason", "Status", "Type", "Last Update Time",
        "Last Probe Time", "Observed Generation",
    ):  # fmt: skip
        # A custom resource prints its conditions one key a line, each in the same order.
        if not described.conditions or key in described.conditions[-1]:
            described.conditions.append({})
        described.conditions[-1][key] = (value, line)
    elif section == "Metadata" or key == "Kind":
        described.values.setdefault(key, (value, line))


def _described_table(
    cluster: Cluster, described: _Described, *, section: str, at: int, stop: int
) -> int | None:
    """Read a table whose header is followed by a row of dashes; return the index after it."""
    sheet = cluster.sheet
    head = at if _DASH_ROW.match(sheet.lines[at + 1].text) else at + 1
    if head + 1 >= stop or not _DASH_ROW.match(sheet.lines[head + 1].text):
        return None
    columns = columns_of(sheet.lines[head].text)
    after = head + 2
    while after < stop and sheet.lines[after].text[:1] == " ":
        row = Row(cut_row(sheet.lines[after].text, columns), sheet.lines[after])
        if section == "Events":
            _described_event(cluster, described, row)
        else:
            _described_condition(cluster, described, row)
        after += 1
    return after


def _described_event(cluster: Cluster, described: _Described, row: Row) -> None:
    age = row.cells.get("Age", "")
    match = AGE_COUNT.match(age)
    node = row.cells.get("From", "").partition(", ")[2]
    add_event(
        cluster,
        kind=_kind_of(described),
        name=described.name,
        values={
            "type": row.cells.get("Type"),
            "reason": row.cells.get("Reason"),
            "count": match[2] if match else None,
            "message": row.cells.get("Message"),
        },
        node=node,
        when=aged(cluster.sheet, age),
        lines=[row.line],
    )


def _described_condition(cluster: Cluster, described: _Described, row: Row) -> None:
    kind = _kind_of(described)
    add_condition(
        cluster,
        kind=kind,
        name=described.name,
        condition={
            "type": row.cells.get("Type"),
            "status": row.cells.get("Status"),
            "reason": row.cells.get("Reason"),
            "message": row.cells.get("Message"),
        },
        when=_written(row.cells.get("LastTransitionTime", "")),
        lines=[row.line],
        node=described.name if kind == "Node" else "",
    )


def _kind_of(described: _Described) -> str:
    """Tell the kind: printed for custom resources, shown by its fields for built-in ones."""
    if "Kind" in described.values:
        return described.values["Kind"][0]
    if "Roles" in described.values or "Taints" in described.values:
        return "Node"
    if "Parallelism" in described.values or "Completions" in described.values:
        return "Job"
    return _DEFAULT_KIND


def _written(text: str) -> When:
    """Return the moment of `Mon, 06 Mar 2023 10:00:00 +0000`, or of RFC 3339 text."""
    text = text.strip()
    for form in ("%a, %d %b %Y %H:%M:%S %z", "%Y-%m-%dT%H:%M:%S%z"):
        try:
            us = to_us(datetime.strptime(text, form).astimezone(UTC))
        except (ValueError, OverflowError):
            continue
        return When(us, us, "record", "scheduler")
    return When()


def _finish_described(cluster: Cluster, described: _Described, name_line: Line) -> None:
    kind = _kind_of(described)
    node = described.values.get("Node", ("", name_line))[0].split("/")[0].replace("<none>", "")
    for each in described.conditions:
        values = {key.lower(): value for key, (value, _) in each.items()}
        if "type" not in values:
            continue
        lines = sorted((line for _, line in each.values()), key=lambda line: line.number)
        add_condition(
            cluster,
            kind=kind,
            name=described.name,
            condition=values,
            when=_written(values.get("last transition time", "")),
            lines=lines,
            node=described.name if kind == "Node" else "",
        )
    if kind == "Job":
        return
    if kind == "Pod" and "Status" in described.values:
        _finish_pod(cluster, described, node, name_line)


def _finish_pod(cluster: Cluster, described: _Described, node: str, name_line: Line) -> None:
    def value(key: str) -> str:
        return described.values.get(key, ("", name_line))[0]

    name = described.name
    names = tuple(word for word in (value("Controlled By"), value("Labels")) if word)
    cluster.pending.append(
        Pending(
            "k8s.pod",
            {
                "name": name,
                "phase": value("Status"),
                "reason": value("Reason"),
                "node": node,
                "message": value("Message"),
            },
            [described.values["Status"][1]], When(), None, name, "pod", node, name, names,
        )
    )  # fmt: skip
    for container, rows in described.containers:
        restarts = next((text for _, key, text, _ in rows if key == "Restart Count"), "")
        for heading, is_last in (("Last State", True), ("State", False)):
            _described_state(
                cluster, rows, heading,
                base={
                    "pod": name, "container": container, "restarts": restarts, "node": node,
                    "last": "true" if is_last else None,
                },
                names=names,
            )  # fmt: skip


def _described_state(
    cluster: Cluster,
    rows: Sequence[tuple[int, str, str, Line]],
    heading: str,
    *,
    base: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    at = next((index for index, row in enumerate(rows) if row[1] == heading), None)
    if at is None:
        return
    indent = rows[at][0]
    block = [rows[at]]
    for row in rows[at + 1 :]:
        if row[0] <= indent:
            break
        block.append(row)
    inner = {key: text for _, key, text, _ in block[1:]}
    pod, node = str(base["pod"]), str(base["node"])
    cluster.pending.append(
        Pending(
            "k8s.container",
            {
                **base,
                "state": block[0][2].lower(),
                "reason": inner.get("Reason"),
                "exit": inner.get("Exit Code"),
                "signal": inner.get("Signal"),
                "message": inner.get("Message"),
            },
            [line for _, _, _, line in block],
            _written(inner.get("Finished") or inner.get("Started") or ""),
            None, pod, "pod", node, pod, names,
        )
    )  # fmt: skip
