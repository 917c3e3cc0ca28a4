"""The injector leaves no marks: nothing in logs, rules or verdicts depends on knowing the lab."""

import ast
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml

from engine.extract.scanner import build_scanner
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book
from tests.lab.bundle import expected_of
from tests.lab.catalogue import KINDS

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "tests" / "lab" / "captures"
BUNDLES = sorted(path.parent for path in CAPTURES.glob("*/truth.yaml"))
LABELS = {"truth.yaml", "expected.yaml"}
TELLTALES = re.compile(
    r"inject|\bfault[ _-]?lab\b|rootrank|\bvictim\b|ground.truth|chaos|\bsabotage", re.IGNORECASE
)
MACHINE = re.compile(r"/work/|\.venv-lab|/tmp/rrs?-|\brr[0-9a-f]{6,8}(?:n\d|sw)\b")
# Said by the lab's program because many public ones say it (DETR and MAE, engine.py).
IDIOMS = {", stopping training"}
READS_LABELS = {"scripts/lab.py", "scripts/accuracy.py", "scripts/score.py"}


def evidence_of(bundle):
    return [path for path in sorted(bundle.iterdir()) if path.name not in LABELS]


def test_there_are_captures_of_at_least_35_faults_and_20_kinds_of_success():
    names = {yaml.safe_load((each / "truth.yaml").read_text())["kind"] for each in BUNDLES}
    clean = {name for name in names if KINDS[name].is_clean}
    assert (len(names - clean) >= 35, len(clean) >= 20) == (True, True)


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_evidence_holds_no_word_of_the_injector_and_no_path_of_its_machine(bundle):
    name = bundle.name.rsplit("-", 1)[0]
    for path in evidence_of(bundle):
        text = path.read_text(encoding="utf-8")
        assert not re.search(rf"\b{name}\b", text), path
        assert not TELLTALES.search(text), path
        assert not MACHINE.search(text), path


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_labels_are_derived_from_the_truth_by_the_table_of_kinds_alone(bundle):
    truth = yaml.safe_load((bundle / "truth.yaml").read_text(encoding="utf-8"))
    expected = yaml.safe_load((bundle / "expected.yaml").read_text(encoding="utf-8"))
    assert expected == expected_of(truth, KINDS[truth["kind"]])


def test_verdicts_do_not_change_without_labels_and_under_another_folder_name(tmp_path):
    book = load_book(None)
    scanner = build_scanner(book)
    # One capture of each kind, a third of the kinds: the whole set takes minutes.
    for number, bundle in enumerate(each for each in BUNDLES[::9]):
        place = tmp_path / f"job{number}"
        shutil.copytree(bundle, place, ignore=shutil.ignore_patterns(*LABELS))
        with_labels = attribute_path(bundle, book=book, scanner=scanner)
        without = attribute_path(place, book=book, scanner=scanner)
        assert with_labels == without, bundle.name


def messages_of_the_programs():
    """Return the literal texts that the lab's own programs log or raise."""
    for path in sorted((ROOT / "tests/lab/program").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call | ast.Raise):
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    text = re.split(r"%\S|\{", part.value)[0].strip()
                    if len(text) >= 18 and " " in text:
                        yield text


def test_no_rule_holds_a_text_that_only_the_lab_prints():
    texts = sorted(set(messages_of_the_programs()) - IDIOMS)
    assert "could not read sample" in texts
    rules = {path: path.read_text(encoding="utf-8") for path in (ROOT / "rules").rglob("*.yaml")}
    found = [(text, path.name) for text in texts for path, rule in rules.items() if text in rule]
    names = [(name, path.name) for name in KINDS for path, rule in rules.items()
             if re.search(rf"\b{name}\b", _patterns(rule))]  # fmt: skip
    assert (found, names) == ([], [])


def _patterns(rule):
    lines = [
        line for line in rule.splitlines() if re.match(r"\s*(?:scan|extract|-? ?'|unless)", line)
    ]
    return "\n".join(lines)


def test_only_the_lab_and_the_scoreboards_read_truth_or_expected_labels():
    found = set()
    for folder in ("engine", "connectors", "functions", "rootrank", "rules", "scripts"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".py", ".yaml") or not path.is_file():
                continue
            if re.search(r"truth\.yaml|expected\.yaml|tests[./]lab", path.read_text("utf-8")):
                found.add(path.relative_to(ROOT).as_posix())
    assert found - READS_LABELS == set()


def test_programs_do_not_know_that_they_are_in_a_lab():
    for path in sorted((ROOT / "tests/lab/program").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        code = text.split('"""', 2)[2]
        assert not TELLTALES.search(code), path
        assert "LAB" not in re.findall(r"environ\[?\.?(?:get\()?[\"'](\w+)", code)


def test_the_lab_needs_no_variable_of_its_own_inside_a_job():
    source = (ROOT / "tests/lab/run.py").read_text(encoding="utf-8")
    given = set(re.findall(r'"([A-Z_]+)": ', source))
    assert given <= {"PATH", "HOME", "LANG", "HOSTNAME", "GLOO_SOCKET_IFNAME"}
    assert os.environ.get("ROOTRANK_LAB_MARK") is None
