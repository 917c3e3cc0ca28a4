"""Times: integer microseconds since the epoch inside, RFC 3339 text in UTC outside."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = re.compile(r"^(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})?$")


class UnknownTimezoneError(ValueError):
    """A timezone name that neither the zone database nor the offset syntax knows."""


def to_us(moment: datetime) -> int:
    """Return microseconds since the epoch of an aware datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """Return the aware UTC datetime of `us` microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=us)


def rfc3339(us: int) -> str:
    """Return RFC 3339 text in UTC with `Z`; microseconds only where they are not zero."""
    text = from_us(us).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").rstrip(".") + "Z"


def zone(name: str | None) -> tzinfo:
    """Return the tzinfo for an IANA name, `UTC`, `Z` or an offset such as `+02:00`.

    Raises `UnknownTimezoneError` for anything else. `None` means UTC (CONTRACTS, section 1).
    """
    if name is None or name in ("", "UTC", "Z", "GMT"):
        return UTC
    if match := _OFFSET.match(name):
        sign = 1 if match[1] == "+" else -1
        return timezone(sign * timedelta(hours=int(match[2]), minutes=int(match[3] or 0)))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownTimezoneError(
            f"unknown timezone {name!r}: use an IANA name such as Europe/Paris or an offset"
        ) from error


def parse_rfc3339(text: str, timezone_name: str | None = None) -> datetime:
    """Parse RFC 3339 or `YYYY-MM-DD[ T]HH:MM:SS[.f]`; without an offset it is in `timezone_name`.

    Raises `ValueError` when the text is no such time.
    """
    moment = datetime.fromisoformat(text.strip().replace(" UTC", "Z"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone(timezone_name))
    return moment.astimezone(UTC)
