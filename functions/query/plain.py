"""What people may see of text that nobody vouches for, and times and sizes in words.

Log lines are hostile: they may hold terminal controls, bidirectional overrides that reorder a
page, invisible characters, stacks of combining marks, or a megabyte without a space. All of it
is made visible or cut here; markup is escaped by the templates.
"""

import unicodedata
from datetime import datetime, timedelta
from typing import Final

from engine.model.moment import parse_rfc3339

MAX_LINE: Final = 1_200
MAX_TEXT: Final = 12_000
_MAX_MARKS: Final = 2
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS: Final = frozenset({"Mn", "Me"})
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Return text that cannot move, hide or reorder what stands round it.

    Newlines stay, tabs become spaces, other invisible characters become `\\u202e` and the like.
    """
    cut = text[:limit]
    left = len(text) - len(cut)
    shown = cut if cut.isascii() and cut.isprintable() else _visible(cut)
    if len(shown) > MAX_LINE:
        shown = "\n".join(_shortened(line) for line in shown.split("\n"))
    return f"{shown} … {left:,} more characters" if left else shown


def short(text: str, limit: int) -> str:
    """Return one line of at most `limit` characters."""
    line = " ".join(clean(text, limit * 4).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def words(name: str) -> str:
    """Return a code as words: `out_of_memory` is `out of memory`."""
    return name.replace("_", " ")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, whose plural takes an s: `1 node`, `7 nodes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def clock(text: str | None) -> str:
    """Return an RFC 3339 time as `2026-01-31 12:00:03`, fractions cut to milliseconds."""
    if not text:
        return "–"
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return whole.replace("T", " ") + (f".{fraction[:3]}" if fraction.strip("0") else "")


def moment(text: str | None) -> datetime | None:
    """Return an RFC 3339 time, or None where there is none or it is none."""
    if not text:
        return None
    try:
        return parse_rfc3339(text)
    except ValueError:
        return None


def duration(span: timedelta) -> str:
    """Return a duration in its two largest units: `2 d 3 h`, `4 min 10 s`, `0.250 s`."""
    seconds = span.total_seconds()
    if seconds < 0:
        return "–"
    if seconds < 1:
        return f"{seconds:.3f} s" if seconds else "0 s"
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    left = int(seconds)
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def between(start: str | None, end: str | None) -> str:
    """Return the time between two RFC 3339 times in words, or nothing."""
    first, last = moment(start), moment(end)
    return "" if first is None or last is None else duration(last - first)


def size(count: int) -> str:
    """Return bytes in words: `1.5 MiB`."""
    value = float(count)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        value /= 1024
    raise AssertionError("the last unit takes everything")


def _visible(text: str) -> str:
    shown = []
    marks = 0
    for char in text:
        category = unicodedata.category(char)
        if category in _MARKS:
            marks += 1
            if marks > _MAX_MARKS:
                continue
        else:
            marks = 0
        if char in "\n\t":
            shown.append("\n" if char == "\n" else "    ")
        elif category in _HIDDEN:
            shown.append(f"\\u{ord(char):04x}" if ord(char) > 0xFF else f"\\x{ord(char):02x}")
        else:
            shown.append(char)
    return "".join(shown)


def _shortened(line: str) -> str:
    if len(line) <= MAX_LINE:
        return line
    return f"{line[:MAX_LINE]} … {len(line) - MAX_LINE:,} more characters in this line"
