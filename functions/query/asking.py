"""What a reader asks for in an address, checked and made into a selection."""

import re
import shlex
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, get_args

from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.vocabulary import DOMAINS, TERMINAL_STATES, QualityLevel
from functions.adapters.results import Selection
from functions.query.plain import clock, counted

LEVELS: Final[tuple[str, ...]] = get_args(QualityLevel)
AGES: Final = {
    "24h": ("24 hours", timedelta(hours=24)),
    "7d": ("7 days", timedelta(days=7)),
    "30d": ("30 days", timedelta(days=30)),
    "13w": ("quarter", timedelta(weeks=13)),
    "52w": ("year", timedelta(weeks=52)),
}
"""Ages that lists offer, by the word that the command line takes."""
_AGE: Final = re.compile(r"^(\d{1,5})([mhdw])$")
_UNITS: Final = {
    "m": timedelta(minutes=1), "h": timedelta(hours=1),
    "d": timedelta(days=1), "w": timedelta(weeks=1),
}  # fmt: skip
"""Ages as the command line takes them."""
_CLOSED: Final = {"domain": DOMAINS, "state": TERMINAL_STATES, "quality": LEVELS}
_FILTERS: Final = ("since", "cluster", "domain", "state", "quality", "class")
_LONGEST: Final = 400


_UNIT_NAMES: Final = {"m": "minute", "h": "hour", "d": "day", "w": "week"}


class QuestionError(ValueError):
    """A question that has no answer: which part, and what would be right."""


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters that are set; raises `QuestionError` for a value that cannot be."""
    found = {}
    for name in _FILTERS:
        value = query.get(name, "").strip()
        if not value:
            continue
        if len(value) > _LONGEST:
            raise QuestionError(f"{name} is longer than {_LONGEST} characters")
        allowed = _CLOSED.get(name)
        if allowed is not None and value not in allowed:
            raise QuestionError(f"{name} is none of: {', '.join(allowed)}")
        found[name] = value
    return found


def select(filters: Mapping[str, str], *, now: datetime) -> Selection:
    """Return what filters ask for; raises `QuestionError` for a time that is none."""
    return Selection(
        cluster=filters.get("cluster"),
        domain=filters.get("domain"),
        terminal_state=filters.get("state"),
        quality=filters.get("quality"),
        failure_class=filters.get("class"),
        since=since(filters.get("since"), now=now),
    )


def since(text: str | None, *, now: datetime) -> str | None:
    """Return the RFC 3339 time that an age or a time stands for."""
    if not text:
        return None
    if age := _AGE.match(text):
        try:
            return rfc3339(to_us(now - int(age[1]) * _UNITS[age[2]]))
        except OverflowError:
            return None
    try:
        return rfc3339(to_us(parse_rfc3339(text)))
    except ValueError as error:
        raise QuestionError(
            "since is neither an age (12h, 7d, 13w) nor an RFC 3339 time"
        ) from error


def time_words(age: str) -> str:
    """Return an age or a time as words: `last quarter`, `last 45 days`, `since 2023-01-01 ...`."""
    if age in AGES:
        return f"last {AGES[age][0]}"
    if found := _AGE.match(age):
        number, unit = int(found[1]), _UNIT_NAMES[found[2]]
        return f"last {unit}" if number == 1 else f"last {counted(number, unit)}"
    return f"since {clock(age)}"


def time_choices(chosen: str | None) -> list[tuple[str, str]]:
    """Return the ages that lists offer, and what was asked for where it is none of them."""
    offered = [(age, time_words(age)) for age in AGES]
    return [*offered, (chosen, time_words(chosen))] if chosen and chosen not in AGES else offered


def shell_line(filters: Mapping[str, str]) -> str:
    """Return the command that lists the same."""
    names = {"state": "terminal-state"}
    parts = [f"--{names.get(name, name)} {shlex.quote(value)}" for name, value in filters.items()]
    return " ".join(["rootrank list", *parts])
