"""The queries for a job's nodes and window, and answers as text with one sample a line. Pure."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from engine.model.contract import Document

_MIN_STEP_S: Final = 30
_MAX_POINTS: Final = 2_000
"""Of a long run so many points a series; Prometheus itself refuses more than 11,000."""
_META: Final = re.compile(r"([\\.+*?()|\[\]{}^$])")


class MetricQuery(Document):
    """One metric that rules read: its name, the label that names the node, and fixed labels.

    `screens` are conditions on `$series`, a range selector: no rule fires on a series for which
    none holds. Empty where a rule compares series with each other.
    """

    metric: str
    node_label: str = "instance"
    labels: dict[str, str] = Field(default={})
    screens: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class Stretch:
    """A piece of time in seconds since the epoch; `step_s` 0 asks for the samples themselves."""

    start_s: int
    end_s: int
    step_s: int = 0


def read_queries(text: str) -> list[MetricQuery]:
    """Return the queries of an item, sorted by metric; raises `ValueError`."""
    found = [MetricQuery.model_validate(each) for each in json.loads(text)]
    return sorted(found, key=lambda each: each.model_dump_json())


def selector(
    metrics: Sequence[str],
    *,
    equal: Mapping[str, str],
    node_label: str = "",
    nodes: Sequence[str] = (),
    suffix: str = "",
) -> str:
    """Return a selector of metrics, with equal labels and the nodes by name."""
    parts = [f'__name__="{metrics[0]}"'] if len(metrics) == 1 else []
    if len(metrics) > 1:
        parts.append(f"__name__=~{quoted(alternatives(metrics))}")
    parts += [f"{name}={quoted(equal[name])}" for name in sorted(equal)]
    if nodes:
        names = f"(?:{alternatives(nodes)}){suffix}"
        parts.append(f"{node_label}=~{quoted(names)}")
    return "{" + ",".join(parts) + "}"


def alternatives(texts: Sequence[str]) -> str:
    """Return an RE2 alternation of literal texts, sorted."""
    return "|".join(_META.sub(r"\\\1", each) for each in sorted(set(texts)))


def quoted(text: str) -> str:
    r"""Return a PromQL or LogQL string: double quotes with Go's escapes."""
    body = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{body}"'


def stretches(start_s: int, end_s: int, *, raw_s: int) -> list[Stretch]:
    """Return what to ask: samples for the last `raw_s`, a coarse range for what lies before.

    Samples keep gaps, resets and their own times; a range fills up to five minutes (staleness)
    and is asked for only where samples would be too many.
    """
    raw_start = max(start_s, end_s - raw_s)
    found = []
    if raw_start > start_s:
        step = max(_MIN_STEP_S, math.ceil((raw_start - start_s) / _MAX_POINTS))
        found.append(Stretch(start_s, raw_start - 1, step))
    found.append(Stretch(raw_start, end_s))
    return found


def halves(stretch: Stretch) -> list[Stretch]:
    """Return a stretch in two pieces that share no moment; samples are at whole milliseconds."""
    middle = (stretch.start_s + stretch.end_s) // 2
    return [
        Stretch(stretch.start_s, middle, stretch.step_s),
        Stretch(middle + (1 if stretch.step_s else 0), stretch.end_s, stretch.step_s),
    ]


def sample_lines(results: Iterable[Any], rename: Mapping[str, str]) -> dict[str, list[str]]:
    """Return per series its lines, `name{labels} value milliseconds`, one for each moment."""
    found: dict[str, dict[int, str]] = {}
    for each in results:
        record = each if isinstance(each, Mapping) else {}
        metric = record.get("metric")
        if not isinstance(metric, Mapping):
            continue
        labels = {rename.get(str(k), str(k)): str(v) for k, v in metric.items()}
        head = _head(labels)
        pairs = record.get("values") or [record.get("value")]
        points = found.setdefault(head, {})
        for pair in pairs if isinstance(pairs, list) else ():
            if isinstance(pair, list) and len(pair) == 2:
                at_ms = round(float(pair[0]) * 1000)
                points[at_ms] = f"{head} {pair[1]} {at_ms}"
    return {head: [points[at] for at in sorted(points)] for head, points in sorted(found.items())}


def _head(labels: Mapping[str, str]) -> str:
    inner = ",".join(f"{name}={quoted(labels[name])}" for name in sorted(labels)
                     if name != "__name__")  # fmt: skip
    return f"{labels.get('__name__', 'unnamed')}{{{inner}}}"
