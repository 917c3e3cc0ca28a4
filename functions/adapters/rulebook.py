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
    keep = Path(
        os.environ.get("AUTOMATA_FOLDER") or Path(tempfile.gettempdir()) / "rootrank-automata"
    )
    return build_scanner(
        shipped_rulebook(), shelf=FolderShelf(keep, shipped=(_SHIPPED / AUTOMATA,))
    )
