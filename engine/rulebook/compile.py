"""Rule documents to the compiled rulebook: the same documents in any order give the same book."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from engine.model.canonical import digest
from engine.rulebook.book import (
    Action,
    CauseDef,
    FamilyCase,
    MetricDef,
    OnsetTimer,
    Rulebook,
    SignatureDef,
    SymptomDef,
)
from engine.rulebook.document import (
    CauseRule,
    FamilyRow,
    FamilyRule,
    Meaning,
    MetricRule,
    Onset,
    Signature,
    SignatureRule,
    SymptomRule,
)
from engine.rulebook.load import LoadedRule, Rule
from engine.rulebook.pattern import automaton_form

_UNIT_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000}


def compile_rules(
    rules: Iterable[LoadedRule], *, version: str, python: Mapping[str, str] | None = None
) -> Rulebook:
    """Build the rulebook of documents that `check` found without errors."""
    documents = [rule.document for rule in rules]
    return compile_documents(documents, version=version, python=python)


def compile_documents(
    documents: Sequence[Rule], *, version: str, python: Mapping[str, str] | None = None
) -> Rulebook:
    """Build the rulebook: indices in (rule, signature name) order, tags resolved, digests set.

    `python` maps the modules of Python rules to the digests of their source.
    """
    ordered = sorted(documents, key=lambda document: document.id)
    signatures = numbered(signature for document in ordered for signature in _signatures(document))
    symptoms = _symptoms(ordered)
    tagged = symptoms_by_tag(symptoms.values())
    causes = tuple(_cause(item, tagged) for item in ordered if isinstance(item, CauseRule))
    metrics = tuple(_metric(item) for item in ordered if isinstance(item, MetricRule))
    return Rulebook(
        version=version,
        extraction_digest=extraction_digest(signatures, metrics),
        reasoning_digest=reasoning_digest(symptoms, causes, python or {}),
        signatures=signatures,
        symptoms=symptoms,
        causes=causes,
        metrics=metrics,
        python=dict(sorted((python or {}).items())),
    )


def meanings(document: Rule) -> list[Meaning]:
    """The symptoms that a rule defines, in file order; a family's default comes last."""
    match document:
        case SymptomRule() | MetricRule():
            return [document]
        case FamilyRule():
            return [*document.rows, document.default]
        case _:
            return []


def symptom_def(meaning: Meaning, document: Rule) -> SymptomDef:
    """One symptom as the engine reads it; `document` is the rule that defines it."""
    return SymptomDef(
        symptom=meaning.symptom,
        rule=document.id,
        status=document.status,
        title=meaning.title,
        domain=meaning.domain,
        role=meaning.role,
        tier=meaning.tier,
        manifestation=meaning.manifestation,
        entity=meaning.entity,
        proof=meaning.proof,
        alone=meaning.alone,
        rivals=tuple(sorted(set(meaning.rivals) - {meaning.domain})),
        terminal=meaning.terminal,
        accuses=meaning.accuses,
        tags=tuple(sorted(meaning.tags)),
        about=meaning.about,
        explanation=meaning.explanation,
        actions=tuple(Action(a.action, a.target, a.reason) for a in meaning.actions),
    )


def symptoms_by_tag(symptoms: Iterable[SymptomDef]) -> dict[str, list[str]]:
    """Tag to the sorted symptoms that carry it."""
    tagged: dict[str, list[str]] = {}
    for symptom in sorted(symptoms, key=lambda item: item.symptom):
        for tag in symptom.tags:
            tagged.setdefault(tag, []).append(symptom.symptom)
    return tagged


def signature_def(
    document: SymptomRule | SignatureRule | FamilyRule, signature: Signature
) -> SignatureDef:
    """One signature as collectors read it; its index is set when the book is built."""
    family = document if isinstance(document, FamilyRule) else None
    return SignatureDef(
        index=0,
        rule=document.id,
        name=signature.name,
        symptom=document.default.symptom if isinstance(document, FamilyRule) else document.symptom,
        sources=tuple(sorted(set(signature.sources))),
        proves_from=tuple(sorted(set(signature.proves_from))),
        scan=automaton_form(signature.scan),
        extract=signature.extract if signature.extract is not None else signature.scan,
        ignore_case=signature.ignore_case,
        identity=tuple(sorted(set(signature.identity))),
        when={key: tuple(values) for key, values in sorted(signature.when.items())},
        unless=tuple(signature.unless),
        block=signature.block,
        set=dict(sorted(signature.set.items())),
        onset=_onset(signature.onset),
        family_key=family.key if family else None,
        family=tuple(_family_case(row) for row in family.rows) if family else (),
        block_has=tuple(signature.block_has),
        block_lacks=tuple(signature.block_lacks),
        gives_way=signature.gives_way,
    )


def _signatures(document: Rule) -> list[SignatureDef]:
    if isinstance(document, SymptomRule | SignatureRule | FamilyRule):
        return [signature_def(document, signature) for signature in document.signatures]
    return []


def numbered(signatures: Iterable[SignatureDef]) -> tuple[SignatureDef, ...]:
    """Return signatures in (rule, name) order, each with its place there as index."""
    ordered = sorted(signatures, key=lambda signature: (signature.rule, signature.name))
    return tuple(replace(signature, index=index) for index, signature in enumerate(ordered))


def _symptoms(ordered: Sequence[Rule]) -> dict[str, SymptomDef]:
    found: dict[str, SymptomDef] = {}
    for document in ordered:
        for meaning in meanings(document):
            found.setdefault(meaning.symptom, symptom_def(meaning, document))
    return dict(sorted(found.items()))


def _family_case(row: FamilyRow) -> FamilyCase:
    return FamilyCase(
        codes=tuple(row.code),
        when={key: tuple(values) for key, values in sorted(row.when.items())},
        match_text=row.match_text,
        unless_text=row.unless_text,
        symptom=row.symptom,
    )


def _onset(onset: Onset | None) -> OnsetTimer | None:
    if onset is None:
        return None
    return OnsetTimer(onset.field, _UNIT_US[onset.unit], onset.default, onset.min, onset.max)


def _cause(rule: CauseRule, tagged: dict[str, list[str]]) -> CauseDef:
    return CauseDef(
        rule=rule.id,
        status=rule.status,
        title=rule.title,
        causes=_resolved(rule.causes, tagged),
        effects=_resolved(rule.effects, tagged),
        joins=tuple(sorted(set(rule.join))),
        min_us=rule.window.min,
        max_us=rule.window.max,
        strength=rule.strength,
        requires=_resolved(rule.requires, tagged),
        unless=_resolved(rule.unless, tagged),
        cause_tags=_tags(rule.causes),
        effect_tags=_tags(rule.effects),
    )


def _resolved(names: Iterable[str], tagged: dict[str, list[str]]) -> tuple[str, ...]:
    found: set[str] = set()
    for name in names:
        found.update(tagged.get(name[1:], ()) if name.startswith("#") else (name,))
    return tuple(sorted(found))


def _tags(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name[1:] for name in names if name.startswith("#")))


def _metric(rule: MetricRule) -> MetricDef:
    return MetricDef(
        rule=rule.id,
        symptom=rule.symptom,
        metrics=tuple(rule.metric),
        promql=rule.promql,
        detector=rule.detector,
        threshold=rule.threshold,
        ratio=rule.ratio,
        mask=rule.mask,
        values=tuple(rule.values),
        for_fraction=rule.for_fraction,
        labels=dict(sorted(rule.labels.items())),
    )


def extraction_digest(signatures: tuple[SignatureDef, ...], metrics: tuple[MetricDef, ...]) -> str:
    """Return the digest of all that collectors read."""
    return _digest_of([signatures, metrics])


def reasoning_digest(
    symptoms: Mapping[str, SymptomDef], causes: tuple[CauseDef, ...], python: Mapping[str, str]
) -> str:
    """Return the digest of all that the reasoning reads, the source of Python rules included."""
    return _digest_of([dict(symptoms), causes, dict(sorted(python.items()))])


def _digest_of(value: Any) -> str:
    return digest(msgspec.to_builtins(value))
