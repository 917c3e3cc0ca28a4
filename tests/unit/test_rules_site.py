"""A site's own rules: what they may add and change, and that they can never accuse more."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from rule_texts import CAUSE, FAMILY, SYMPTOM, TIMEOUT, rule

from engine.rulebook.book import Rulebook
from engine.rulebook.compile import compile_rules
from engine.rulebook.problem import RulesError
from engine.rulebook.site import with_site
from rootrank.commands.attribute import attribute_command
from rootrank.commands.rules import rules_command

EXTRA = """\
id: site/fan_stopped
kind: symptom
version: 1
sources: ['our rack controller']
symptom: site_fan_stopped
title: A fan of the rack stopped
domain: gpu
role: root
tier: 2
entity: node
tags: [gpu_loss, collective_failure]
signatures:
  - sources: [syslog]
    scan: 'rackctl: fan \\w{1,8} stopped'
    samples: ['rackctl: fan F3 stopped']
    near_misses: ['rackctl: fan F3 running']
"""
PAIR = """\
id: site/fan_loses_gpu
kind: cause
version: 1
sources: ['our rack controller']
title: A stopped fan loses the GPU
causes: [site_fan_stopped]
effects: [gpu_lost]
join: same_node
"""


@pytest.fixture
def base() -> Rulebook:
    texts = (SYMPTOM, CAUSE, TIMEOUT, FAMILY)
    return compile_rules([rule(text) for text in texts], version="1.2.0")


def _site(base: Rulebook, **files: str) -> Rulebook:
    named = {name.replace("__", "/") + ".yaml": text.encode() for name, text in files.items()}
    return with_site(base, named)


def _problems(base: Rulebook, **files: str) -> list[str]:
    with pytest.raises(RulesError) as caught:
        _site(base, **files)
    return [str(problem) for problem in caught.value.problems]


def test_a_site_rule_is_scanned_and_reasoned_with(base: Rulebook) -> None:
    book = _site(base, site__fan_stopped=EXTRA, site__fan_loses_gpu=PAIR)
    assert "site_fan_stopped" in book.symptoms
    assert [s.index for s in book.signatures] == list(range(len(base.signatures) + 1))
    pair = next(cause for cause in book.causes if cause.rule == "site/fan_loses_gpu")
    assert (pair.causes, pair.effects) == (("site_fan_stopped",), ("gpu_lost",))


def test_a_rule_of_the_release_that_speaks_of_a_tag_speaks_of_site_symptoms(base: Rulebook) -> None:
    book = _site(base, site__fan_stopped=EXTRA)
    cause = next(cause for cause in book.causes if cause.rule == "pairs/loss_hangs")
    assert "site_fan_stopped" in cause.effects
    assert "collective_timeout" in cause.effects


def test_both_digests_and_the_version_say_that_it_is_another_book(base: Rulebook) -> None:
    book = _site(base, site__fan_stopped=EXTRA)
    assert book.extraction_digest != base.extraction_digest
    assert book.reasoning_digest != base.reasoning_digest
    assert book.version.startswith("1.2.0+site.")
    assert book == _site(base, site__fan_stopped=EXTRA)


def test_an_override_quietens_a_symptom(base: Rulebook) -> None:
    text = """\
overrides:
  - symptom: gpu_lost
    alone: probable
    explanation: Our slots come loose.
    actions: [{action: reboot_node, target: node, reason: reseat the card}]
    reason: seen weekly on the old racks
"""
    book = _site(base, overrides=text)
    changed = book.symptoms["gpu_lost"]
    assert (changed.alone, changed.explanation) == ("probable", "Our slots come loose.")
    assert [action.action for action in changed.actions] == ["reboot_node"]
    assert book.reasoning_digest != base.reasoning_digest
    assert book.extraction_digest == base.extraction_digest


def test_a_rule_of_the_release_can_be_retired(base: Rulebook) -> None:
    text = "overrides:\n  - {rule: pairs/loss_hangs, status: deprecated, reason: not on our net}\n"
    book = _site(base, overrides=text)
    assert {c.rule: c.status for c in book.causes} == {"pairs/loss_hangs": "deprecated"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("domain: host", "overrides.yaml:3:5: unknown key 'domain'"),
        ("role: root", "overrides.yaml:3:5: unknown key 'role'"),
        ("tier: 1", "overrides.yaml:3:5: unknown key 'tier'"),
        ("accuses: true", "overrides.yaml:3:5: unknown key 'accuses'"),
        ("status: stable", "overrides.yaml:3:13: overrides.0.status: unknown value 'stable'"),
    ],
)
def test_an_override_cannot_point_a_rule_elsewhere(base: Rulebook, line: str, said: str) -> None:
    text = f"overrides:\n  - symptom: xid_application\n    {line}\n    reason: because we can\n"
    assert any(problem.startswith(said) for problem in _problems(base, overrides=text))


def test_alone_cannot_be_raised(base: Rulebook) -> None:
    lowered = SYMPTOM.replace("tags: [gpu_loss]", "alone: ambiguous\ntags: [gpu_loss]")
    weak = compile_rules([rule(lowered)], version="1.2.0")
    text = "overrides:\n  - symptom: gpu_lost\n    alone: definitive\n    reason: we are sure\n"
    found = _problems(weak, overrides=text)
    assert found == ["overrides.yaml:3:12: alone may only be lowered; the release says 'ambiguous'"]


def test_unknown_names_are_found_with_a_suggestion(base: Rulebook) -> None:
    text = "overrides:\n  - {symptom: gpu_losst, alone: probable, reason: misspelt here}\n"
    assert "did you mean 'gpu_lost'?" in _problems(base, overrides=text)[0]


def test_a_symptom_of_the_release_cannot_be_given_another_meaning(base: Rulebook) -> None:
    text = EXTRA.replace("site_fan_stopped", "gpu_lost")
    found = _problems(base, site__fan_stopped=text)
    assert "already means something else in the release (gpu/bus_loss)" in found[0]


def test_an_id_of_the_release_is_taken(base: Rulebook) -> None:
    text = EXTRA.replace("site/fan_stopped", "gpu/bus_loss")
    found = _problems(base, gpu__bus_loss=text)
    assert "gpu/bus_loss.yaml:1:5: the release has a rule 'gpu/bus_loss'; take another id" in found


def test_code_is_refused(base: Rulebook) -> None:
    with pytest.raises(RulesError) as caught:
        with_site(base, {"python/evil.py": b"import os"})
    assert "site rules are YAML only" in str(caught.value.problems[0])


def test_every_error_of_every_file_comes_in_one_run(base: Rulebook) -> None:
    bad = EXTRA.replace("domain: gpu", "domain: gpuu")
    overrides = "overrides:\n  - {symptom: nowhere, alone: probable, reason: no such one}\n"
    found = _problems(base, site__fan_stopped=bad, overrides=overrides)
    assert [problem.split(":")[0] for problem in found] == [
        "overrides.yaml", "site/fan_stopped.yaml",
    ]  # fmt: skip


def test_the_commands_take_a_site_folder(tmp_path: Path) -> None:
    site = tmp_path / "ours"
    (site / "site").mkdir(parents=True)
    (site / "site/fan_stopped.yaml").write_text(EXTRA, encoding="utf-8")
    checked = CliRunner().invoke(rules_command, ["check", "--site-rules", str(site)])
    assert checked.exit_code == 0, checked.output
    tested = CliRunner().invoke(rules_command, ["test", "--site-rules", str(site)])
    assert "2 samples: 0 wrong" in tested.output
    log = tmp_path / "node.log"
    log.write_text("Jan 10 10:00:00 node-001 rackctl: fan F3 stopped\n", encoding="utf-8")
    attributed = CliRunner().invoke(
        attribute_command, ["--format", "json", "--site-rules", str(site), str(log)]
    )
    assert "site_fan_stopped" in attributed.output


def test_a_broken_site_folder_is_bad_usage(tmp_path: Path) -> None:
    result = CliRunner().invoke(attribute_command, ["--site-rules", str(tmp_path / "no"), "x"])
    assert result.exit_code == 2
