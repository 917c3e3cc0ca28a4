"""One EMF record a unit of work, so that counting costs no API call."""

from collections.abc import Mapping

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit


def emit(
    counts: Mapping[str, int],
    *,
    dimensions: Mapping[str, str] | None = None,
    milliseconds: Mapping[str, int] | None = None,
) -> None:
    """Print the counts and durations as one embedded-metric line."""
    metrics = EphemeralMetrics()
    for name, value in sorted((dimensions or {}).items()):
        metrics.add_dimension(name=name, value=value)
    for name, count in sorted(counts.items()):
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    for name, duration in sorted((milliseconds or {}).items()):
        metrics.add_metric(name=name, unit=MetricUnit.Milliseconds, value=duration)
    metrics.flush_metrics()
