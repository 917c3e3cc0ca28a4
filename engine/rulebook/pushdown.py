"""Fixed texts that a remote log store can filter lines by without losing what a signature finds.

Every line that a signature matches holds one of its texts. So a filter of all texts of a source
keeps each match, and drops most of what is none.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.rulebook.book import Rulebook, SignatureDef
from engine.rulebook.pattern import parsed

from re import _constants as _sre  # type: ignore[attr-defined]  # isort: skip

MIN_TEXT: Final = 4
"""Shorter texts are in every line."""


@dataclass(slots=True, frozen=True, order=True)
class LineText:
    """A text to look for; `ignore_case` as the signature does."""

    text: str
    ignore_case: bool = False


def line_texts(book: Rulebook, source: str) -> tuple[LineText, ...] | None:
    """Return the texts of all signatures of a source, sorted; None where one has none.

    A text inside another one's is enough, so the longer goes. Texts that JSON writes otherwise
    are there in both forms, because shippers wrap lines.
    """
    found: set[LineText] = set()
    for signature in book.signatures:
        if source not in signature.sources:
            continue
        texts = signature_texts(signature)
        if texts is None:
            return None
        found.update(texts)
    return tuple(sorted(_shortest(found)))


def signature_texts(signature: SignatureDef) -> set[LineText] | None:
    """Return texts one of which every match of a signature holds, or None."""
    texts = _required(parsed(signature.scan))
    if texts is None:
        return None
    every = {form for text in texts for form in (text, *_escaped(text))}
    return {LineText(text, signature.ignore_case) for text in every}


def _escaped(text: str) -> tuple[str, str]:
    """Return a text as it stands inside a JSON string, and as Go writes it there.

    Go's encoder, in which many shippers are written, also escapes `<`, `>` and `&`.
    """
    plain = json.dumps(text)[1:-1]
    return plain, "".join(f"\\u{ord(char):04x}" if char in "<>&" else char for char in plain)


def _shortest(found: Iterable[LineText]) -> set[LineText]:
    kept: list[LineText] = []
    for each in sorted(found, key=lambda each: (len(each.text), not each.ignore_case, each.text)):
        if not any(_covers(shorter, each) for shorter in kept):
            kept.append(each)
    return set(kept)


def _covers(shorter: LineText, longer: LineText) -> bool:
    if shorter.ignore_case:
        return shorter.text.lower() in longer.text.lower()
    return not longer.ignore_case and shorter.text in longer.text


def _required(items: Sequence[Any]) -> set[str] | None:
    """Return the best set of texts for a sequence: of those that are long enough the fewest."""
    choices: list[set[str]] = []
    run = ""
    for operation, argument in [*_flat(items), (None, None)]:
        if operation is _sre.LITERAL:
            run += chr(argument)
            continue
        if len(run) >= MIN_TEXT:
            choices.append({run})
        run = ""
        inner = _inner(operation, argument)
        if inner:
            choices.append(inner)
    if not choices:
        return None
    return min(choices, key=lambda each: (len(each), -min(map(len, each)), sorted(each)))


def _flat(items: Sequence[Any]) -> list[Any]:
    """Open groups, and drop anchors, which take no room: texts run on across both."""
    flat: list[Any] = []
    for item in items:
        operation, argument = item
        if operation is _sre.SUBPATTERN:
            flat += _flat(argument[3])
        elif operation is not _sre.AT:
            flat.append(item)
    return flat


def _inner(operation: Any, argument: Any) -> set[str] | None:
    if operation is _sre.BRANCH:
        branches = [_required(branch) for branch in argument[1]]
        if any(each is None for each in branches):
            return None
        return {text for each in branches if each is not None for text in each}
    if operation in (_sre.MAX_REPEAT, _sre.MIN_REPEAT) and argument[0] >= 1:
        return _required(argument[2])
    return None
