"""The rulebook that this release ships and its scanner, loaded once a process."""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from engine.extract.scanner import Scanner, build_scanner
from engine.rulebook.book import Rulebook
from engine.rulebook.shipped import load_shipped
from functions.adapters.automata import FolderShelf

AUTOMATA: Final = "automata"
_SHIPPED: Final = Path(__file__).parents[2] / "rules"


@cache
def shipped_rulebook() -> Rulebook:
    """Return the rules beside the code."""
    return load_shipped(Path(os.environ.get("RULES_FOLDER", str(_SHIPPED))))


@cache
def shipped_scanner() -> Scanner:
    """Return the automaton of the shipped rules, compiled at build time or once a machine."""
    return _build(shipped_rulebook())


class ScannerKeeper:
    """The scanner of the book that was asked for last, and that of the shipped rules."""

    def __init__(self) -> None:
        self._held: tuple[str, Scanner] | None = None

    def scanner_of(self, book: Rulebook) -> Scanner:
        """Return the automaton of `book`; another book's is compiled once a process."""
        if book.extraction_digest == shipped_rulebook().extraction_digest:
            return shipped_scanner()
        if self._held is None or self._held[0] != book.extraction_digest:
            self._held = (book.extraction_digest, _build(book))
        return self._held[1]


scanners: Final = ScannerKeeper()


def _build(book: Rulebook) -> Scanner:
    keep = Path(
        os.environ.get("AUTOMATA_FOLDER") or Path(tempfile.gettempdir()) / "rootrank-automata"
    )
    return build_scanner(book, shelf=FolderShelf(keep, shipped=(_SHIPPED / AUTOMATA,)))
