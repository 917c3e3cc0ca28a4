"""Whole blocks round a hit: tracebacks, torchelastic tables, OOM reports, oopses, loose lines.

Assembled on one identity, so ranks that write into the same file do not mix.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.extract.demux import Identity
from engine.extract.elastic import Failure, read_failures
from engine.extract.segment import Line
from engine.extract.traceback import find_header, read_traceback
from engine.extract.window import Window

MAX_TEXT_LINES: Final = 64
MAX_LINE_CHARS: Final = 2000
_HEAD_LINES: Final = 24  # of a longer block, what is kept from its start; the rest from its end
_MULTILINE: Final = 40
_OOM_LINES: Final = 4000
_OOPS_LINES: Final = 120
_TABLE_BYTES: Final = 1 << 19

_OOM_START: Final = re.compile(r"invoked oom-killer")
_OOM_END: Final = re.compile(r"Killed process (\d+) \(([^)\n]{0,64})\)")
_OOM_RECORD: Final = re.compile(
    r"oom-kill:constraint=(\w+)[^\n]{0,2000}?,task=([^,\n]{0,64}),pid=(\d+)"
)
_OOPS_START: Final = re.compile(r"BUG: |Oops|Kernel panic|Call Trace|general protection fault")
_OOPS_END: Final = re.compile(r"end trace|---\[ end|end Kernel panic")
_RULE: Final = re.compile(r"^\s{0,8}[=*]{10,}\s{0,8}$")


@dataclass(slots=True)
class Block:
    """The lines of a block, what they add to the fields, and the lines it may be claimed by."""

    lines: list[Line]
    fields: dict[str, str] = field(default_factory=dict)
    claimable: list[Line] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    flags: tuple[str, ...] = ()
    ends_in_report: bool = False
    is_ignored: bool = False

    @property
    def key(self) -> tuple[int, int]:
        """What tells this block from others of the stream."""
        return self.lines[0].key

    @property
    def place(self) -> tuple[int, int, int]:
        """(first line number, byte offset, byte length to the end of the last line)."""
        number, offset, length = self.lines[0].place
        _, last_offset, last_length = self.lines[-1].place
        return number, offset, max(length, last_offset + last_length - offset)

    @property
    def text(self) -> str:
        """The lines, each capped; of a long block its head and its tail."""
        return joined([line.text for line in self.lines])


def joined(texts: list[str]) -> str:
    """Lines to one excerpt within the caps."""
    if len(texts) > MAX_TEXT_LINES:
        tail = MAX_TEXT_LINES - _HEAD_LINES - 1
        left_out = len(texts) - _HEAD_LINES - tail
        texts = [*texts[:_HEAD_LINES], f"... {left_out} lines ...", *texts[-tail:]]
    return "\n".join(text[:MAX_LINE_CHARS] for text in texts)


def assemble(kind: str, window: Window, line: Line) -> Block | None:
    """The block of `kind` that `line` belongs to; None where it stands in none."""
    if kind == "python_traceback":
        return _traceback(window, line)
    if kind == "elastic_report":
        return _elastic(window, line)
    if kind == "oom_report":
        return _oom(window, line)
    if kind == "kernel_oops":
        return _oops(window, line)
    return _multiline(window, line)


def _traceback(window: Window, line: Line) -> Block | None:
    header = find_header(window, line)
    if header is None:
        return None
    found = read_traceback(window, header)
    covered = [*found.lines, *found.tail]
    if all(place.key != line.key for place in covered):
        return None
    fields = found.fields()
    return Block(
        lines=found.lines,
        fields=fields,
        is_ignored=_is_ignored(window, header),
        claimable=covered,
        flags=tuple(
            flag
            for flag, holds in (
                ("interleaved", found.interleaved), ("truncated", not found.raised)
            )
            if holds
        ),
        ends_in_report=any(item.name.endswith("ChildFailedError") for item in found.raised),
    )  # fmt: skip


def _is_ignored(window: Window, header: Line) -> bool:
    """Whether Python printed the traceback of an exception that it then dropped."""
    above = next(iter(window.backward(header, window.identity(header), lines=1)), None)
    return above is not None and "Exception ignored " in above[1]


def _elastic(window: Window, line: Line) -> Block | None:
    whose = window.identity(line)
    before = _table_head(window, line, whose)
    after: list[tuple[Line, str]] = []
    rules_left = 1
    for place, body in window.forward(line, whose, lines=40_000, look_bytes=_TABLE_BYTES):
        text = body.strip()
        after.append((place, body))
        if _RULE.match(text):
            if text[0] == "*" or before.new_form:
                break
            rules_left -= 1
            if rules_left < -1:
                break
        elif len(after) > 60 and not before.rows and "rank" not in body and ":" not in body:
            break
    rows = [*before.rows, (line, line.text[window.identity(line).body :]), *after]
    failures = read_failures(rows)
    if not failures:
        return None
    return Block(lines=[place for place, _ in rows], failures=failures)


@dataclass(slots=True)
class _TableHead:
    rows: list[tuple[Line, str]]
    new_form: bool


def _table_head(window: Window, line: Line, whose: Identity) -> _TableHead:
    """The table's rows above the hit, from its opening rule on."""
    rows: list[tuple[Line, str]] = []
    new_form = "first observed failure" in line.text or line.text.strip().endswith("Failures:")
    for place, body in window.backward(line, whose, lines=40_000, look_bytes=_TABLE_BYTES):
        text = body.strip()
        rows.append((place, body))
        if _RULE.match(text) and (text[0] == "*" or new_form):
            break
        if "Traceback (most recent call last)" in body or "ChildFailedError" in body:
            rows.pop()
            break
    return _TableHead(rows[::-1], new_form)


def _oom(window: Window, line: Line) -> Block | None:
    identity = window.identity(line)
    lines = [line]
    if not _OOM_START.search(line.text):
        above: list[Line] = []
        for place, body in window.backward(line, identity, lines=_OOM_LINES):
            above.append(place)
            if _OOM_START.search(body):
                lines = [*above[::-1], line]
                break
            if _OOM_END.search(body):
                break
    behind = _until(window, line, identity)
    lines += list(behind)
    text = "\n".join(item.text for item in lines if "oom-kill:" in item.text
                     or "Killed process" in item.text)  # fmt: skip
    fields: dict[str, str] = {}
    if record := _OOM_RECORD.search(text):
        fields.update(constraint=record[1], process=record[2], pid=record[3])
    if killed := _OOM_END.search(text):
        fields.update(pid=killed[1], process=killed[2])
    return Block(lines=lines, fields=fields)


def _until(window: Window, line: Line, whose: Identity) -> Iterator[Line]:
    """The lines of the report behind `line`: to the record of the kill and the kill itself."""
    ended = bool(_OOM_END.search(line.text))
    left = 3
    held: list[Line] = []
    for place, body in window.forward(line, whose, lines=_OOM_LINES, look_bytes=1 << 18):
        if ended:
            return
        if _OOM_START.search(body):
            return
        held.append(place)
        ended = bool(_OOM_END.search(body))
        if ended or "oom-kill:" in body:
            yield from held
            held = []
            left = 3
        elif not held:
            left -= 1
        if left < 0:
            return


def _oops(window: Window, line: Line) -> Block:
    whose = window.identity(line)
    lines = [line]
    for place, body in window.forward(line, whose, lines=_OOPS_LINES):
        lines.append(place)
        if _OOPS_END.search(body):
            return Block(lines=lines)
    # without an end mark only the first lines are surely of the report
    return Block(lines=lines[:_MULTILINE], flags=("truncated",))


def _multiline(window: Window, line: Line) -> Block:
    whose = window.identity(line)
    lines = [line]
    for place, body in window.forward(line, whose, lines=_MULTILINE):
        if window.stamps.read(place.text, len(place.text) - len(body)) is not None:
            break
        lines.append(place)
    while len(lines) > 1 and not lines[-1].text.strip():
        lines.pop()
    return Block(lines=lines)
