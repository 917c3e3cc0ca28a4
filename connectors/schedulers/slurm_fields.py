"""The values in Slurm's records, whatever release and tool wrote them: text, numbers, objects."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from engine.model.moment import from_us, parse_rfc3339

NO_VALUE: Final = 0xFFFFFFFE
"""Slurm's NO_VAL (slurm/slurm.h): the number was never set."""
_INFINITE: Final = 0xFFFFFFFF
_NEVER: Final = frozenset({"", "unknown", "none", "n/a", "(null)", "null", "invalid"})
_NO_NODES: Final = _NEVER | {"none assigned", "(none)"}
_OVER: Final = frozenset(
    {
        "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
        "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT", "LAUNCH_FAILED", "RECONFIG_FAIL",
        "REQUEUED",
    }
)  # fmt: skip
"""Base states after which an attempt does not change, and what accounting says of requeued ones.
Source: slurm.schedmd.com/job_state_codes.html"""
_GPU = re.compile(r"(?:^|,)gres/gpu(?::[^=,]{1,64})?=(\d{1,6})")
_GRES_GPU = re.compile(r"^gpu(?::[^:(]{1,64})?:(\d{1,6})(?:\(|$)")
"""`gpu:h100:4(IDX:0-3)` or `gpu:4(IDX:0-3)`, one for each node."""
_LATEST_S: Final = 4_102_444_800


def number(value: Any) -> int | None:
    """Return a number given plainly, as text, or as `{set, infinite, number}`; None where unset."""
    if isinstance(value, Mapping):
        if not value.get("set", True) or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        value = int(value) if value.strip().isdigit() else None
    if not isinstance(value, int) or value in (NO_VALUE, _INFINITE):
        return None
    return value


def word(value: Any) -> str:
    """Return a text without Slurm's many ways to say nothing."""
    text = "" if value is None else str(value).strip()
    return "" if text.lower() in _NEVER else text


def moment(value: Any, timezone: str | None = None) -> datetime | None:
    """Return a time given as epoch seconds or as text without an offset; None where unknown."""
    seconds = number(value)
    if seconds is not None:
        return from_us(seconds * 1_000_000) if 0 < seconds < _LATEST_S else None
    if not isinstance(value, str) or not word(value):
        return None
    try:
        return parse_rfc3339(value, timezone)
    except ValueError:
        return None


def state(value: Any, *, killed_by: Any = None) -> str:
    """Return the scheduler's own word: of the object and list forms the base state comes first."""
    if isinstance(value, Mapping):
        value = value.get("current")
    if isinstance(value, list):
        value = next((each for each in value if isinstance(each, str)), "")
    text = word(value)
    by = word(killed_by)
    return f"{text} by {by}" if text == "CANCELLED" and by and by not in ("-1", "0") else text


def is_over(text: str) -> bool:
    """Whether a state ends an attempt (`CANCELLED by 1000`, `COMPLETED+` too)."""
    words = text.upper().split()
    return bool(words) and words[0].rstrip("+") in _OVER


def exit_code(value: Any) -> str:
    """Return `code:signal` of text, a wait status, or an object of any release; "" where unset."""
    if isinstance(value, str):
        return value if re.fullmatch(r"\d{1,3}:\d{1,3}", value.strip()) else ""
    if isinstance(value, int) and not isinstance(value, bool):
        # A wait status: the signal in the low seven bits, the code in the next byte (wait(2)).
        return f"{value >> 8 & 0xFF}:{value & 0x7F}" if 0 <= value < NO_VALUE else ""
    if not isinstance(value, Mapping):
        return ""
    if "number" in value:
        # 23.02's controller wraps the wait status like any number.
        plain = number(value)
        return "" if plain is None else exit_code(plain)
    code = number(value.get("return_code"))
    signal = value.get("signal")
    signal_id = None
    if isinstance(signal, Mapping):
        signal_id = number(signal.get("signal_id", signal.get("id")))
    if code is None and signal_id is None:
        return ""
    return f"{code or 0}:{signal_id or 0}"


def node_list(value: Any) -> str:
    """Return a host list; "" where no node was given."""
    if isinstance(value, Mapping):
        value = value.get("range") or value.get("list")
    if isinstance(value, list):
        value = ",".join(str(each) for each in value)
    text = "" if value is None else str(value).strip()
    return "" if text.lower() in _NO_NODES else text


def limit_text(seconds: int | None) -> str | None:
    """Return a time limit in seconds as the workload model takes it."""
    return None if seconds is None or seconds <= 0 else str(seconds)


def gpu_count(tres: Any) -> int | None:
    """Return the GPUs of a TRES text (`cpu=8,gres/gpu=4`) or of the JSON list of TRES."""
    if isinstance(tres, str):
        match = _GPU.search(tres)
        return int(match[1]) if match else None
    if isinstance(tres, Mapping):
        tres = tres.get("allocated")
    if not isinstance(tres, list):
        return None
    counts = [
        number(each.get("count"))
        for each in tres
        if isinstance(each, Mapping)
        and each.get("type") == "gres"
        and str(each.get("name")).split(":", 1)[0] == "gpu"
    ]
    known = [count for count in counts if count is not None]
    return max(known) if known else None


def gres_gpu_count(details: Any) -> int | None:
    """Return the GPUs of the controller's `gres_detail`; None where it tells of none.

    TRES hold GPUs only where the site tracks them (AccountingStorageTRES).
    """
    if not isinstance(details, list):
        return None
    counts = [int(match[1]) for match in map(_GRES_GPU.match, map(str, details)) if match]
    return sum(counts) or None
