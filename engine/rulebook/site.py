"""A site's own rules over those of the release: YAML only, and never able to accuse more.

A folder, or the objects below an S3 prefix, as path to bytes: rule files as in `rules/`, and one
`overrides.yaml` that may change listed fields of the release's rules. Domain, role, tier and
whether a symptom accuses are not among them: a site may quieten a rule, not point it elsewhere.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, model_validator

from engine.model.contract import StrictDocument
from engine.model.vocabulary import QualityLevel
from engine.rulebook.book import Action, CauseDef, Rulebook, SymptomDef
from engine.rulebook.check import check_structure
from engine.rulebook.compile import (
    compile_documents,
    extraction_digest,
    numbered,
    reasoning_digest,
    symptoms_by_tag,
)
from engine.rulebook.document import Advice, Listed, RuleId, SymptomId
from engine.rulebook.load import CASES_SUFFIX, LoadedRule, read_rules, validation_problems
from engine.rulebook.problem import Problem, RulesError, suggest
from engine.rulebook.yamltree import YamlTree, read_yaml_tree

OVERRIDES_NAME: Final = "overrides.yaml"
_REFUSED: Final = (".py", ".pyc", ".so", ".yml", ".json")
_LEVELS: Final[tuple[str, ...]] = ("insufficient", "ambiguous", "probable", "definitive")


class Override(StrictDocument):
    """Changed fields of one rule (`status` alone) or of one symptom of the release."""

    rule: RuleId | None = None
    symptom: SymptomId | None = None
    reason: str = Field(min_length=8)
    status: Literal["experimental", "deprecated"] | None = None
    alone: QualityLevel | None = None
    explanation: str | None = None
    actions: Annotated[tuple[Advice, ...] | None, Listed] = None

    @model_validator(mode="after")
    def _names_one_thing(self) -> "Override":
        if (self.rule is None) == (self.symptom is None):
            raise ValueError("name either `rule:` or `symptom:`")
        meant = (self.alone, self.explanation, self.actions)
        if self.rule is not None and meant != (None, None, None):
            raise ValueError("of a rule only `status:` may change; name the symptom")
        if self.status is None and meant == (None, None, None):
            raise ValueError("changes nothing")
        return self


class OverridesFile(StrictDocument):
    """`overrides.yaml`."""

    overrides: tuple[Override, ...]


@dataclass(slots=True, frozen=True)
class SiteRules:
    """What a site's files hold, read against the release's book; `problems` are all of them."""

    rules: tuple[LoadedRule, ...]
    overrides: tuple[Override, ...]
    problems: tuple[Problem, ...]
    digest: str


def site_files(folder: Path) -> dict[str, bytes]:
    """Return relative path to content of every file below `folder`; raises `RulesError`."""
    if not folder.is_dir():
        raise RulesError([Problem(str(folder), 1, 1, "no such folder of site rules")])
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def read_site(files: Mapping[str, bytes], base: Rulebook) -> SiteRules:
    """Read a site's files against `base`; every error of every file, at its place."""
    refused = [
        Problem(path, 1, 1, "site rules are YAML only (`*.yaml`); code ships with a release")
        for path in sorted(files)
        if path.endswith(_REFUSED)
    ]
    texts = {
        path: files[path]
        for path in sorted(files)
        if path.endswith(".yaml") and not path.endswith(CASES_SUFFIX)
    }
    overrides_text = texts.pop(OVERRIDES_NAME, None)
    rules, problems = read_rules(texts)
    problems.extend(refused)
    problems.extend(_clashes(rules, base))
    found = check_structure(rules, base=base)
    problems.extend(problem for problem in found if problem.severity == "error")
    overrides: tuple[Override, ...] = ()
    if overrides_text is not None:
        overrides, wrong = _read_overrides(overrides_text, base)
        problems.extend(wrong)
        texts[OVERRIDES_NAME] = overrides_text
    hasher = hashlib.sha256()
    for path, data in sorted(texts.items()):
        hasher.update(f"{path}\0{hashlib.sha256(data).hexdigest()}\n".encode())
    return SiteRules(tuple(rules), overrides, tuple(sorted(problems)), hasher.hexdigest())


def with_site(base: Rulebook, files: Mapping[str, bytes]) -> Rulebook:
    """Return `base` with a site's rules and overrides; raises `RulesError` with every problem.

    Both digests and the version (as build metadata) say that it is another book.
    """
    site = read_site(files, base)
    if site.problems:
        raise RulesError(site.problems)
    return merge(base, site)


def merge(base: Rulebook, site: SiteRules) -> Rulebook:
    """Return the book of the release and of a site that has no problems."""
    own = compile_documents([rule.document for rule in site.rules], version=base.version)
    base = _overridden(base, site.overrides)
    symptoms = dict(sorted({**base.symptoms, **own.symptoms}.items()))
    tagged = symptoms_by_tag(own.symptoms.values())
    everything = symptoms_by_tag(symptoms.values())
    causes = [
        *(_widened(cause, tagged) for cause in base.causes),
        *(_widened(cause, everything) for cause in own.causes),
    ]
    signatures = numbered([*base.signatures, *own.signatures])
    metrics = tuple(sorted([*base.metrics, *own.metrics], key=lambda metric: metric.rule))
    ordered = tuple(sorted(causes, key=lambda cause: cause.rule))
    return replace(
        base,
        version=f"{base.version}+site.{site.digest[:12]}",
        extraction_digest=extraction_digest(signatures, metrics),
        reasoning_digest=reasoning_digest(symptoms, ordered, base.python),
        signatures=signatures,
        symptoms=symptoms,
        causes=ordered,
        metrics=metrics,
    )


def _widened(cause: CauseDef, tagged: Mapping[str, list[str]]) -> CauseDef:
    """A cause rule that speaks of tags speaks of every symptom that carries them."""
    return replace(
        cause,
        causes=_with_tags(cause.causes, cause.cause_tags, tagged),
        effects=_with_tags(cause.effects, cause.effect_tags, tagged),
    )


def _with_tags(
    names: tuple[str, ...], tags: Iterable[str], tagged: Mapping[str, list[str]]
) -> tuple[str, ...]:
    return tuple(sorted({*names, *(name for tag in tags for name in tagged.get(tag, ()))}))


def _clashes(rules: Iterable[LoadedRule], base: Rulebook) -> list[Problem]:
    taken = rule_ids(base)
    return [
        rule.problem("id", message=f"the release has a rule {rule.document.id!r}; take another id")
        for rule in rules
        if rule.document.id in taken
    ]


def rule_ids(book: Rulebook) -> set[str]:
    """Return the ids of all rules that a book was compiled from."""
    found = {signature.rule for signature in book.signatures}
    found.update(definition.rule for definition in book.symptoms.values())
    found.update(cause.rule for cause in book.causes)
    found.update(metric.rule for metric in book.metrics)
    found.update(f"python/{name}" for name in book.python)
    return found


def _read_overrides(data: bytes, base: Rulebook) -> tuple[tuple[Override, ...], list[Problem]]:
    tree = read_yaml_tree(OVERRIDES_NAME, data)
    if tree.problems:
        return (), tree.problems
    try:
        document = OverridesFile.model_validate(tree.value)
    except ValidationError as error:
        return (), validation_problems(tree, OverridesFile, error)
    problems = [
        problem
        for index, override in enumerate(document.overrides)
        for problem in _check_override(tree, index, override, base)
    ]
    return document.overrides, problems


def _check_override(
    tree: YamlTree, index: int, override: Override, base: Rulebook
) -> list[Problem]:
    def problem(key: str, message: str) -> Problem:
        return tree.problem(("overrides", index, key), message)

    if override.rule is not None:
        known = rule_ids(base)
        if override.rule not in known:
            return [problem("rule", f"no rule {override.rule!r}{suggest(override.rule, known)}")]
        return []
    name = override.symptom or ""
    definition = base.symptoms.get(name)
    if definition is None:
        return [problem("symptom", f"no symptom {name!r}{suggest(name, base.symptoms)}")]
    if override.alone and _LEVELS.index(override.alone) > _LEVELS.index(definition.alone):
        message = f"alone may only be lowered; the release says {definition.alone!r}"
        return [problem("alone", message)]
    return []


def _overridden(base: Rulebook, overrides: Iterable[Override]) -> Rulebook:
    book = base
    for override in overrides:
        if override.rule is not None and override.status is not None:
            book = _with_status(book, override.rule, override.status)
        elif override.symptom is not None:
            symptom = _changed(book.symptoms[override.symptom], override)
            book = replace(book, symptoms={**book.symptoms, override.symptom: symptom})
    return book


def _with_status(book: Rulebook, rule: str, status: str) -> Rulebook:
    """A rule's symptoms and causes take the status; mere line forms and code are left out."""
    defines = any(definition.rule == rule for definition in book.symptoms.values())
    return replace(
        book,
        symptoms={
            name: replace(definition, status=status) if definition.rule == rule else definition
            for name, definition in book.symptoms.items()
        },
        causes=tuple(
            replace(cause, status=status) if cause.rule == rule else cause for cause in book.causes
        ),
        signatures=tuple(each for each in book.signatures if defines or each.rule != rule),
        python={name: value for name, value in book.python.items() if f"python/{name}" != rule},
    )


def _changed(definition: SymptomDef, override: Override) -> SymptomDef:
    fields: dict[str, Any] = {
        key: value
        for key in ("status", "alone", "explanation")
        if (value := getattr(override, key)) is not None
    }
    if override.actions is not None:
        fields["actions"] = tuple(Action(a.action, a.target, a.reason) for a in override.actions)
    return replace(definition, **fields)
