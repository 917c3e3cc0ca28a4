"""Times: integer microseconds since the epoch inside, RFC 3339 text in UTC outside."""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US = (datetime.min.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
_LAST_US = (datetime.max.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
_OFFSET = re.compile(r"^(?:UTC|GMT)?([+-])(\d{2}):?(\d{2})?$")


class UnknownTimezoneError(ValueError):
    """A timezone name that neither the zone database nor the offset syntax knows."""


def to_us(moment: datetime) -> int:
    """Return microseconds since the epoch of an aware datetime."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_us(us: int) -> datetime:
    """Return the aware UTC datetime of `us` microseconds since the epoch.

    What no calendar date can hold (a hostile stamp, an interval's margin) becomes the nearest.
    """
    return EPOCH + timedelta(microseconds=min(max(us, _FIRST_US), _LAST_US))


def rfc3339(us: int) -> str:
    """Return RFC 3339 text in UTC with `Z`; microseconds only where they are not zero."""
    # isoformat and not strftime, which leaves a year before 1000 without its zeros
    text = from_us(us).replace(tzinfo=None).isoformat(timespec="microseconds")
    return text.rstrip("0").rstrip(".") + "Z"


def zone(name: str | None) -> tzinfo:
    """Return the tzinfo for an IANA name, `UTC`, `Z` or an offset such as `+02:00`.

    Raises `UnknownTimezoneError` for anything else. `None` means UTC (CONTRACTS, section 1).
    """
    if name is None or name in ("", "UTC", "Z", "GMT"):
        return UTC
    if match := _OFFSET.match(name):
        sign = 1 if match[1] == "+" else -1
        shift = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if shift < timedelta(hours=24):
            return timezone(sign * shift)
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
    try:
        moment = datetime.fromisoformat(text.strip().replace(" UTC", "Z"))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone(timezone_name))
        return moment.astimezone(UTC)
    except UnknownTimezoneError:
        raise
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{text[:64]!r} is no RFC 3339 time such as 2025-01-08T15:27:16Z ({error})"
        ) from error
