"""The rulebook that this release ships and its scanner, loaded once a process."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from engine.extract.scanner import Scanner, build_scanner
from engine.rulebook.book import Rulebook
from engine.rulebook.shipped import load_shipped

_SHIPPED: Final = Path(__file__).parents[2] / "rules"


@cache
def shipped_rulebook() -> Rulebook:
    """Return the rules beside the code."""
    return load_shipped(Path(os.environ.get("RULES_FOLDER", str(_SHIPPED))))


@cache
def shipped_scanner() -> Scanner:
    """Return the automaton of the shipped rules."""
    return build_scanner(shipped_rulebook())
