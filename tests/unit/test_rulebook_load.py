"""The strict loader: every mistake is found, named and located, all in one run."""

from pathlib import Path

import pytest
from rule_texts import CAUSE, SYMPTOM, problems_of, rule

from engine.rulebook.load import load_rules
from engine.rulebook.problem import RulesError


def test_a_good_rule_loads_with_its_positions() -> None:
    loaded = rule(SYMPTOM)
    assert loaded.document.id == "gpu/bus_loss"
    assert loaded.tree.place(("signatures", 0, "scan")) == (15, 11)


def test_scalars_are_text_and_the_model_types_them() -> None:
    loaded = rule(SYMPTOM.replace("title: The GPU left the bus", "title: no"))
    assert getattr(loaded.document, "title") == "no"  # noqa: B009
    assert loaded.document.version == 1


def test_durations_are_read_and_zero_needs_no_unit() -> None:
    document = rule(CAUSE + "window: {min: 0, max: 5m}\n").document
    assert document.kind == "cause"
    assert (document.window.min, document.window.max) == (0, 300_000_000)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("role: root", "rolle: root", "gpu/bus_loss.yaml:8:1: unknown key 'rolle'; did you mean"),
        ("role: root", "rolle: root", "gpu/bus_loss.yaml:1:1: missing key 'role'"),
        (
            "domain: gpu",
            "domain: gpuu",
            "gpu/bus_loss.yaml:7:9: domain: unknown value 'gpuu'; did you mean 'gpu'?",
        ),
        (
            "sources: [syslog]",
            "sources: [syslogs]",
            "gpu/bus_loss.yaml:14:15: signatures.0.sources.0: unknown value 'syslogs'; did you",
        ),
        (
            "    identity: [pci]",
            "    identify: [pci]",
            "gpu/bus_loss.yaml:16:5: unknown key 'identify'; did you mean 'identity'?",
        ),
        ("kind: symptom", "kind: symptoms", "gpu/bus_loss.yaml:2:7: unknown kind 'symptoms'; did"),
        ("tier: 1", "tier: high", "gpu/bus_loss.yaml:9:7: tier: Input should be a valid integer"),
        ("tier: 1", "tier: 1\ntier: 2", "gpu/bus_loss.yaml:10:1: key 'tier' is given twice"),
        ("version: 1", "version: &v 1", "gpu/bus_loss.yaml:3:10: anchor &v: anchors and aliases"),
        ("version: 1", "version: !!int 1", "gpu/bus_loss.yaml:3:10: tag tag:yaml.org,2002:int"),
        (
            "id: gpu/bus_loss",
            "id: gpu/bus",
            "gpu/bus_loss.yaml:1:5: id 'gpu/bus' must equal the path: 'gpu/bus_loss'",
        ),
        ("symptom: gpu_lost", "symptom: GPU-lost", "gpu/bus_loss.yaml:5:10: symptom: 'GPU-lost'"),
        ("scan: 'GPU", 'scan: "\\GPU', "gpu/bus_loss.yaml:15:12: not YAML: found unknown escape"),
        ("title: The", "title: The: ", "gpu/bus_loss.yaml:6:11: not YAML: mapping values are not"),
        ("tier: 1", "\ttier: 1", "gpu/bus_loss.yaml:9:1: not YAML:"),
    ],
)
def test_a_mistake_is_named_where_it_stands(old: str, new: str, expected: str) -> None:
    found = problems_of(SYMPTOM.replace(old, new, 1))
    assert [line for line in found if line.startswith(expected)], found


def test_a_second_document_is_refused() -> None:
    [problem] = problems_of(SYMPTOM + "---\nid: gpu/other\n")
    assert "a second YAML document" in problem


def test_an_alias_is_refused() -> None:
    found = problems_of(SYMPTOM.replace("version: 1", "version: *nothing"))
    assert "alias" in found[0]


def test_bytes_that_are_no_utf8_are_a_located_problem() -> None:
    from engine.rulebook.load import read_rule

    _, problems = read_rule("gpu/x.yaml", b"id: gpu/x\ntitle: \xff\n")
    assert [str(problem) for problem in problems] == [
        "gpu/x.yaml:2:1: not UTF-8 text; save the file as UTF-8"
    ]


@pytest.mark.parametrize("data", ["", "- a\n", "just text\n", "? [a]\n: b\n", "a: {b: [c\n"])
def test_files_of_other_shapes_are_problems_not_crashes(data: str) -> None:
    assert problems_of(data)


def test_deep_nesting_is_refused() -> None:
    found = problems_of("a: " + "[" * 200 + "]" * 200 + "\n")
    assert "nested deeper" in found[0]


def test_a_window_that_ends_before_it_starts_is_an_error() -> None:
    found = problems_of(CAUSE + "window: {min: 5s, max: 1s}\n", "pairs/loss_hangs.yaml")
    assert "window.min is after window.max" in found[0]


def test_all_errors_of_all_files_come_at_once(tmp_path: Path) -> None:
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/bus_loss.yaml").write_text(SYMPTOM.replace("tier: 1", "tier: 9"))
    (tmp_path / "gpu/other.yaml").write_text("id: gpu/other\nkind: symptom\n")
    (tmp_path / "gpu/other.cases.yaml").write_text("not a rule")
    with pytest.raises(RulesError) as caught:
        load_rules(tmp_path)
    assert {problem.path for problem in caught.value.problems} == {
        "gpu/bus_loss.yaml",
        "gpu/other.yaml",
    }
    assert len(caught.value.problems) > 2


def test_a_missing_folder_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="no such folder of rules"):
        load_rules(tmp_path / "none")
