"""Facts: records of structured sources as lines that signatures can match."""

import json
from dataclasses import dataclass
from typing import Any, Final

from engine.model.observation import Entity, Origin, When

_NEEDS_QUOTES: Final = frozenset(' "=\t\r\n\\')


@dataclass(slots=True, frozen=True)
class Fact:
    """One record: `text` is the fact line that is scanned, `excerpt` the text it was read from."""

    text: str
    origin: Origin
    excerpt: str
    when: When
    entity: Entity


def fact_line(family: str, **values: Any) -> str:
    """Return `family key=value ...` in the order given; None and empty values are left out.

    A value that holds a space, a quote, `=`, a backslash or a control character is JSON-quoted,
    so a fact line never holds a newline.
    """
    parts = [family]
    for key, value in values.items():
        text = "" if value is None else str(value)
        if text:
            parts.append(f"{key}={_quoted(text)}")
    return " ".join(parts)


def _quoted(text: str) -> str:
    if _NEEDS_QUOTES.isdisjoint(text) and text.isprintable():
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x85", " ")
