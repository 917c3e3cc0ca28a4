"""The firing and the silent case of every rule about metrics, made from its own numbers."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from engine.extract.scanner import Scanner
from engine.rulebook.book import MetricDef, Rulebook
from engine.rulebook.cases import CaseDocument, CaseEvidence, Expectation
from rootrank.local_case import read_case
from rootrank.rule_cases import write_bundle

_START_MS: Final = 1_735_689_600_000  # 2025-01-01T00:00:00Z
_STEP_MS: Final = 60_000
_SAMPLES: Final = 60
_NODES: Final = ("node-001", "node-002", "node-003", "node-004")
_BESIDE: Final = Decimal(1000)


@dataclass(slots=True, frozen=True)
class SeriesTrial:
    """How one rule about metrics went on samples that agree with it, and on others."""

    rule: str
    fires: bool
    silent: bool


def run_series(book: Rulebook, *, scanner: Scanner, only: set[str] | None) -> list[SeriesTrial]:
    """Try every rule about metrics (of `only`, where given), in the book's order."""
    return [
        SeriesTrial(
            metric.rule,
            fires=metric.rule in _seen(metric, book, scanner, agrees=True),
            silent=metric.rule not in _seen(metric, book, scanner, agrees=False),
        )
        for metric in book.metrics
        if only is None or metric.rule in only
    ]


def _seen(metric: MetricDef, book: Rulebook, scanner: Scanner, *, agrees: bool) -> set[str]:
    workload = {
        "job_id": "1", "state": "UNKNOWN", "exit_code": "", "nodes": list(_NODES),
        "start": "2025-01-01T00:00:00Z", "end": "2025-01-01T01:00:00Z",
    }  # fmt: skip
    document = CaseDocument(
        name="series",
        workload=workload,
        evidence=(CaseEvidence(source="metrics", text=_text(metric, agrees=agrees)),),
        expect=Expectation(domain=("none",)),
    )
    with TemporaryDirectory(prefix="series-") as name:
        write_bundle(document, Path(name))
        case = read_case(Path(name), book=book, scanner=scanner).case
    return {observation.rule.partition("#")[0] for observation in case.observations}


def _text(metric: MetricDef, *, agrees: bool) -> str:
    """One series on the first node, and for outliers those of its peers."""
    lines: list[str] = []
    outlier = metric.detector.startswith("outlier")
    for place, node in enumerate(_NODES if outlier else _NODES[:1]):
        values = _values(metric, agrees=agrees and place == 0)
        labels = {"Hostname": node, "gpu": "0", "device": "mlx5_0", **metric.labels}
        shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
        lines.extend(
            f"{metric.metrics[0]}{{{shown}}} {value} {_START_MS + number * _STEP_MS}"
            for number, value in enumerate(values)
        )
    return "\n".join(lines) + "\n"


def _values(metric: MetricDef, *, agrees: bool) -> Iterable[Decimal]:
    """Quiet in the first half of the window, and as the detector looks for in the second."""
    quiet, loud = _levels(metric)
    half = _SAMPLES // 2
    if not agrees:
        return [quiet] * _SAMPLES
    if metric.for_fraction != "0" or metric.detector.startswith("outlier"):
        return [loud] * _SAMPLES
    return [quiet] * half + [loud] * half


def _levels(metric: MetricDef) -> tuple[Decimal, Decimal]:
    match metric.detector:
        case "above" | "increase":
            threshold = Decimal(metric.threshold or 0)
            return threshold - 1 if metric.detector == "above" else Decimal(5), threshold + 10
        case "below":
            threshold = Decimal(metric.threshold or 0)
            return threshold + 1, threshold - (threshold / 2 or 1)
        case "value_in":
            quiet = next(str(n) for n in range(100) if str(n) not in metric.values)
            return Decimal(quiet), Decimal(metric.values[0])
        case "bits":
            mask = int(metric.mask or "1", 0)
            return Decimal(0), Decimal(mask & -mask)
        case _:
            ratio = Decimal(metric.ratio or 1)
            beyond = ratio / 2 if metric.detector == "outlier_low" else ratio * 2
            return _BESIDE, _BESIDE * beyond
