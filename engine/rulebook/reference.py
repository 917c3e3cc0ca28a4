"""The reference pages, one a domain: the same bytes for the same rules."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.model.vocabulary import DOMAINS
from engine.rulebook.book import CauseDef, Rulebook, SymptomDef
from engine.rulebook.document import FamilyRule, MetricRule, SignatureRule, SymptomRule
from engine.rulebook.load import LoadedRule

INDEX_NAME: Final = "README.md"
_SAMPLE_WIDTH: Final = 240
_NAMED: Final = 10
_HEADER: Final = "<!-- Written by `rootrank rules docs`; change the rules, not this page. -->\n"
_ROLES: Final = {
    "root": "initiating", "lean_root": "initiating as a rule", "ambiguous": "needs a second sign",
    "confirm": "a detail of another event", "secondary": "a consequence", "teardown": "teardown",
    "marker": "a moment", "noise": "benign",
}  # fmt: skip


@dataclass(slots=True)
class _Entry:
    """What the files say of one symptom beside its meaning."""

    sample: str = ""
    code: str = ""
    reads: set[str] = field(default_factory=set)
    sources: list[str] = field(default_factory=list)
    promql: str = ""


def reference_pages(rules: Iterable[LoadedRule], book: Rulebook) -> dict[str, str]:
    """Return file name to text: an index and one page for each domain that has symptoms."""
    entries = _entries(rules)
    causes_of, effects_of = _neighbours(book.causes, book.symptoms)
    by_domain: dict[str, list[SymptomDef]] = defaultdict(list)
    for symptom in book.symptoms.values():
        by_domain[symptom.domain].append(symptom)
    pages = {INDEX_NAME: _index(by_domain, book)}
    for domain, symptoms in sorted(by_domain.items()):
        parts = [f"{_HEADER}# {domain}\n\n[All domains]({INDEX_NAME})\n"]
        for symptom in sorted(symptoms, key=lambda each: each.symptom):
            entry = entries.get(symptom.symptom, _Entry())
            linked = [
                ("Usual causes", causes_of[symptom.symptom]),
                ("Usual effects", effects_of[symptom.symptom]),
            ]
            parts.append(_section(symptom, entry, linked))
        pages[f"{domain}.md"] = "\n".join(parts)
    return pages


def _entries(rules: Iterable[LoadedRule]) -> dict[str, _Entry]:
    entries: dict[str, _Entry] = defaultdict(_Entry)
    for rule in sorted(rules, key=lambda each: each.document.id):
        document = rule.document
        match document:
            case SymptomRule() | SignatureRule():
                entry = entries[document.symptom]
                _add_signatures(entry, document)
                entry.sources.extend(document.sources)
            case FamilyRule():
                for row in (*document.rows, document.default):
                    entry = entries[row.symptom]
                    samples = getattr(row, "samples", ())
                    entry.sample = entry.sample or (samples[0] if samples else "")
                    entry.code = entry.code or ", ".join(getattr(row, "code", ()))
                    entry.sources.extend(document.sources)
                    entry.reads.update(s for each in document.signatures for s in each.sources)
            case MetricRule():
                entry = entries[document.symptom]
                entry.promql = entry.promql or document.promql
                entry.reads.add("metrics")
                entry.sources.extend(document.sources)
            case _:
                pass
    return entries


def _add_signatures(entry: _Entry, document: SymptomRule | SignatureRule) -> None:
    for signature in document.signatures:
        entry.reads.update(signature.sources)
        if signature.samples and not entry.sample:
            entry.sample = signature.samples[0]


def _neighbours(
    causes: Iterable[CauseDef], symptoms: Mapping[str, SymptomDef]
) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Sufficient cause rules that are in use: effect to causes, cause to effects.

    Where a rule speaks of a tag the tag stands for all that carry it.
    """
    causes_of: dict[str, set[str]] = defaultdict(set)
    effects_of: dict[str, set[str]] = defaultdict(set)
    for rule in causes:
        if rule.status == "stable" and rule.strength == "sufficient":
            for effect in rule.effects:
                causes_of[effect].update(_said(rule.causes, rule.cause_tags, symptoms))
            for cause in rule.causes:
                effects_of[cause].update(_said(rule.effects, rule.effect_tags, symptoms))
    return causes_of, effects_of


def _said(
    names: Iterable[str], tags: Iterable[str], symptoms: Mapping[str, SymptomDef]
) -> set[str]:
    told = {f"#{tag}" for tag in tags}
    for name in names:
        found = symptoms.get(name)
        if found is None or told.isdisjoint(f"#{tag}" for tag in found.tags):
            told.add(name)
    return told


def _index(by_domain: dict[str, list[SymptomDef]], book: Rulebook) -> str:
    total = len(book.symptoms)
    lines = [
        f"{_HEADER}# Reference of symptoms\n",
        f"{total} symptoms, {len(book.signatures)} line forms, {len(book.causes)} rules about "
        f"causes, {len(book.metrics)} about metrics. How to read an entry, and how to write one: "
        "[docs/rules.md](../rules.md).\n",
        "| domain | symptoms | initiating |",
        "|---|---|---|",
    ]
    for domain in DOMAINS:
        symptoms = by_domain.get(domain, [])
        if symptoms:
            roots = sum(each.role in ("root", "lean_root") for each in symptoms)
            lines.append(f"| [{domain}]({domain}.md) | {len(symptoms)} | {roots} |")
    lines.append("\n| symptom | domain | title |\n|---|---|---|")
    lines.extend(
        f"| {_link(each.symptom, book)} | {each.domain} | {_cell(each.title)} |"
        for each in sorted(book.symptoms.values(), key=lambda each: each.symptom)
        if each.role in ("root", "lean_root", "ambiguous")
    )
    return "\n".join(lines) + "\n"


def _section(symptom: SymptomDef, entry: _Entry, linked: list[tuple[str, set[str]]]) -> str:
    code = f" (code {entry.code})" if entry.code else ""
    told = [f"{_ROLES[symptom.role]}; tier {symptom.tier}; {symptom.proof} proof"]
    if symptom.role in ("root", "lean_root", "ambiguous"):
        rivals = f" (or {', '.join(symptom.rivals)})" if symptom.rivals else ""
        told.append(f"alone at most {symptom.alone}{rivals}")
        told.append(f"may name a {symptom.entity}" if symptom.accuses else "accuses nobody")
    if symptom.status != "stable":
        told.append(symptom.status)
    lines = [f"## {symptom.symptom}\n", f"**{symptom.title}**{code}: {'; '.join(told)}.\n"]
    text = " ".join(part for part in (symptom.about, symptom.explanation) if part)
    if text:
        lines.append(" ".join(text.split()) + "\n")
    if entry.sample:
        lines.append(f"```\n{_one_line(entry.sample)}\n```\n")
    if entry.promql:
        lines.append(f"```\n{entry.promql}\n```\n")
    lines.extend(f"- {title}: {_names(names)}" for title, names in linked if names)
    lines.extend(
        f"- Do: {action.action} ({action.target}): {action.reason.rstrip('.')}."
        for action in symptom.actions
    )
    if entry.reads:
        lines.append(f"- Read from: {', '.join(sorted(entry.reads))}")
    lines.append(f"- Rule: `{symptom.rule}`; sources: {_sources(entry.sources)}")
    return "\n".join(lines) + "\n"


def _names(names: set[str]) -> str:
    ordered = sorted(names)
    more = len(ordered) - _NAMED
    shown = ", ".join(ordered[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def _link(name: str, book: Rulebook) -> str:
    found = book.symptoms.get(name)
    return f"[{name}]({found.domain}.md#{name})" if found else f"`{name}`"


def _sources(sources: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(" ".join(source.split()) for source in sources)) or "the engine"


def _one_line(text: str) -> str:
    line = text.strip().split("\n")[0].replace("```", "'''")
    return line if len(line) <= _SAMPLE_WIDTH else line[: _SAMPLE_WIDTH - 1] + "…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
