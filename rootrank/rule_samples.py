"""Every sample and near miss of every signature through the real collectors.

The lint tries expressions on texts; here the whole extraction reads them as files of a bundle,
with its readers, unwrapping, blocks and folding. It is the firing and the silent case that every
rule has without writing one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.case import Case
from engine.extract.scanner import Scanner
from engine.model.vocabulary import Source
from engine.rulebook.book import Rulebook
from engine.rulebook.cases import CaseDocument, CaseEvidence, Expectation
from engine.rulebook.compile import signature_def
from engine.rulebook.document import FamilyRule, SignatureRule, SymptomRule
from engine.rulebook.load import LoadedRule
from engine.rulebook.problem import Problem
from engine.rulebook.trial import read_text
from rootrank.local_case import read_case
from rootrank.rule_cases import write_bundle

_UNREAD: frozenset[Source] = frozenset({"metrics"})


@dataclass(slots=True, frozen=True)
class _Trial:
    """One text that a rule must, or must not, be seen in."""

    signature: int
    key: str
    number: int
    text: str
    must_fire: bool


@dataclass(slots=True, frozen=True)
class SampleRun:
    """How many texts went through the collectors, and where the outcome was wrong."""

    texts: int
    problems: tuple[Problem, ...]


def run_samples(rules: Iterable[LoadedRule], *, book: Rulebook, scanner: Scanner) -> SampleRun:
    """Collect the samples and near misses of `rules`, one bundle a rule and source."""
    count = 0
    problems: list[Problem] = []
    for rule in rules:
        for source, trials in sorted(_trials(rule).items()):
            count += len(trials)
            seen = _seen_by(rule.document.id, source, trials, book=book, scanner=scanner)
            problems.extend(_wrong(rule, source, trials, seen))
    return SampleRun(count, tuple(sorted(problems)))


def _trials(rule: LoadedRule) -> dict[Source, list[_Trial]]:
    document = rule.document
    found: dict[Source, list[_Trial]] = {}
    if not isinstance(document, SymptomRule | SignatureRule | FamilyRule):
        return found
    readers = [signature_def(document, signature) for signature in document.signatures]
    for index, signature in enumerate(document.signatures):
        trials = [_Trial(index, "samples", n, t, True) for n, t in enumerate(signature.samples)]
        trials.extend(
            _Trial(index, "near_misses", n, t, False)
            for n, t in enumerate(signature.near_misses)
            if not any(read_text(reader, t) is not None for reader in readers)
        )
        for source in signature.sources:
            if source not in _UNREAD:
                found.setdefault(source, []).extend(trials)
    return found


def _seen_by(
    rule_id: str, source: Source, trials: list[_Trial], *, book: Rulebook, scanner: Scanner
) -> set[int]:
    """The places, in `trials`, of the texts in which the rule was observed."""
    evidence = tuple(
        CaseEvidence(source=source, text=trial.text + "\n", path=f"{place:03d}.log")
        for place, trial in enumerate(trials)
    )
    # an unknown state, so that the workload's own fact is nobody's sample
    workload = {"state": "UNKNOWN", "exit_code": ""}
    document = CaseDocument(
        name="samples", workload=workload, evidence=evidence, expect=Expectation(domain=("none",))
    )
    with TemporaryDirectory(prefix="samples-") as name:
        write_bundle(document, Path(name))
        case = read_case(Path(name), book=book, scanner=scanner).case
    return set(_places(case, rule_id))


def _places(case: Case, rule_id: str) -> Iterator[int]:
    for observation in case.observations:
        name = Path(observation.first.origin.uri.partition("#")[0]).stem
        if observation.rule.partition("#")[0] == rule_id and name.isdecimal():
            yield int(name)


def _wrong(
    rule: LoadedRule, source: Source, trials: list[_Trial], seen: set[int]
) -> Iterator[Problem]:
    for place, trial in enumerate(trials):
        if (place in seen) == trial.must_fire:
            continue
        said = "is not seen by the collectors" if trial.must_fire else "is seen, and must not be"
        message = f"{trial.key} {trial.number + 1} {said} ({source})"
        loc = ("signatures", trial.signature, trial.key, trial.number)
        yield rule.problem(*loc, message=message)
