"""The lint: what a rule set may not say, and what it is only warned of."""

import pytest
from rule_texts import CAUSE, FAMILY, SYMPTOM, TIMEOUT, rule

from engine.rulebook.check import check
from engine.rulebook.problem import Problem


def _check(*texts: str) -> list[Problem]:
    return check([rule(text) for text in texts])


def _one(text: str, old: str, new: str, *others: str) -> str:
    assert old in text
    problems = _check(text.replace(old, new, 1), *others)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return str(problems[0])


def test_a_sound_set_has_no_problem() -> None:
    assert (
        _check(SYMPTOM, CAUSE, TIMEOUT, FAMILY)
        == [Problem("gpu/bus_loss.yaml", 17, 15, "x", "warning")][:0]
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("scan: 'GPU at PCI:(", "scan: 'GPU at PCI:((", "not a regular expression: missing )"),
        ("scan: 'GPU", "scan: '(?i)GPU", "inline flags"),
        ("scan: 'GPU", "scan: '(?=GPU)GPU", "the scanner cannot take this"),
        ("scan: 'GPU", r"scan: 'GPU[\D]", "would cross a line"),
        (
            "scan: 'GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has fallen off'",
            r"scan: 'GPU (?P<pci>\S+) has'",
            "the longest text that every match holds is 'GPU ', under 6 bytes",
        ),
        (" has fallen off'", " has fallen off (?:(?:a+b)*c)*d'", "unbounded repeat inside another"),
        (" has fallen off'", " has.*fallen.*off'", "two unbounded repeats can share out"),
        ("scan: 'GPU", r"scan: '\d+GPU", "starts with an unbounded repeat"),
        ("identity: [pci]", "extract: 'PCI:(?P<node>\\S+)'", "a node is the connector's label"),
        ("identity: [pci]", "identity: [pcie]", "nothing captures 'pcie'; did you mean 'pci'?"),
        ("identity: [pci]", "onset: {field: code}", "onset: nothing captures 'code'"),
        ("identity: [pci]", "block: traceback", "unknown block 'traceback'"),
        ("samples: ['kernel", "samples: ['GPU lost', 'kernel", "sample 1: scan does not match"),
        ("samples: ['", "samples: [] #", "give at least one real line"),
        ("has fallen off'", "has fallen off'\n    extract: 'zzz (?P<pci>x)'", "extract does not"),
        ("00 is back'", "00 has fallen off'", "near miss 1: this line matches"),
        ("tags: [gpu_loss]", "tags: [gpu_los]", "unknown tag 'gpu_los'; did you mean 'gpu_loss'?"),
        ("tier: 1", "tier: 7", "tier 7 is for cascades and teardown"),
        ("version: 1", "version: 1\nstatus: deprecated", "belong together"),
    ],
)
def test_a_fault_of_one_rule_is_reported(old: str, new: str, expected: str) -> None:
    assert expected in _one(SYMPTOM, old, new)


def test_a_rule_without_sources_is_an_error() -> None:
    text = SYMPTOM.replace("sources: ['https://docs.nvidia.com/deploy/xid-errors/']", "sources: []")
    assert "name at least one public page" in str(_check(text)[0])


def test_a_short_literal_may_be_excused_with_a_reason() -> None:
    text = SYMPTOM.replace(
        "scan: 'GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has fallen off'",
        "scan: 'GPU at (?P<pci>\\S+) has'\n    short_literal: 'nothing else is fixed'",
    )
    assert _check(text) == []


def test_a_variable_tail_is_cut_for_the_scanner() -> None:
    assert _check(SYMPTOM.replace("has fallen off'", "has fallen off.*'")) == []


def test_when_and_unless_decide_about_samples_and_near_misses() -> None:
    excluded = SYMPTOM.replace("identity: [pci]", "identity: [pci]\n    unless: ['the bus']")
    assert "`when` or `unless` excludes it" in str(_check(excluded)[0])


def test_a_sample_of_several_lines_matches_on_one_of_them() -> None:
    text = SYMPTOM.replace(
        "samples: ['kernel: NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.']",
        "samples:\n      - |\n        first line\n        GPU at PCI:0000:3b:00 has fallen off",
    )
    assert _check(text) == []


def test_two_meanings_of_one_symptom_are_an_error() -> None:
    other = SYMPTOM.replace("id: gpu/bus_loss", "id: gpu/bus_loss_two").replace(
        "domain: gpu", "domain: pcie"
    )
    other = other.replace("fallen off'", "dropped off'").replace(
        "fallen off the", "dropped off the"
    )
    [problem] = _check(SYMPTOM, other)
    assert "already means something else in gpu/bus_loss.yaml: domain differ" in str(problem)


def test_the_same_expression_in_two_rules_is_an_error() -> None:
    other = SYMPTOM.replace("id: gpu/bus_loss", "id: gpu/bus_loss_two")
    found = [str(problem) for problem in _check(SYMPTOM, other)]
    assert found == [
        "gpu/bus_loss_two.yaml:15:11: scan: the same expression as gpu/bus_loss#main; "
        "one line has one signature"
    ]


def test_two_signatures_of_one_name_are_an_error() -> None:
    second = SYMPTOM[SYMPTOM.index("  - name: main") :].replace("fallen", "really fallen")
    found = [str(problem) for problem in _check(SYMPTOM + second)]
    assert any("a second signature named 'main'" in problem for problem in found)


def test_another_symptoms_signature_on_a_sample_is_a_warning() -> None:
    other = SYMPTOM.replace("gpu/bus_loss", "gpu/bus_event").replace("gpu_lost", "gpu_event")
    other = other.replace("GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has", "GPU at PCI:(?P<pci>\\S+)")
    other = other.replace("fallen off'", "has fallen'")
    found = _check(SYMPTOM, other)
    assert {problem.severity for problem in found} == {"warning"}
    assert "gpu/bus_event#main also matches this" in " ".join(map(str, found))


def test_a_cause_rule_names_only_what_exists() -> None:
    assert "unknown symptom 'gpu_loss'; did you mean 'gpu_lost'?" in _one(
        CAUSE, "causes: [gpu_lost]", "causes: [gpu_loss]", SYMPTOM, TIMEOUT
    )
    assert "unknown tag 'collective'" in _one(
        CAUSE, "#collective_failure", "#collective", SYMPTOM, TIMEOUT
    )
    assert "no symptom carries tag '#gpu_error' yet" in _one(
        CAUSE, "#collective_failure", "#gpu_error", SYMPTOM, TIMEOUT
    )
    assert "is both cause and effect" in _one(
        CAUSE, "['#collective_failure']", "[gpu_lost]", SYMPTOM
    )


def test_a_cause_rule_may_name_what_the_engine_makes() -> None:
    text = CAUSE.replace("['#collective_failure']", "[rank_silent]")
    assert _check(text, SYMPTOM) == []


def test_a_signature_rule_needs_a_defined_symptom() -> None:
    text = SYMPTOM.replace("kind: symptom", "kind: signature").replace("gpu_lost", "gpu_gone")
    for line in ("title: The GPU left the bus\n", "domain: gpu\n", "role: root\n", "tier: 1\n",
                 "entity: gpu\n", "tags: [gpu_loss]\n"):  # fmt: skip
        text = text.replace(line, "")
    [problem] = _check(text)
    assert "no rule defines symptom 'gpu_gone'" in str(problem)


def test_a_row_behind_an_unconditional_row_is_unreachable() -> None:
    assert "row 2 never matches 79: row 1 takes it" in _one(
        FAMILY, "code: [13, 31]", "code: [13, 79]"
    )


def test_a_conditional_row_hides_nothing() -> None:
    text = FAMILY.replace("  - code: 79\n", "  - code: 79\n    match_text: 'fallen'\n")
    assert _check(text.replace("code: [13, 31]", "code: [13, 79]")) == []


def test_a_rows_own_sample_must_land_on_that_row() -> None:
    found = _one(FAMILY, "    samples: ['NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen "
                 "off the bus.']\n  - code: [13", "    samples: ['NVRM: Xid (PCI:0000:3b:00): 13, "
                 "pid']\n  - code: [13")  # fmt: skip
    assert "sample 1 of row 1 means 'xid_application'" in found


def test_the_familys_key_must_be_captured() -> None:
    assert "nothing captures 'kode'" in _one(FAMILY, "key: code", "key: kode")


def test_a_detector_needs_its_number() -> None:
    text = SYMPTOM[: SYMPTOM.index("signatures:")].replace("kind: symptom", "kind: metric")
    text += "metric: [DCGM_FI_DEV_GPU_TEMP]\npromql: 'x'\ndetector: above\n"
    assert "detector 'above' needs `threshold:`" in _one(text, "kind: metric", "kind: metric")
    assert "is no decimal number" in _one(text + "threshold: hot\n", "hot", "warm")


def test_problems_come_sorted_by_place() -> None:
    text = SYMPTOM.replace("tags: [gpu_loss]", "tags: [a_b, c_d]").replace("tier: 1", "tier: 6")
    found = _check(text)
    assert found == sorted(found)
    assert len(found) == 3
