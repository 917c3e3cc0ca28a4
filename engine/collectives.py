"""Collective failures without a direct cause: who never entered, who lags, who differs."""

from engine.case import Case
from engine.entities import Directory
from engine.episodes import Episode
from engine.meanings import Meanings


def locate(
    episodes: list[Episode], directory: Directory, *, case: Case, meanings: Meanings
) -> list[Episode]:
    """Return the episodes that counters and silence add."""
    return []
