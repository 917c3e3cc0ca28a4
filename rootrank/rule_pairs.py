"""The firing and the silent case of every rule about causes, made from samples of both sides.

For a pair of cause and effect the sample of each becomes a file of one small bundle, on one node
and one rank, and the reasoning must connect them by that rule; the effect alone must stay without
it. Written cases say what a verdict looks like; these say that a rule can fire at all: that its
symptoms are seen where its joins need them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.case import Case
from engine.extract.scanner import Scanner
from engine.model.vocabulary import Source
from engine.pipeline import reason
from engine.rulebook.book import CauseDef, Rulebook
from engine.rulebook.cases import CaseDocument, CaseEvidence, Expectation
from engine.rulebook.document import FamilyRule, SignatureRule, SymptomRule
from engine.rulebook.load import LoadedRule
from rootrank.local_case import read_case
from rootrank.rule_cases import write_bundle

_TRIES: Final = 12
_SOURCE_ORDER: Final = ("syslog", "applog", "inventory", "scheduler", "kubernetes")
_MADE: Final = frozenset({"metrics", "flight_recorder"})
NODE: Final = "node-001"
_OWN: Final = (
    (re.compile(r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]{5,15}(?:Z|[+-]\d\d:?\d\d)?\]? "), ""),
    (re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "), ""),
    (re.compile(r"\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\b"), "0000:18:00"),
    (re.compile(r"(JobId=|slurm\.job id=|[Ss]tepId=|launch for )\d+"), r"\g<1>1"),
    (re.compile(r"\b(?:gpu|worker|compute|node)-?\d{2,4}\b"), NODE),
)


@dataclass(slots=True, frozen=True)
class Shown:
    """A line that shows a symptom, and the source that it is read from."""

    source: Source
    text: str


@dataclass(slots=True, frozen=True)
class PairTrial:
    """How one rule about causes went. `reason` says why it could not be tried or failed."""

    rule: str
    fires: bool
    silent: bool
    reason: str = ""


def shown_by(rules: Iterable[LoadedRule]) -> dict[str, list[Shown]]:
    """Return each symptom's samples, those of node logs first."""
    found: dict[str, list[Shown]] = {}
    for rule in rules:
        for symptom, shown in _samples(rule):
            found.setdefault(symptom, []).append(shown)
    for samples in found.values():
        samples.sort(key=lambda each: (_SOURCE_ORDER.index(each.source), each.text))
    return found


def _samples(rule: LoadedRule) -> Iterator[tuple[str, Shown]]:
    document = rule.document
    match document:
        case SymptomRule() | SignatureRule():
            for signature in document.signatures:
                source = _source(signature.sources)
                if source is not None:
                    for text in signature.samples:
                        yield document.symptom, Shown(source, text)
        case FamilyRule():
            source = _source(document.signatures[0].sources)
            if source is not None:
                for row in document.rows:
                    for text in row.samples:
                        yield row.symptom, Shown(source, text)
        case _:
            return


def _source(sources: Iterable[Source]) -> Source | None:
    known = [each for each in sources if each not in _MADE]
    return min(known, key=_SOURCE_ORDER.index) if known else None


def run_pairs(
    book: Rulebook, shown: Mapping[str, list[Shown]], *, scanner: Scanner, only: set[str] | None
) -> list[PairTrial]:
    """Try every stable rule about causes (of `only`, where given), in the book's order."""
    cases: dict[tuple[Shown, ...], Case] = {}

    def connects(rule: CauseDef, lines: tuple[Shown, ...]) -> bool:
        if lines not in cases:
            cases[lines] = _case_of(lines, book, scanner)
        findings = reason(cases[lines], replace(book, causes=(rule,), python={}))
        return any(edge.rule == rule.rule for edges in findings.graph.parents for edge in edges)

    return [
        _try(cause, shown, connects)
        for cause in book.causes
        if cause.status == "stable" and (only is None or cause.rule in only)
    ]


def _try(
    rule: CauseDef,
    shown: Mapping[str, list[Shown]],
    connects: Callable[[CauseDef, tuple[Shown, ...]], bool],
) -> PairTrial:
    pairs = list(_pairs(rule, shown))
    if not pairs:
        return PairTrial(rule.rule, fires=False, silent=False, reason="no sample of both sides")
    needed = tuple(shown[name][0] for name in rule.requires if name in shown)
    for cause, effect in pairs:
        if connects(rule, (cause, *needed, effect)):
            alone = connects(rule, (effect, *needed))
            return PairTrial(rule.rule, fires=True, silent=not alone)
    return PairTrial(rule.rule, fires=False, silent=True, reason="no pair of samples connects")


def _pairs(rule: CauseDef, shown: Mapping[str, list[Shown]]) -> Iterator[tuple[Shown, Shown]]:
    """A few pairs, first those of different symptoms."""
    causes = [name for name in rule.causes if name in shown]
    effects = [name for name in rule.effects if name in shown]
    if not causes or not effects:
        return
    for turn in range(min(_TRIES, max(len(causes), len(effects)))):
        yield (
            shown[causes[turn % len(causes)]][0],
            shown[effects[turn % len(effects)]][0],
        )


def _bare(text: str) -> str:
    """A sample about the trial's own job and device, and at no time of its own."""
    for pattern, instead in _OWN:
        text = pattern.sub(instead, text)
    return text


def _case_of(lines: tuple[Shown, ...], book: Rulebook, scanner: Scanner) -> Case:
    """The lines as a bundle: on one node and rank, about one device and one job, without times."""
    evidence = tuple(
        CaseEvidence(
            source=each.source, text=_bare(each.text) + "\n", path=f"{place:02d}.log",
            node=() if each.source in ("scheduler", "kubernetes") else (NODE,),
            rank=(0,) if each.source == "applog" else (),
        )
        for place, each in enumerate(lines)
    )  # fmt: skip
    workload = {
        "job_id": "1", "world_size": "1", "start": "2025-01-01T00:00:00Z",
        "end": "2025-01-01T02:00:00Z", "ranks": [{"rank": "0", "node": NODE, "gpu": "0"}],
    }  # fmt: skip
    document = CaseDocument(
        name="pair", workload=workload, evidence=evidence, expect=Expectation(domain=("none",))
    )
    with TemporaryDirectory(prefix="pairs-") as name:
        write_bundle(document, Path(name))
        return read_case(Path(name), book=book, scanner=scanner).case
