"""Filter patterns of CloudWatch Logs from texts. Pure.

A pattern holds one regular expression between percent signs, at most 1,024 characters in all; it
knows letters, digits, `:_#=@/;,-`, `\\s`, alternation and classes, and no flags (AWS, "Filter
pattern syntax"). What it has no sign for becomes a dot, which keeps more and loses nothing.
"""

from collections.abc import Sequence
from typing import Final

PATTERN_CHARS: Final = 1_000
_PLAIN: Final = frozenset(":_#=@/;,-")
_META: Final = frozenset("^$?[]{}|\\*+.()")


def filter_patterns(texts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return patterns that together keep every line with a text.

    Each text comes with whether its case is ignored.
    """
    forms = sorted({expression(text, ignore_case=ignores) for text, ignores in texts})
    patterns: list[str] = []
    group: list[str] = []
    for form in forms:
        if group and sum(map(len, group)) + len(group) + len(form) > PATTERN_CHARS:
            patterns.append(f"%{'|'.join(group)}%")
            group = []
        group.append(form)
    if group:
        patterns.append(f"%{'|'.join(group)}%")
    return patterns


def expression(text: str, *, ignore_case: bool) -> str:
    """Return a text as an expression that matches wherever it stands."""
    return "".join(_sign(char, ignore_case=ignore_case) for char in text)


def _sign(char: str, *, ignore_case: bool) -> str:
    if char.isascii() and char.isalpha():
        return f"[{char.lower()}{char.upper()}]" if ignore_case else char
    if char.isascii() and (char.isdigit() or char in _PLAIN):
        return char
    if char in " \t":
        return r"\s"
    return f"\\{char}" if char in _META else "."
