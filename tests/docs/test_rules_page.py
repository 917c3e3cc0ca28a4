"""docs/rules.md: every example is valid, and nothing that a rule may say is left out."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from engine.model.vocabulary import DOMAINS, SOURCES, ActionName
from engine.rulebook import document
from engine.rulebook.cases import CaseDocument, CaseEvidence, Expectation, read_case_file
from engine.rulebook.catalogue import (
    BLOCK_FIELDS,
    ENGINE_SYMPTOMS,
    FACT_FAMILIES,
    RESERVED_CAPTURES,
    TAGS,
)
from engine.rulebook.check import check
from engine.rulebook.load import KINDS, read_rule
from rootrank.commands.rules import rules_command

PAGE = (Path(__file__).parents[2] / "docs/rules.md").read_text(encoding="utf-8")


def _examples() -> list[str]:
    """The YAML blocks, without the indentation that a list item gives them."""
    blocks = re.findall(r"^( *)```yaml\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)
    return [
        "".join(line.removeprefix(indent) for line in body.splitlines(keepends=True))
        for indent, body in blocks
    ]


def test_every_rule_on_the_page_is_sound() -> None:
    rules = []
    for text in _examples():
        if not text.startswith("id: "):
            continue
        path = text.split("\n", 1)[0].removeprefix("id: ") + ".yaml"
        rule, problems = read_rule(path, text.encode())
        assert problems == []
        assert rule is not None
        rules.append(rule)
    assert {rule.document.kind for rule in rules} == set(KINDS)
    assert [str(problem) for problem in check(rules)] == []


def test_every_case_on_the_page_reads() -> None:
    texts = [text for text in _examples() if text.startswith("cases:")]
    assert len(texts) == 2
    for text in texts:
        cases, problems = read_case_file("a/b.cases.yaml", text.encode())
        assert (bool(cases), problems) == (True, [])


def test_every_yaml_block_is_one_of_both() -> None:
    assert [text for text in _examples() if not text.startswith(("id: ", "cases:"))] == []


@pytest.mark.parametrize(
    "model",
    [*KINDS.values(), document.Signature, document.FamilyRow, document.Onset, document.Window,
     document.Advice, CaseDocument, CaseEvidence, Expectation],
)  # fmt: skip
def test_every_key_is_explained(model: type[BaseModel]) -> None:
    words = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"[`{]([^`\n]+)[`}]", PAGE))))
    assert set(model.model_fields) - words == set()


@pytest.mark.parametrize(
    "words",
    [RESERVED_CAPTURES, TAGS, FACT_FAMILIES, ENGINE_SYMPTOMS, BLOCK_FIELDS, SOURCES,
     set(DOMAINS) - {"none"}, document.SymptomRole.__args__, document.Join.__args__,
     ActionName.__args__],
)  # fmt: skip
def test_every_word_of_the_vocabularies_is_on_the_page(words: set[str]) -> None:
    assert [word for word in sorted(words) if not re.search(rf"\b{re.escape(word)}\b", PAGE)] == []


def test_every_command_and_option_is_on_the_page() -> None:
    for name, command in rules_command.commands.items():
        assert f"`rootrank rules {name}" in PAGE
        for parameter in command.params:
            options = [option for option in parameter.opts if option.startswith("--")]
            assert [option for option in options if option not in PAGE] in ([], ["--output"])
