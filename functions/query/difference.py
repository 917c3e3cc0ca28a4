"""What one revision says that the one before did not."""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from engine.model.verdict import Verdict

_FIELDS: Final = (
    "summary", "terminal_state", "manifestation", "domain", "failure_class", "root_causes",
    "quality", "affected_nodes", "affected_ranks", "actions", "workload", "symptoms", "coverage",
    "connector_reports", "evidence", "timeline", "progress", "rules", "history",
)  # fmt: skip
_MAX_LINES: Final = 300
_CONTEXT: Final = 2


@dataclass(slots=True, frozen=True)
class Change:
    """One field that differs, as lines of `+`, `-` and ` `; `omitted` lines did not fit."""

    name: str
    lines: tuple[tuple[str, str], ...]
    omitted: int = 0


def compare(before: Verdict, after: Verdict) -> list[Change]:
    """Return the fields that differ, those that a reader acts on first."""
    changes = []
    for name in _FIELDS:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            lines = list(_lines(_told(before, name), _told(after, name)))
            omitted = max(0, len(lines) - _MAX_LINES)
            changes.append(Change(name, tuple(lines[:_MAX_LINES]), omitted))
    return changes


def _told(verdict: Verdict, name: str) -> list[str]:
    value: Any = verdict.model_dump(mode="json", include={name}, exclude_none=True).get(name)
    if isinstance(value, str):
        return value.splitlines()
    if isinstance(value, list):
        return [line for each in value for line in _item(each)]
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).splitlines()


def _item(value: Any) -> list[str]:
    """One line an entry where it fits, so that a list reads as a list."""
    line = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(line) <= 160:
        return [line]
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True).splitlines()


def _lines(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(difflib.unified_diff(old, new, n=_CONTEXT, lineterm="")):
        if number < 2:
            continue
        if line.startswith("@@"):
            if number > 2:
                yield ("…", "")
            continue
        yield (line[0], line[1:])
