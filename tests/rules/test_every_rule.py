"""The shipped rules themselves: lint, cases, lock, schema and what loading them costs."""

import json
import time
from pathlib import Path

import jsonschema
import pytest
import yaml

from engine.rulebook.artifact import decode_artifact, encode_artifact
from engine.rulebook.cases import read_cases
from engine.rulebook.check import check
from engine.rulebook.compile import compile_rules
from engine.rulebook.load import LoadedRule, load_rules
from engine.rulebook.schema import rules_schema, rules_schema_text
from engine.rulebook.shipped import load_shipped, ruleset_version

ROOT = Path(__file__).parents[2]
RULES = ROOT / "rules"


@pytest.fixture(scope="module")
def rules() -> list[LoadedRule]:
    return load_rules(RULES)


def test_there_are_rules(rules: list[LoadedRule]) -> None:
    assert len(rules) > 100


def test_no_rule_has_an_error(rules: list[LoadedRule]) -> None:
    assert [str(problem) for problem in check(rules) if problem.severity == "error"] == []


def test_every_case_file_reads_and_stands_beside_its_rule() -> None:
    _, problems = read_cases(RULES)
    assert [str(problem) for problem in problems] == []


def test_every_rule_is_valid_under_the_schema_that_editors_use() -> None:
    validator = jsonschema.Draft202012Validator(rules_schema())
    wrong = [
        f"{path}: {error.message}"
        for path in sorted(RULES.rglob("*.yaml"))
        if not path.name.endswith(".cases.yaml")
        for error in validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))
    ]
    assert wrong == []


def test_the_committed_schema_is_the_models() -> None:
    committed = (ROOT / "infra/rules.schema.json").read_text(encoding="utf-8")
    assert committed == rules_schema_text(), (
        "run `python -m engine.rulebook.schema infra/rules.schema.json`"
    )
    assert json.loads(committed)["$id"] == "urn:rootrank:rules"


def test_the_artifact_loads_in_under_fifty_milliseconds(rules: list[LoadedRule]) -> None:
    data = encode_artifact(compile_rules(rules, version=ruleset_version(RULES)), "sha256:0")
    decode_artifact(data)
    best = min(_seconds_to_decode(data) for _ in range(5))
    assert best < 0.050


def test_the_yaml_loads_in_under_one_and_a_half_seconds() -> None:
    started = time.process_time()
    assert load_shipped(RULES).signatures
    assert time.process_time() - started < 1.5


def _seconds_to_decode(data: bytes) -> float:
    started = time.process_time()
    decode_artifact(data)
    return time.process_time() - started
