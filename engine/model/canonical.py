"""Canonical JSON (RFC 8785) and the digests that stand for evidence, rules and verdicts."""

import hashlib
from typing import Any

import rfc8785

Json = Any  # any tree of None, bool, int, str, list and dict


def canonical_json(value: Any) -> bytes:
    """Serialise `value` in RFC 8785 form: sorted keys, no spaces, UTF-8.

    Raises `TypeError` on floats: no document of ours holds one, because their text form differs
    between languages.
    """
    _refuse_floats(value, "$")
    return rfc8785.dumps(value)


def digest(value: Any) -> str:
    """Return `sha256:<64 hex>` of the canonical JSON of `value`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """Return `sha256:<64 hex>` of raw bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def short_id(prefix: str, *parts: str | int | None) -> str:
    """Return a short stable id, `<prefix>-<12 hex>`, derived from `parts` only."""
    joined = "\x1f".join("" if part is None else str(part) for part in parts)
    return f"{prefix}-{hashlib.sha256(joined.encode()).hexdigest()[:12]}"


def _refuse_floats(value: Any, place: str) -> None:
    if isinstance(value, float):
        raise TypeError(f"{place}: floats have no place in canonical documents, got {value!r}")
    if isinstance(value, dict):
        for key, inner in value.items():
            _refuse_floats(inner, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _refuse_floats(inner, f"{place}[{index}]")
