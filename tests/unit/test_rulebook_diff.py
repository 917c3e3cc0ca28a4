"""Comparing two sets of rules, and the version that a change asks for."""

import pytest
from rule_texts import CAUSE, FAMILY, SYMPTOM, rule

from engine.rulebook.diff import Change, compare, is_enough, needed_bump, next_version


def _compare(old: list[str], new: list[str]) -> list[Change]:
    return compare([rule(text) for text in old], [rule(text) for text in new])


def test_the_same_rules_are_no_change() -> None:
    assert _compare([SYMPTOM, CAUSE], [CAUSE, SYMPTOM]) == []


def test_a_new_rule_is_minor() -> None:
    assert _compare([SYMPTOM], [SYMPTOM, CAUSE]) == [Change("pairs/loss_hangs", "added", "minor")]


def test_a_removed_rule_is_major() -> None:
    assert _compare([SYMPTOM, CAUSE], [SYMPTOM]) == [Change("pairs/loss_hangs", "removed", "major")]


def test_a_renamed_symptom_is_major() -> None:
    [change] = _compare([SYMPTOM], [SYMPTOM.replace("gpu_lost", "gpu_gone")])
    assert (change.bump, change.fields) == ("major", ("symptom", "symptom gpu_lost is gone"))


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("title: The GPU", "title: A GPU", "title"),
        ("near_misses: ['", "near_misses: ['no', '", "signatures.main.near_misses"),
        ("sources: ['https", "sources: ['a page', 'https", "sources"),
        ("version: 1", "version: 2", "version"),
    ],
)
def test_wording_is_a_patch(old: str, new: str, field: str) -> None:
    assert _compare([SYMPTOM], [SYMPTOM.replace(old, new)]) == [
        Change("gpu/bus_loss", "changed", "patch", (field,))
    ]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("domain: gpu", "domain: pcie", "domain"),
        ("fallen off'", "fallen'", "signatures.main.scan"),
        ("[syslog]", "[syslog, applog]", "signatures.main.sources"),
    ],
)
def test_what_may_change_a_verdict_is_minor(old: str, new: str, field: str) -> None:
    assert _compare([SYMPTOM], [SYMPTOM.replace(old, new)]) == [
        Change("gpu/bus_loss", "changed", "minor", (field,))
    ]


def test_a_changed_row_is_named_by_its_place() -> None:
    [change] = _compare([FAMILY], [FAMILY.replace("role: root", "role: lean_root")])
    assert change.fields == ("rows.0.role",)


def test_the_largest_bump_wins_and_a_changed_verdict_is_at_least_minor() -> None:
    changes = [Change("a/b", "changed", "patch"), Change("a/c", "added", "minor")]
    assert needed_bump(changes) == "minor"
    assert needed_bump(changes[:1], verdicts_changed=True) == "minor"
    assert needed_bump([]) == "none"


@pytest.mark.parametrize(
    ("bump", "version"),
    [("none", "1.2.3"), ("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")],
)  # fmt: skip
def test_the_version_that_a_bump_asks_for(bump: str, version: str) -> None:
    assert next_version("1.2.3", bump) == version  # type: ignore[arg-type]


def test_a_version_that_is_too_low_is_not_enough() -> None:
    assert not is_enough("1.2.3", "1.2.4", "minor")
    assert is_enough("1.2.3", "1.3.0", "minor")
    assert is_enough("1.2.3", "2.0.0", "minor")
    with pytest.raises(ValueError, match=r"not MAJOR\.MINOR\.PATCH"):
        is_enough("1.2", "1.3", "minor")
