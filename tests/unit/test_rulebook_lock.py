"""rules.lock: what counts as a change, and what must then be done."""

import pytest
from rule_texts import CAUSE, SYMPTOM, rule

from engine.rulebook.lock import check_lock, decode_lock, encode_lock, lock_of


def _problems(before: str, after: str) -> list[str]:
    return [str(problem) for problem in check_lock([rule(after)], lock_of([rule(before)]))]


def test_a_lock_reads_back_as_it_was_written() -> None:
    lock = lock_of([rule(SYMPTOM), rule(CAUSE)])
    assert decode_lock(encode_lock(lock)) == lock


def test_a_line_that_is_no_lock_line_is_named() -> None:
    with pytest.raises(ValueError, match=r"rules\.lock:2: not `id version digest`: 'gpu/x one'"):
        decode_lock("# head\ngpu/x one\n")


def test_an_unchanged_rule_is_no_problem() -> None:
    assert _problems(SYMPTOM, SYMPTOM) == []


def test_a_change_under_the_same_version_is_an_error() -> None:
    assert _problems(SYMPTOM, SYMPTOM.replace("tier: 1", "tier: 2")) == [
        "gpu/bus_loss.yaml:3:10: changed since version 1 was locked; set it to 2"
    ]


def test_a_changed_source_of_a_signature_is_a_change() -> None:
    changed = SYMPTOM.replace("sources: [syslog]", "sources: [syslog, applog]")
    assert "set it to 2" in _problems(SYMPTOM, changed)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("samples: ['", "samples: ['x GPU at PCI:1 has fallen off', '"),
        ("near_misses: ['", "near_misses: ['nothing', '"),
        ("sources: ['https", "sources: ['a field report', 'https"),
        ("version: 1", "version: 1 # once more"),
    ],
)
def test_samples_sources_and_comments_need_no_new_version(old: str, new: str) -> None:
    assert _problems(SYMPTOM, SYMPTOM.replace(old, new)) == []


def test_a_bumped_change_only_asks_to_be_locked() -> None:
    changed = SYMPTOM.replace("tier: 1", "tier: 2").replace("version: 1", "version: 2")
    assert _problems(SYMPTOM, changed) == [
        "gpu/bus_loss.yaml:3:10: warning: version 2 is not locked yet; run `rootrank rules lock`"
    ]


def test_a_version_cannot_go_back() -> None:
    later = SYMPTOM.replace("version: 1", "version: 3")
    assert "behind the locked 3" in _problems(later, SYMPTOM)[0]


def test_new_and_removed_rules_make_the_lock_stale() -> None:
    found = [str(p) for p in check_lock([rule(SYMPTOM)], lock_of([rule(CAUSE)]))]
    assert found == [
        "gpu/bus_loss.yaml:1:5: warning: gpu/bus_loss is not locked; run `rootrank rules lock`",
        "rules.lock:1:1: warning: pairs/loss_hangs is locked and gone; run `rootrank rules lock`",
    ]
