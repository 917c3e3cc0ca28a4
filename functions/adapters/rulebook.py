"""The rulebook that this release ships, loaded once a process."""

import os
from functools import cache
from pathlib import Path
from typing import Final

from engine.rulebook.shipped import load_shipped
from engine.rulebook.book import Rulebook

_SHIPPED: Final = Path(__file__).parents[2] / "rules"


@cache
def shipped_rulebook() -> Rulebook:
    """Return the rules beside the code."""
    return load_shipped(Path(os.environ.get("RULES_FOLDER", str(_SHIPPED))))
