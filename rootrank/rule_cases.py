"""Runs the cases beside rules: each becomes a bundle folder and goes the way of any bundle."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from engine.model.verdict import Verdict
from engine.rulebook.cases import CaseDocument, RuleCase, differences, evidence_of, workload_of

AttributeBundle = Callable[[Path], Verdict]
"""A bundle folder to its verdict."""


@dataclass(slots=True, frozen=True)
class CaseResult:
    """How one case went; no difference and no error is a pass."""

    case: RuleCase
    differences: tuple[str, ...] = ()
    error: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the verdict was all that the case expects."""
        return not self.differences and self.error is None


def run_cases(cases: Iterable[RuleCase], *, attribute_bundle: AttributeBundle) -> list[CaseResult]:
    """Run every case in its own temporary folder, in the order given."""
    return [_run(case, attribute_bundle) for case in cases]


def write_bundle(case: CaseDocument, folder: Path) -> None:
    """Write the case as `workload.yaml` and the files that it names."""
    entries: list[dict[str, Any]] = []
    for number, evidence in enumerate(evidence_of(case), start=1):
        path = evidence.path or f"{number:02d}-{evidence.source}.log"
        target = (folder / path).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise ValueError(f"evidence path {path!r} leaves the bundle")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(evidence.text, encoding="utf-8")
        entry = evidence.model_dump(mode="json", exclude={"text"}, exclude_defaults=True)
        entries.append({**entry, "path": path, "source": evidence.source})
    document = {"workload": workload_of(case), "evidence": entries}
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    (folder / "workload.yaml").write_text(text, encoding="utf-8")


def _run(case: RuleCase, attribute_bundle: AttributeBundle) -> CaseResult:
    with TemporaryDirectory(prefix="case-") as name:
        folder = Path(name) / "bundle"
        folder.mkdir()
        try:
            write_bundle(case.document, folder)
            verdict = attribute_bundle(folder)
        except (ValueError, OSError) as error:
            return CaseResult(case, error=f"{type(error).__name__}: {error}")
    return CaseResult(case, tuple(differences(verdict, case.document.expect)))
