"""Metric rules on series: samples to `metric_change` observations."""

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final

from engine.extract.formats.series import Point, Series
from engine.model.moment import to_us
from engine.model.observation import Observation, Origin, Sample, When
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from engine.rulebook.book import MetricDef, Rulebook

MIN_PEERS: Final = 2
_PAD_US: Final = 60_000_000
"""A sample up to a scrape interval outside the attempt still speaks of it."""


@dataclass(slots=True, frozen=True)
class Finding:
    """The points that agree with a rule, the point before them, and what was measured."""

    points: tuple[Point, ...]
    before: Point | None
    total: int
    fields: dict[str, str]


def detect(
    series: Sequence[Series],
    book: Rulebook,
    *,
    label: StreamLabel,
    workload: Workload,
    connector: str,
) -> list[Observation]:
    """Evaluate every metric rule on every series of its metrics."""
    observations = []
    window = _window(workload)
    for rule in sorted(book.metrics, key=lambda each: each.rule):
        candidates = [
            (each, points)
            for each in series
            if each.metric in rule.metrics
            and all(each.labels.get(key) == value for key, value in rule.labels.items())
            and (points := [point for point in each.points if _is_inside(point, window)])
        ]
        for each, points in candidates:
            peers = [mean_of(p) for other, p in candidates if _are_peers(each, other)]
            finding = evaluate(rule, each.metric, points, peers=peers)
            if finding is not None:
                observations.append(
                    _observation(
                        rule, each, finding,
                        label=label, connector=connector, digest=book.extraction_digest,
                    )
                )  # fmt: skip
    return observations


def _window(workload: Workload) -> tuple[int | None, int | None]:
    start = to_us(workload.start) - _PAD_US if workload.start else None
    end = to_us(workload.end) + _PAD_US if workload.end else None
    return start, end


def _is_inside(point: Point, window: tuple[int | None, int | None]) -> bool:
    if point.us is None:
        return True
    start, end = window
    return (start is None or point.us >= start) and (end is None or point.us <= end)


def _are_peers(one: Series, other: Series) -> bool:
    return one is not other and one.metric == other.metric and one.entity != other.entity


def mean_of(points: Sequence[Point]) -> float:
    """Return the mean value."""
    return statistics.fmean(point.value for point in points)


def evaluate(
    rule: MetricDef, metric: str, points: Sequence[Point], *, peers: Sequence[float]
) -> Finding | None:
    """Return the finding of one rule on one series' points, or None."""
    fields = {
        "metric": metric,
        "samples": str(len(points)),
        "mean": decimal_text(mean_of(points)),
        "first_value": decimal_text(points[0].value),
        "last_value": decimal_text(points[-1].value),
    }
    if rule.detector == "increase":
        return _increase(rule, points, fields)
    if rule.detector in ("outlier_low", "outlier_high"):
        return _outlier(rule, points, peers=peers, fields=fields)
    agree = [point for point in points if _agrees(rule, point.value)]
    if "XID" in metric.upper():
        # The gauge holds the last code for ever: a code from before the job says nothing of it.
        agree = [point for point in agree if point.value != points[0].value]
    return _enough(rule, points, agree, fields=fields)


def _agrees(rule: MetricDef, value: float) -> bool:
    if rule.detector == "above":
        return value > _number(rule.threshold)
    if rule.detector == "below":
        return value < _number(rule.threshold)
    if rule.detector == "value_in":
        return any(value == _number(each) for each in rule.values)
    if rule.detector == "bits":
        mask = int(rule.mask or "0", 0)
        return value >= 0 and value == int(value) and bool(int(value) & mask)
    return False


def _increase(rule: MetricDef, points: Sequence[Point], fields: dict[str, str]) -> Finding | None:
    rose = 0.0
    risen: list[Point] = []
    resets = 0
    for previous, point in itertools.pairwise(points):
        # A counter that falls was reset, and has counted up from zero since.
        is_reset = point.value < previous.value
        step = point.value if is_reset else point.value - previous.value
        resets += is_reset
        if step > 0:
            rose += step
            risen.append(point)
    if not risen or rose <= _number(rule.threshold or "0"):
        return None
    before = points[points.index(risen[0]) - 1]
    shown = {"increase": decimal_text(rose), "resets": str(resets)}
    return Finding(tuple(risen), before, len(points), fields | shown)


def _outlier(
    rule: MetricDef, points: Sequence[Point], *, peers: Sequence[float], fields: dict[str, str]
) -> Finding | None:
    if len(peers) < MIN_PEERS:
        return None
    median = statistics.median(peers)
    limit = median * _number(rule.ratio or "1")
    is_low = rule.detector == "outlier_low"
    mean = mean_of(points)
    if not (mean < limit if is_low else mean > limit):
        return None
    agree = [p for p in points if (p.value < limit if is_low else p.value > limit)]
    shown = {"peers_median": decimal_text(median), "peers": str(len(peers))}
    return _enough(rule, points, agree, fields=fields | shown)


def _enough(
    rule: MetricDef, points: Sequence[Point], agree: list[Point], *, fields: dict[str, str]
) -> Finding | None:
    if not agree or len(agree) < _number(rule.for_fraction or "0") * len(points):
        return None
    at = points.index(agree[0])
    before = points[at - 1] if at else None
    return Finding(tuple(agree), before, len(points), fields | {"agreeing": str(len(agree))})


def _number(text: str | None) -> float:
    try:
        return float(Decimal(text or "0"))
    except InvalidOperation:
        return float("nan")


def decimal_text(value: float) -> str:
    """Return a plain decimal with at most three places: documents hold no floats."""
    text = f"{value:.3f}"
    return text.rstrip("0").rstrip(".") if text.strip("-0.") else "0"


def _observation(
    rule: MetricDef,
    series: Series,
    finding: Finding,
    *,
    label: StreamLabel,
    connector: str,
    digest: str,
) -> Observation:
    first, last = finding.points[0], finding.points[-1]
    clock = series.entity.node
    onset = _when(first, clock)
    if finding.before is not None and finding.before.us is not None and first.us is not None:
        onset = When(finding.before.us, first.us, "sample", clock)
    return Observation(
        kind="metric_change",
        symptom=rule.symptom,
        rule=rule.rule,
        source=label.source,
        connector=connector,
        trust=label.trust,
        stream=label.uri,
        entity=series.entity,
        when=onset,
        count=len(finding.points),
        first=_sample(first, label, clock),
        last=_sample(last, label, clock),
        samples=(),
        fields=finding.fields,
        identity=("metric",),
        extraction_digest=digest,
    )


def _when(point: Point, clock: str) -> When:
    return When() if point.us is None else When(point.us, point.us, "sample", clock)


def _sample(point: Point, label: StreamLabel, clock: str) -> Sample:
    origin = Origin(label.uri, point.line.number, point.line.offset, point.line.length)
    return Sample(origin, _when(point, clock), (point.shown or point.line.text)[:1000])
