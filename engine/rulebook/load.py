"""Reads a folder of rule files into rule documents, strictly, with every error at its place."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, Final, TypeAlias, get_args, get_origin

from pydantic import BaseModel, ValidationError

from engine.rulebook.document import (
    CauseRule,
    FamilyRule,
    MetricRule,
    SignatureRule,
    SymptomRule,
)
from engine.rulebook.problem import Problem, RulesError, suggest
from engine.rulebook.yamltree import Loc, YamlTree, read_yaml_tree

Rule: TypeAlias = SymptomRule | SignatureRule | FamilyRule | CauseRule | MetricRule

CASES_SUFFIX: Final = ".cases.yaml"
KINDS: Final[dict[str, type[Rule]]] = {
    "symptom": SymptomRule,
    "signature": SignatureRule,
    "family": FamilyRule,
    "cause": CauseRule,
    "metric": MetricRule,
}
_QUOTED: Final = re.compile(r"'([^']*)'")


@dataclass(slots=True, frozen=True)
class LoadedRule:
    """One rule document and the file that says it."""

    document: Rule
    tree: YamlTree

    @property
    def path(self) -> str:
        """The file, relative to the rules folder."""
        return self.tree.path

    def problem(self, *loc: str | int, message: str) -> Problem:
        """An error at the position of `loc` in this rule's file."""
        return self.tree.problem(loc, message)

    def warning(self, *loc: str | int, message: str) -> Problem:
        """A warning at the position of `loc` in this rule's file."""
        return Problem(self.path, *self.tree.place(loc), message, "warning")


def rule_files(folder: Path) -> dict[str, bytes]:
    """Return relative path to content of each rule file below `folder`, in sorted order.

    `*.cases.yaml` files hold tests, not rules. Raises `RulesError` where there is no folder.
    """
    if not folder.is_dir():
        raise RulesError([Problem(str(folder), 1, 1, "no such folder of rules")])
    paths = sorted(path for path in folder.rglob("*.yaml") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in paths
        if not path.name.endswith(CASES_SUFFIX)
    }


def read_rules(files: dict[str, bytes]) -> tuple[list[LoadedRule], list[Problem]]:
    """Read every file; return the rules that can be read and all problems of the others."""
    rules: list[LoadedRule] = []
    problems: list[Problem] = []
    for path in sorted(files):
        rule, found = read_rule(path, files[path])
        problems.extend(found)
        if rule is not None:
            rules.append(rule)
    return rules, sorted(problems)


def load_rules(folder: Path) -> list[LoadedRule]:
    """Read every rule below `folder`; raises `RulesError` with all problems of all files."""
    rules, problems = read_rules(rule_files(folder))
    if problems:
        raise RulesError(problems)
    return rules


def read_rule(path: str, data: bytes) -> tuple[LoadedRule | None, list[Problem]]:
    """Read one file; the rule is None where any problem was found."""
    tree = read_yaml_tree(path, data)
    if tree.problems:
        return None, tree.problems
    if not isinstance(tree.value, dict):
        return None, [tree.problem((), "a rule is a mapping of keys, starting with `id:`")]
    kind = tree.value.get("kind")
    if kind is None:
        return None, [tree.problem((), f"missing key 'kind': one of {', '.join(sorted(KINDS))}")]
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if model is None:
        known = ", ".join(sorted(KINDS))
        message = f"unknown kind {kind!r}{suggest(str(kind), KINDS)} (known: {known})"
        return None, [tree.problem(("kind",), message)]
    try:
        document = model.model_validate(tree.value)
    except ValidationError as error:
        return None, validation_problems(tree, model, error)
    expected = path.removesuffix(".yaml")
    if document.id != expected:
        message = f"id {document.id!r} must equal the path: {expected!r}"
        return None, [tree.problem(("id",), message)]
    return LoadedRule(document, tree), []


def validation_problems(
    tree: YamlTree, model: type[BaseModel], error: ValidationError
) -> list[Problem]:
    """Turn a model's errors into problems at the positions of the values they speak of."""
    return [
        _validation_problem(tree, model, tuple(item["loc"]), dict(item))
        for item in error.errors(include_url=False)
    ]


def _validation_problem(
    tree: YamlTree, model: type[BaseModel], loc: Loc, item: dict[str, Any]
) -> Problem:
    field = ".".join(str(part) for part in loc if part != "[key]")
    match item["type"]:
        case "extra_forbidden":
            known = _known_keys(model, loc[:-1])
            near = suggest(str(loc[-1]), known)
            message = f"unknown key {loc[-1]!r}{near} (known: {', '.join(sorted(known))})"
            return tree.problem(loc, message, of_key=True)
        case "missing":
            return tree.problem(loc[:-1], f"missing key {loc[-1]!r}")
        case "literal_error":
            words = _QUOTED.findall(str(item["ctx"]["expected"]))
            near = suggest(str(item["input"]), words)
            message = f"{field}: unknown value {item['input']!r}{near} (known: {', '.join(words)})"
            return tree.problem(loc, message)
        case "string_pattern_mismatch":
            pattern = item["ctx"]["pattern"]
            return tree.problem(loc, f"{field}: {item['input']!r} does not match {pattern}")
        case _:
            message = str(item["msg"]).removeprefix("Value error, ")
            return tree.problem(loc, f"{field}: {message}" if field else message)


def _known_keys(model: type[BaseModel], loc: Iterable[str | int]) -> list[str]:
    """The field names of the model that stands at `loc` below `model`."""
    current: Any = model
    for part in loc:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) if _is_model(current) else None
        if field is None:
            return []
        current = _model_in(field.annotation)
    return list(current.model_fields) if _is_model(current) else []


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


def _model_in(annotation: Any) -> Any:
    """The model inside `Model | None`, `tuple[Model, ...]` and the like."""
    if _is_model(annotation):
        return annotation
    if get_origin(annotation) is None:
        return None
    inner = [_model_in(part) for part in get_args(annotation) if part not in (NoneType, ...)]
    return next((part for part in inner if part is not None), None)
