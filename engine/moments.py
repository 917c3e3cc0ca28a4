"""Partial order of moments: plain integers with open ends, and what "before" may mean.

Times are microseconds since the epoch. Open ends are the two sentinels, so that hot loops
compare integers without asking for None.
"""

from typing import Final

OPEN_PAST: Final = -(2**62)
OPEN_FUTURE: Final = 2**62
SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US

# Stamps of one clock may come late by buffering; catalogue 4.3 uses -2 s for the same host.
SAME_CLOCK_SLACK_US: Final = 2 * SECOND_US
# Two nodes that are each 5 s off are 10 s apart; NTP adds 2 s each (catalogue T2).
CROSS_CLOCK_SLACK_US: Final = 15 * SECOND_US


def slack_us(clock: str, other: str) -> int:
    """How far two stamps may disagree about the same moment."""
    return SAME_CLOCK_SLACK_US if clock and clock == other else CROSS_CLOCK_SLACK_US


def or_past(value: int | None) -> int:
    """Return `value`, or the open past where it is unknown."""
    return OPEN_PAST if value is None else value


def or_future(value: int | None) -> int:
    """Return `value`, or the open future where it is unknown."""
    return OPEN_FUTURE if value is None else value


def known(value: int) -> int | None:
    """Return `value`, or None for an open end."""
    return None if value in (OPEN_PAST, OPEN_FUTURE) else value
