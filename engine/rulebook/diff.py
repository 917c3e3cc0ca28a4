"""What changed between two sets of rules, and the version that the change asks for.

Removing or renaming a rule or a symptom is major: other people's queries name them. Whatever may
change a verdict is minor. Wording, samples and sources are a patch.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from engine.rulebook.compile import meanings
from engine.rulebook.load import LoadedRule, Rule

Bump = Literal["none", "patch", "minor", "major"]
_ORDER: Final[tuple[Bump, ...]] = ("none", "patch", "minor", "major")
_WORDING: Final = frozenset(
    {
        "about", "deprecated", "explanation", "near_misses", "reason", "samples",
        "short_literal", "sources", "title", "version",
    }
)  # fmt: skip
_SEMVER: Final = re.compile(r"^(\d+)\.(\d+)\.(\d+)$")


@dataclass(slots=True, frozen=True)
class Change:
    """One rule that differs; `fields` are dotted paths, signatures and rows by name."""

    rule: str
    what: Literal["added", "removed", "changed"]
    bump: Bump
    fields: tuple[str, ...] = ()


def compare(old: Iterable[LoadedRule], new: Iterable[LoadedRule]) -> list[Change]:
    """Return the rules that differ, sorted by id."""
    before = {rule.document.id: rule.document for rule in old}
    after = {rule.document.id: rule.document for rule in new}
    gone = _symptoms(before.values()) - _symptoms(after.values())
    changes: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            changes.append(Change(name, "added", "minor"))
        elif name not in after:
            changes.append(Change(name, "removed", "major"))
        elif fields := _changed_fields(before[name], after[name]):
            lost = sorted(_symptoms([before[name]]) & gone)
            named = (*fields, *(f"symptom {symptom} is gone" for symptom in lost))
            changes.append(Change(name, "changed", "major" if lost else _bump_of(fields), named))
    return changes


def needed_bump(changes: Iterable[Change], *, verdicts_changed: bool = False) -> Bump:
    """Return the largest bump that any change asks for."""
    found: list[Bump] = [change.bump for change in changes]
    if verdicts_changed:
        found.append("minor")
    return max(found, key=_ORDER.index, default="none")


def next_version(version: str, bump: Bump) -> str:
    """Return the lowest version that `bump` asks for; raises `ValueError` for no SemVer."""
    major, minor, patch = _parts(version)
    match bump:
        case "major":
            return f"{major + 1}.0.0"
        case "minor":
            return f"{major}.{minor + 1}.0"
        case "patch":
            return f"{major}.{minor}.{patch + 1}"
        case _:
            return version


def is_enough(old: str, new: str, bump: Bump) -> bool:
    """Whether going from `old` to `new` honours `bump`."""
    return _parts(new) >= _parts(next_version(old, bump))


def _parts(version: str) -> tuple[int, int, int]:
    match = _SEMVER.match(version)
    if match is None:
        raise ValueError(f"version {version!r} is not MAJOR.MINOR.PATCH")
    return int(match[1]), int(match[2]), int(match[3])


def _symptoms(documents: Iterable[Rule]) -> set[str]:
    return {meaning.symptom for document in documents for meaning in meanings(document)}


def _changed_fields(before: Rule, after: Rule) -> tuple[str, ...]:
    old, new = _flat(before.model_dump(mode="json")), _flat(after.model_dump(mode="json"))
    return tuple(sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)))


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        items = [(str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        items = [(_name_of(inner, index), inner) for index, inner in enumerate(value)]
    else:
        return {prefix: value}
    flat: dict[str, Any] = {}
    for key, inner in items:
        flat.update(_flat(inner, f"{prefix}.{key}" if prefix else key))
    return flat


def _name_of(item: Any, index: int) -> str:
    """A signature by its name; a row by its place, because the first that fits wins."""
    return str(item["name"]) if "name" in item else str(index)


def _bump_of(fields: Iterable[str]) -> Bump:
    """Only wording changed, or something that the engine reads."""
    for field in fields:
        parts = field.split(".")
        is_signature_source = parts[-1] == "sources" and len(parts) > 1
        if parts[-1] not in _WORDING or is_signature_source:
            return "minor"
    return "patch"
