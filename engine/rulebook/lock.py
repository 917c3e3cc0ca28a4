"""rules.lock: rule id to version and content, so that no rule changes under the same version.

One line a rule (`id version digest`), sorted, so that two branches merge line by line. The digest
covers what the engine reads: samples, near misses and sources may be added at will.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from engine.model.canonical import digest
from engine.rulebook.load import LoadedRule, Rule
from engine.rulebook.problem import Problem

LOCK_NAME: Final = "rules.lock"
_HEADER: Final = "# Written by `rootrank rules lock`; one line a rule: id, version, digest.\n"
_UNREAD: Final = frozenset({"version", "samples", "near_misses", "short_literal"})


@dataclass(slots=True, frozen=True)
class Locked:
    """The version under which a content was locked."""

    version: int
    digest: str


def lock_of(rules: Iterable[LoadedRule]) -> dict[str, Locked]:
    """Return what the lock should say of `rules`."""
    return {
        rule.document.id: Locked(rule.document.version, content_digest(rule.document))
        for rule in sorted(rules, key=lambda rule: rule.document.id)
    }


def content_digest(document: Rule) -> str:
    """Return the digest of all that the engine reads of a rule."""
    body = document.model_dump(mode="json", exclude_defaults=True)
    body.pop("sources", None)  # a rule's are pages; a signature's, below, are what it reads
    return digest(_read_part(body))


def _read_part(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _read_part(inner) for key, inner in value.items() if key not in _UNREAD}
    return [_read_part(inner) for inner in value] if isinstance(value, list) else value


def encode_lock(lock: Mapping[str, Locked]) -> str:
    """Return the text of the lock file."""
    lines = (f"{name} {lock[name].version} {lock[name].digest}\n" for name in sorted(lock))
    return _HEADER + "".join(lines)


def decode_lock(text: str) -> dict[str, Locked]:
    """Read a lock file; raises `ValueError` with the line that is none."""
    lock: dict[str, Locked] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parts = line.split()
        if len(parts) != 3 or not parts[1].isdecimal():
            raise ValueError(f"{LOCK_NAME}:{number}: not `id version digest`: {line!r}")
        lock[parts[0]] = Locked(int(parts[1]), parts[2])
    return lock


def check_lock(rules: Iterable[LoadedRule], lock: Mapping[str, Locked]) -> list[Problem]:
    """Return where rules and lock differ: errors for a missing bump, else only a stale lock."""
    found = {rule.document.id: rule for rule in rules}
    problems = [problem for rule in found.values() for problem in _check_rule(rule, lock)]
    problems.extend(
        Problem(LOCK_NAME, 1, 1, f"{name} is locked and gone; run `rootrank rules lock`", "warning")
        for name in lock
        if name not in found
    )
    return sorted(problems)


def _check_rule(rule: LoadedRule, lock: Mapping[str, Locked]) -> list[Problem]:
    document = rule.document
    locked = lock.get(document.id)
    if locked is None:
        message = f"{document.id} is not locked; run `rootrank rules lock`"
        return [rule.warning("id", message=message)]
    changed = content_digest(document) != locked.digest
    if document.version < locked.version:
        message = f"version {document.version} is behind the locked {locked.version}"
        return [rule.problem("version", message=message)]
    if changed and document.version == locked.version:
        message = (
            f"changed since version {locked.version} was locked; set it to {locked.version + 1}"
        )
        return [rule.problem("version", message=message)]
    if changed or document.version != locked.version:
        message = f"version {document.version} is not locked yet; run `rootrank rules lock`"
        return [rule.warning("version", message=message)]
    return []
