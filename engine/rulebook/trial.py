"""Tries signatures on texts the way collectors do: automaton, then extraction, then conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import hyperscan
import re2

from engine.extract.recognise import Reading, SignatureReader
from engine.rulebook.book import SignatureDef

# Lines keep their order in a buffer: `^` and `$` mean the line's ends there as on one line.
_FLAGS: Final = hyperscan.HS_FLAG_MULTILINE


class ScanError(ValueError):
    """An expression that the automaton cannot take; `index` is its place in the list."""

    def __init__(self, index: int, reason: str):
        super().__init__(reason)
        self.index = index


@dataclass(slots=True, frozen=True)
class Scanner:
    """The automaton over several expressions; `hits` names those found in a text."""

    database: Any

    def hits(self, text: str) -> set[int]:
        """Return the places, in the list it was built from, of the expressions that match."""
        found: set[int] = set()

        def note(index: int, *_: object) -> None:
            found.add(index)

        self.database.scan(text.encode(), match_event_handler=note)
        return found


def build_scanner(scans: Sequence[tuple[str, bool]]) -> Scanner:
    """Compile (expression, ignore case) pairs together; raises `ScanError` for the first bad."""
    try:
        return Scanner(_compile(scans))
    except hyperscan.error:
        for index, scan in enumerate(scans):
            try:
                _compile([scan])
            except hyperscan.error as error:
                raise ScanError(index, str(error)) from None
        raise


@lru_cache(maxsize=4096)
def scanner_of(scan: str, *, ignore_case: bool) -> Scanner:
    """The automaton of one expression, compiled once; raises `ScanError`."""
    return build_scanner([(scan, ignore_case)])


def _compile(scans: Sequence[tuple[str, bool]]) -> Any:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[scan.encode() for scan, _ in scans],
        ids=list(range(len(scans))),
        elements=len(scans),
        flags=[_FLAGS | (hyperscan.HS_FLAG_CASELESS if caseless else 0) for _, caseless in scans],
    )
    return database


def fallback_hits(scan: str, text: str, *, ignore_case: bool) -> bool:
    """Whether the fallback scanner finds `scan`; raises `ScanError` where it cannot take it."""
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(("(?mi)" if ignore_case else "(?m)") + scan, options)
    except re2.error as error:
        raise ScanError(0, str(error)) from None
    return pattern.search(text) is not None


def read_text(signature: SignatureDef, text: str) -> Reading | None:
    """Return what `signature` says of `text`, or None where it does not hold.

    A text of several lines is a block: one of its lines, or the whole of it, must match.
    """
    reader = SignatureReader(signature)
    for piece in [*text.split("\n"), text] if "\n" in text else [text]:
        reading = reader.read(piece)
        if reading is not None:
            return reading
    return None
