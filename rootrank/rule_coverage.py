"""Which rules have a firing and a silent case, whether written or made from samples."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.extract.scanner import Scanner
from engine.history import read_history
from engine.model.verdict import Verdict
from engine.pipeline import reason
from engine.python_rules import RECOVERED
from engine.report.document import Findings, write_verdict
from engine.rulebook.book import Rulebook
from engine.rulebook.document import CauseRule, MetricRule
from engine.rulebook.load import LoadedRule
from rootrank.local_case import read_case
from rootrank.rule_pairs import PairTrial, run_pairs, shown_by
from rootrank.rule_series import SeriesTrial, run_series

# Python rules that set episodes aside, by the reason they give.
_SETTING_ASIDE = {RECOVERED: "python/recovered", "other_process": "python/other_process_oom"}


@dataclass(slots=True)
class CaseWatch:
    """Attributes written cases and keeps which rules took part, and which had to stay away."""

    book: Rulebook
    scanner: Scanner
    fired: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)

    def attribute(self, path: Path) -> Verdict:
        """Return the verdict of a bundle folder."""
        case = read_case(path, book=self.book, scanner=self.scanner).case
        findings = reason(case, self.book)
        self._note(findings)
        return write_verdict(findings, read_history(case, findings.decision))

    def _note(self, findings: Findings) -> None:
        symptoms = {episode.symptom for episode in findings.episodes}
        fired = {edge.rule for edges in findings.graph.parents for edge in edges}
        fired.update(
            observation.rule.partition("#")[0] for observation in findings.case.observations
        )
        fired.update(d.rule for name, d in self.book.symptoms.items() if name in symptoms)
        reasons = {episode.reason for episode in findings.episodes}
        fired.update(rule for reason, rule in _SETTING_ASIDE.items() if reason in reasons)
        self.fired |= fired
        self.silent.update(
            cause.rule
            for cause in self.book.causes
            if cause.rule not in fired and not symptoms.isdisjoint(cause.effects)
        )
        self.silent.update(d.rule for d in self.book.symptoms.values() if d.rule not in fired)
        self.silent.update({f"python/{name}" for name in self.book.python} - fired)


@dataclass(slots=True, frozen=True)
class Coverage:
    """The rules that were asked about, and those that lack a case."""

    rules: tuple[str, ...]
    never_fire: tuple[str, ...]
    never_silent: tuple[str, ...]

    def __str__(self) -> str:
        """One line for the terminal, and one for each kind of gap."""
        total = len(self.rules)
        text = (
            f"coverage: {total - len(self.never_fire)} of {total} rules have a firing case, "
            f"{total - len(self.never_silent)} a silent one"
        )
        for title, names in (("firing", self.never_fire), ("silent", self.never_silent)):
            text += f"\n  without a {title} case: {', '.join(names)}" if names else ""
        return text


def cover(
    tried: Sequence[LoadedRule], all_rules: Sequence[LoadedRule], *, watch: CaseWatch
) -> Coverage:
    """Return the coverage of the `tried` rules; `all_rules` are where samples come from."""
    names = {rule.document.id for rule in tried if rule.document.status == "stable"}
    if len(tried) == len(all_rules):
        names.update(f"python/{name}" for name in watch.book.python)
    causes = {rule.document.id for rule in tried if isinstance(rule.document, CauseRule)}
    metrics = {rule.document.id for rule in tried if isinstance(rule.document, MetricRule)}
    pairs = run_pairs(watch.book, shown_by(all_rules), scanner=watch.scanner, only=causes)
    series = run_series(watch.book, scanner=watch.scanner, only=metrics)
    fires, silent = set(watch.fired), set(watch.silent)
    trials: list[PairTrial | SeriesTrial] = [*pairs, *series]
    fires.update(trial.rule for trial in trials if trial.fires)
    silent.update(trial.rule for trial in trials if trial.silent and trial.fires)
    for rule in tried:
        for signature in getattr(rule.document, "signatures", ()):
            fires.update([rule.document.id] if signature.samples else [])
            silent.update([rule.document.id] if signature.near_misses else [])
    return Coverage(
        tuple(sorted(names)), tuple(sorted(names - fires)), tuple(sorted(names - silent))
    )
