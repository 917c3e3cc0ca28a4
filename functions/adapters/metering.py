"""What a unit of work took: one EMF record, so that counting costs no API call, and its meter."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

METER: Final = "meter"
"""Name of the object metadata that says what making the object took."""
_CREATED: Final = "request-created."


@dataclass(slots=True, frozen=True)
class Meter:
    """Time, memory and AWS calls (`service.Operation` to count) of one invocation so far.

    It travels as metadata of the object that the invocation stores: the bytes of a plan or a
    receipt stay what the evidence makes them.
    """

    milliseconds: int = 0
    memory_mb: int = 0
    calls: Mapping[str, int] = field(default_factory=dict)

    def metadata(self) -> dict[str, str]:
        """Return the meter as object metadata."""
        told = {"ms": self.milliseconds, "mb": self.memory_mb, "calls": dict(self.calls)}
        return {METER: json.dumps(told, sort_keys=True, separators=(",", ":"))}

    @classmethod
    def read(cls, metadata: Mapping[str, str]) -> "Self | None":
        """Return the meter of an object; None where there is none, or none that can be read."""
        try:
            told = json.loads(metadata[METER])
            calls = {str(name): int(count) for name, count in told["calls"].items()}
            return cls(int(told["ms"]), int(told["mb"]), calls)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


class CallCount:
    """Counts the AWS calls of a session's clients; a retried call counts again."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def watch(self, session: Any) -> None:
        """Count for a boto3 session from now on, for clients that it makes later."""
        session.events.register(f"{_CREATED}*", self._count, unique_id="rootrank-calls")

    def since(self, before: Mapping[str, int]) -> dict[str, int]:
        """Return what was counted since `before`, a result of `snapshot`."""
        return {
            name: count - before.get(name, 0)
            for name, count in sorted(self._counts.items())
            if count > before.get(name, 0)
        }

    def snapshot(self) -> dict[str, int]:
        """Return the counts so far."""
        return dict(self._counts)

    def _count(self, event_name: str, **_: Any) -> None:
        self._counts[event_name.removeprefix(_CREATED)] += 1


def emit(
    counts: Mapping[str, int],
    *,
    details: Mapping[str, str] | None = None,
    milliseconds: Mapping[str, int] | None = None,
) -> None:
    """Print the counts and durations as one embedded-metric line.

    The stack's name (`service`) is the only dimension: every further value would be a metric of
    its own, at $0.30 a month. `details` are in the line all the same, for queries of the log.
    """
    metrics = EphemeralMetrics()
    for name, value in sorted((details or {}).items()):
        metrics.add_metadata(key=name, value=value)
    for name, count in sorted(counts.items()):
        metrics.add_metric(name=name, unit=MetricUnit.Count, value=count)
    for name, duration in sorted((milliseconds or {}).items()):
        metrics.add_metric(name=name, unit=MetricUnit.Milliseconds, value=duration)
    metrics.flush_metrics()
