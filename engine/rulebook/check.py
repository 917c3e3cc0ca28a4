"""The lint of a whole set of rules: everything that loading one file cannot know."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

from engine.rulebook.book import Rulebook, SymptomDef
from engine.rulebook.catalogue import BLOCK_FIELDS, ENGINE_SYMPTOMS, TAGS
from engine.rulebook.check_signature import check_overlaps, check_signatures, check_syntax
from engine.rulebook.compile import meanings, symptom_def
from engine.rulebook.document import CauseRule, FamilyRule, MetricRule
from engine.rulebook.load import LoadedRule
from engine.rulebook.problem import Problem, suggest
from engine.rulebook.yamltree import Loc

_SOURCE = re.compile(r"^\S.{3,}")
_PLACE = re.compile(r"\{([a-z_]{1,40})\}")
_CAPTURE = re.compile(r"\(\?P<(\w+)>")
# What engine/report/wording.py fills in for every episode.
_OWN_PLACES = frozenset(
    {"node", "rank", "gpu", "pod", "nic", "link", "switch", "filesystem", "pid", "count"}
)


def check(rules: Iterable[LoadedRule], base: Rulebook | None = None) -> list[Problem]:
    """Return every error and warning of the set, sorted by place; an empty list is a clean set.

    With `base` the set is a site's own, which may speak of the release's symptoms and tags.
    """
    ordered = sorted(rules, key=lambda rule: rule.document.id)
    structure = check_structure(ordered, base=base)
    readable = _without_errors(ordered, check_syntax(ordered))
    signatures = check_signatures(readable)
    sound = _without_errors(readable, signatures)
    return sorted(chain(structure, signatures, check_overlaps(sound), _check_explanations(ordered)))


def _without_errors(rules: Sequence[LoadedRule], problems: Iterable[Problem]) -> list[LoadedRule]:
    broken = {problem.path for problem in problems if problem.severity == "error"}
    return [rule for rule in rules if rule.path not in broken]


def check_structure(rules: Sequence[LoadedRule], *, base: Rulebook | None = None) -> list[Problem]:
    """What a wrong book would come of: syntax, names, definitions, tags, tables, sources."""
    known = {} if base is None else base.symptoms
    parts: tuple[Callable[[Sequence[LoadedRule]], list[Problem]], ...] = (
        check_syntax,
        _check_common,
        _check_todos,
        partial(_check_definitions, known=known),
        partial(_check_references, known=known),
        _check_families,
        _check_metrics,
    )
    return sorted(chain.from_iterable(part(rules) for part in parts))


def _check_common(rules: Sequence[LoadedRule]) -> list[Problem]:
    problems: list[Problem] = []
    for rule in rules:
        document = rule.document
        if not document.sources:
            message = "sources: name at least one public page, file or record that shows this"
            problems.append(rule.problem("sources", message=message))
        for index, source in enumerate(document.sources):
            if not _SOURCE.match(source):
                problems.append(
                    rule.problem("sources", index, message=f"sources: {source!r} names no source")
                )
        if (document.status == "deprecated") != (document.deprecated is not None):
            message = "`status: deprecated` and `deprecated: <reason, date>` belong together"
            problems.append(rule.problem("status", message=message))
    return problems


def _check_todos(rules: Sequence[LoadedRule]) -> list[Problem]:
    return [
        Problem(rule.path, *rule.tree.place(loc), "a TODO is left; write what belongs here")
        for rule in rules
        for loc, text in _texts((), rule.tree.value)
        if text.startswith("TODO")
    ]


def _texts(loc: Loc, value: object) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts((*loc, key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts((*loc, index), inner)
    elif isinstance(value, str):
        yield loc, value


def _meaning_locs(rule: LoadedRule) -> list[Loc]:
    document = rule.document
    if isinstance(document, FamilyRule):
        return [*(("rows", index) for index in range(len(document.rows))), ("default",)]
    return [()] * len(meanings(document))


def _check_definitions(
    rules: Sequence[LoadedRule], *, known: Mapping[str, SymptomDef]
) -> list[Problem]:
    """A symptom has one meaning: the same in every place that gives it, or it is an error."""
    problems: list[Problem] = []
    first: dict[str, tuple[str, dict[str, object]]] = {
        name: (f"the release ({definition.rule})", _said(definition))
        for name, definition in known.items()
    }
    for rule in rules:
        for loc, meaning in zip(_meaning_locs(rule), meanings(rule.document), strict=True):
            said = _said(symptom_def(meaning, rule.document))
            where, before = first.setdefault(meaning.symptom, (rule.path, said))
            differing = sorted(key for key in said if said[key] != before[key])
            if differing:
                message = (
                    f"symptom {meaning.symptom!r} already means something else in {where}: "
                    f"{', '.join(differing)} differ; one symptom has one meaning (use "
                    "`kind: signature` to add line forms)"
                )
                problems.append(rule.problem(*loc, "symptom", message=message))
            problems.extend(
                rule.problem(*loc, "tags", index, message=_unknown_tag(tag))
                for index, tag in enumerate(meaning.tags)
                if tag not in TAGS
            )
            problems.extend(_check_meaning(rule, loc, meaning.symptom))
    return problems


def _unknown_tag(tag: str) -> str:
    return f"unknown tag {tag!r}{suggest(tag, TAGS)} (known: {', '.join(sorted(TAGS))})"


def _said(definition: object) -> dict[str, object]:
    slots: tuple[str, ...] = getattr(definition, "__slots__", ())
    return {name: getattr(definition, name) for name in slots if name not in ("rule", "status")}


def _check_meaning(rule: LoadedRule, loc: Loc, symptom: str) -> list[Problem]:
    meaning = next(item for item in meanings(rule.document) if item.symptom == symptom)
    problems: list[Problem] = []
    if meaning.role in ("root", "lean_root") and meaning.tier >= 6:
        message = f"tier {meaning.tier} is for cascades and teardown, not for role {meaning.role}"
        problems.append(rule.problem(*loc, "tier", message=message))
    return problems


def _check_references(
    rules: Sequence[LoadedRule], *, known: Mapping[str, SymptomDef]
) -> list[Problem]:
    defined = {item.symptom for rule in rules for item in meanings(rule.document)} | set(known)
    names_known = defined | ENGINE_SYMPTOMS
    used_tags = {tag for rule in rules for item in meanings(rule.document) for tag in item.tags}
    used_tags.update(tag for definition in known.values() for tag in definition.tags)
    problems: list[Problem] = []
    for rule in rules:
        document = rule.document
        if document.kind == "signature" and document.symptom not in defined:
            message = f"no rule defines symptom {document.symptom!r}"
            near = suggest(document.symptom, defined)
            problems.append(rule.problem("symptom", message=message + near))
        if not isinstance(document, CauseRule):
            continue
        for key in ("causes", "effects", "requires", "unless"):
            names: tuple[str, ...] = getattr(document, key)
            for index, name in enumerate(names):
                if wrong := _unknown_name(name, names_known, used_tags):
                    problems.append(rule.problem(key, index, message=f"{key}: {wrong}"))
        if overlap := sorted(set(document.causes) & set(document.effects)):
            message = f"{', '.join(overlap)} is both cause and effect"
            problems.append(rule.problem("effects", message=message))
    return problems


def _unknown_name(name: str, known: set[str], used_tags: set[str]) -> str | None:
    if not name.startswith("#"):
        return None if name in known else f"unknown symptom {name!r}{suggest(name, known)}"
    if name[1:] not in TAGS:
        return _unknown_tag(name[1:])
    return None if name[1:] in used_tags else f"no symptom carries tag {name!r} yet"


def _check_explanations(rules: Sequence[LoadedRule]) -> list[Problem]:
    """Warn of a `{place}` that no signature of a file with signatures can fill."""
    filled: dict[str, set[str]] = {}
    for rule in rules:
        said = {meaning.symptom for meaning in meanings(rule.document)}
        said.update({rule.document.symptom} if rule.document.kind == "signature" else ())
        for name in said:
            for signature in getattr(rule.document, "signatures", ()):
                names = filled.setdefault(name, set(_OWN_PLACES))
                names.update(_CAPTURE.findall(f"{signature.scan} {signature.extract or ''}"))
                names.update(signature.set, BLOCK_FIELDS.get(signature.block or "", ()))
    return [
        rule.warning(
            *loc,
            "explanation",
            message=f"explanation: nothing captures {place!r}, so it reads `(unknown)`"
            f"{suggest(place, known)}",
        )
        for rule in rules
        for loc, meaning in zip(_meaning_locs(rule), meanings(rule.document), strict=True)
        if (known := filled.get(meaning.symptom))
        for place in _PLACE.findall(meaning.explanation)
        if place not in known
    ]


def _check_families(rules: Sequence[LoadedRule]) -> list[Problem]:
    problems: list[Problem] = []
    for rule in rules:
        if not isinstance(rule.document, FamilyRule):
            continue
        taken: dict[str, int] = {}
        for index, row in enumerate(rule.document.rows):
            hidden = [code for code in row.code if code in taken]
            if hidden:
                first = taken[hidden[0]] + 1
                message = f"row {index + 1} never matches {', '.join(hidden)}: row {first} takes it"
                problems.append(rule.problem("rows", index, "code", message=message))
            if not row.code:
                problems.append(rule.problem("rows", index, "code", message="code: empty"))
            if not (row.when or row.match_text or row.unless_text):
                taken.update(dict.fromkeys([c for c in row.code if c not in taken], index))
    return problems


def _check_metrics(rules: Sequence[LoadedRule]) -> list[Problem]:
    problems: list[Problem] = []
    needs = {
        "above": "threshold", "below": "threshold", "increase": "threshold",
        "value_in": "values", "bits": "mask", "outlier_low": "ratio", "outlier_high": "ratio",
    }  # fmt: skip
    for rule in rules:
        document = rule.document
        if not isinstance(document, MetricRule):
            continue
        needed = needs[document.detector]
        if not getattr(document, needed):
            message = f"detector {document.detector!r} needs `{needed}:`"
            problems.append(rule.problem("detector", message=message))
        for key in ("threshold", "ratio", "for_fraction"):
            value = getattr(document, key)
            if value is not None and not re.fullmatch(r"-?\d+(\.\d+)?", value):
                problems.append(rule.problem(key, message=f"{key}: {value!r} is no decimal number"))
        if document.mask is not None and not re.fullmatch(r"0x[0-9a-fA-F]+|\d+", document.mask):
            problems.append(rule.problem("mask", message=f"mask: {document.mask!r} is no number"))
    return problems
