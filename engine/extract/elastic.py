"""The torchelastic failure table, both forms: rules of `=` (torch 1.11 on) and a box of `*`."""

import re
from dataclasses import dataclass
from typing import Final

from engine.extract.segment import Line

_ENTRY: Final = re.compile(r"^\s{0,8}\[(\d{1,7})\]:\s{0,8}$")
_PAIR: Final = re.compile(r"^\s{1,8}(\w{1,20})\s{0,12}:\s?(.{0,4000})$")
_RANK: Final = re.compile(r"(\d{1,7})(?: \(local_rank: (\d{1,7})\))?")
_EXIT: Final = re.compile(r"(-?\d{1,5})(?: \(pid: (\d{1,9})\))?")
_NO_TEXT: Final = ("To enable traceback see", "<N/A>")
_SIGNAL_TEXT: Final = re.compile(r"Signal (\d{1,2}) \(")


@dataclass(slots=True)
class Failure:
    """One row of the table: one failed rank."""

    lines: list[Line]
    fields: dict[str, str]
    time: str = ""


def read_failures(rows: list[tuple[Line, str]]) -> list[Failure]:
    """Read the entries; `first` is `true` for the one that torchelastic observed first."""
    found: list[Failure] = []
    first = False
    open_entry: Failure | None = None
    for line, body in rows:
        text = body.strip()
        if text.startswith("Root Cause"):
            first, open_entry = True, None
        elif text in ("Failures:", "Other Failures:"):
            first, open_entry = False, None
        elif _ENTRY.match(body):
            open_entry = Failure([line], {"first": "true" if first else "false"})
            found.append(open_entry)
        elif open_entry is not None and (match := _PAIR.match(body)):
            open_entry.lines.append(line)
            _read_pair(open_entry, match[1], match[2].strip())
        elif open_entry is not None and text and set(text) <= {"=", "*", "-"}:
            open_entry = None
    return [failure for failure in found if "rank" in failure.fields]


def _read_pair(failure: Failure, key: str, value: str) -> None:
    fields = failure.fields
    if key == "time":
        failure.time = value
    elif key == "host":
        fields["host"] = value
    elif key == "rank" and (match := _RANK.match(value)):
        fields["rank"] = match[1]
        if match[2]:
            fields["local_rank"] = match[2]
    elif key == "exitcode" and (match := _EXIT.match(value)):
        fields["exit_code"] = match[1]
        if match[1].startswith("-"):
            fields["signal"] = match[1][1:]
        if match[2]:
            fields["pid"] = match[2]
    elif key in ("traceback", "msg", "error_msg") and not value.startswith(_NO_TEXT):
        fields["error"] = value.strip('"')
        if (match := _SIGNAL_TEXT.search(value)) and "signal" not in fields:
            fields["signal"] = match[1]
