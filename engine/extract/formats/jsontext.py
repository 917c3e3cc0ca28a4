"""JSON inside a text: whole documents, JSON lines, or a document between other output."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from engine.extract.formats.sheet import Line, Sheet

MAX_EXCERPT = 1500
MAX_FAILURES = 20
"""Each failed try may have read the rest of the text; hostile input must not be quadratic."""
SEARCH_LINES = 5_000
SEARCH_CHARS = 1_000_000
"""How far onwards a record's place is looked for: one pass over a document, not one a record."""
_SURROGATE = "\\ud"
_decoder = json.JSONDecoder()


@dataclass(slots=True)
class JsonValue:
    """One parsed value with the lines it stands on."""

    value: Any
    lines: Sequence[Line]
    indexes: range
    _from: int = 0
    _column: int = 0

    def span(self, key: str, value: Any) -> tuple[list[Line], str]:
        """Return the line (and an excerpt) where `"key": value` stands, searching onwards.

        Called in document order; a value that is not found within reach leaves the position
        alone.
        """
        text = json.dumps(value)
        form = re.compile(re.escape(json.dumps(key)) + r"\s{0,8}:\s{0,8}")
        column = self._column
        for at in range(self._from, min(self._from + SEARCH_LINES, len(self.lines))):
            line = self.lines[at].text
            for match in form.finditer(line, column, column + SEARCH_CHARS):
                end = match.end() + len(text)
                if line.startswith(text, match.end()) and not line[end : end + 1].isalnum():
                    self._from, self._column = at, match.start()
                    return [self.lines[at]], self._excerpt(at, match.start())
            column = 0
        return [self.lines[self._from]], self._excerpt(self._from, self._column)

    def _excerpt(self, at: int, column: int) -> str:
        line = self.lines[at].text
        if len(line) > MAX_EXCERPT:
            low = max(0, column - MAX_EXCERPT // 3)
            return line[low : low + MAX_EXCERPT]
        return line.strip().rstrip(",")


def read_json_values(sheet: Sheet) -> Iterator[JsonValue]:
    """Yield every JSON object or array that starts a free line; lines are not consumed yet."""
    index = failures = 0
    while index < len(sheet.lines) and failures < MAX_FAILURES:
        line = sheet.lines[index]
        start = line.text.lstrip()[:1]
        if index in sheet.consumed or start not in ("{", "["):
            index += 1
            continue
        found = _parse_at(sheet, index)
        if found is None:
            failures += _opens_document(sheet, index)
            index += 1
            continue
        yield found
        index = found.indexes.stop


def _parse_at(sheet: Sheet, index: int) -> JsonValue | None:
    line = sheet.lines[index]
    if len(line.text) > 2 and line.text.rstrip()[-1:] in ("}", "]"):
        value = _whole(line.text)
        if value is not None:
            return JsonValue(value, [line], range(index, index + 1))
    if not _opens_document(sheet, index):
        return None
    rest = "\n".join(each.text for each in sheet.lines[index:])
    try:
        value, end = _decoder.raw_decode(rest.lstrip())
        value = _storable(value, rest)
    except (ValueError, RecursionError):
        return None
    count = rest[: end + len(rest) - len(rest.lstrip())].count("\n") + 1
    if not isinstance(value, dict | list):
        return None
    return JsonValue(value, sheet.lines[index : index + count], range(index, index + count))


def _opens_document(sheet: Sheet, index: int) -> bool:
    """Whether a many-line document may start here."""
    text = sheet.lines[index].text.strip()
    if index == 0:
        return True
    return text in ("{", "[", "[{") and not sheet.lines[index].text[:1].isspace()


def _whole(text: str) -> Any | None:
    try:
        value = _storable(json.loads(text), text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _storable(value: Any, text: str) -> Any:
    """The value without halves of characters: JSON can name them, UTF-8 cannot."""
    if _SURROGATE not in text.lower():
        return value
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def as_dict(value: Any) -> dict[str, Any]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_items(value: Any) -> list[Any]:
    """Return `value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def number_of(value: Any) -> Any:
    """Unwrap Slurm's `{"set": true, "infinite": false, "number": 5}`; None where unset."""
    if isinstance(value, dict):
        return value.get("number") if value.get("set", True) else None
    return value
