"""Slurm host lists: `node-[017-023,037]` to names and back."""

import re
from typing import Final

_BRACKETS: Final = re.compile(r"^([^\[\]]{0,256})\[([0-9,\-]{1,65536})\]([^\[\]]{0,256})$")
_RANGE: Final = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?", re.ASCII)
_NUMBERED: Final = re.compile(r"^(.*?)(\d{1,9})$")
MAX_HOSTS: Final = 200_000


def split_hostlist(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, current = [], 0, ""
    for char in text:
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
            continue
        depth += (char == "[") - (char == "]")
        current += char
    return [part.strip() for part in [*parts, current] if part.strip()]


def expand_hostlist(text: str) -> list[str]:
    """Return the names of a host list in its order, at most `MAX_HOSTS` of them.

    A part whose brackets hold anything but numbers and ranges is a name as it stands.
    """
    names: list[str] = []
    for part in split_hostlist(text):
        match = _BRACKETS.match(part)
        if not match:
            names.append(part)
            continue
        prefix, ranges, suffix = match.groups()
        pieces = [_RANGE.fullmatch(piece) for piece in ranges.split(",") if piece]
        if not all(pieces):
            names.append(part)
            continue
        for low, high in (piece.groups() for piece in pieces if piece):
            width, last = len(low), int(high or low)
            for number in range(int(low), min(last, int(low) + MAX_HOSTS) + 1):
                names.append(f"{prefix}{number:0{width}d}{suffix}")
                if len(names) >= MAX_HOSTS:
                    return names
    return names


def compact_hostlist(names: list[str] | tuple[str, ...] | set[str]) -> str:
    """Return the shortest bracket form of `names`, sorted."""
    groups: dict[tuple[str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        match = _NUMBERED.match(name)
        if match:
            groups.setdefault((match[1], len(match[2])), []).append(int(match[2]))
        else:
            plain.append(name)
    parts = list(plain)
    for (prefix, width), numbers in sorted(groups.items()):
        numbers.sort()
        if len(numbers) == 1:
            parts.append(f"{prefix}{numbers[0]:0{width}d}")
            continue
        parts.append(f"{prefix}[{_ranges(numbers, width)}]")
    return ",".join(parts)


def _ranges(numbers: list[int], width: int) -> str:
    pieces, start, previous = [], numbers[0], numbers[0]
    for number in [*numbers[1:], -1]:
        if number == previous + 1:
            previous = number
            continue
        text = f"{start:0{width}d}"
        pieces.append(text if start == previous else f"{text}-{previous:0{width}d}")
        start = previous = number
    return ",".join(pieces)
