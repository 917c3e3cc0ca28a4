"""Metric series: Prometheus text with timestamps and HTTP `query`/`query_range` answers."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.extract.formats.jsontext import JsonValue, as_dict, as_items
from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import Entity

# DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",Hostname="node-008"} 58 1770631200000
_SAMPLE = re.compile(
    r"^([A-Za-z_:][A-Za-z0-9_:]{0,200})(?:\{(.{0,4000})\})?\s+"
    r"([-+]?(?:\d[\d.]{0,30}(?:[eE][-+]?\d{1,3})?|[Ii]nf|NaN))(?:\s+(-?\d{1,19}(?:\.\d{1,9})?))?"
    r"(?:\s+#.{0,400})?\s*$"
)
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]{0,100})="((?:[^"\\]|\\.){0,1000})"')
_COMMENT = re.compile(r"^#\s*(?:HELP|TYPE|UNIT|EOF)\b")
_HOST_LABELS: Final = ("Hostname", "hostname", "node", "nodename", "kubernetes_node", "host")
_ADDRESS_LABELS: Final = ("instance", "exported_instance")
_GPU_LABELS: Final = ("gpu", "gpu_index", "index", "minor_number", "gpu_id")
_VOLATILE: Final = frozenset({
    "pod", "namespace", "container", "exported_pod", "exported_namespace", "exported_container",
    "modelName", "DCGM_FI_DRIVER_VERSION", "hpc_job", "job", "prometheus", "endpoint", "service",
    "instance", "err_msg", "__name__",
})  # fmt: skip
"""Labels that change while the thing measured stays the same."""


@dataclass(slots=True, frozen=True)
class Point:
    """One sample: microseconds (None for a scrape without a time), value, and its line."""

    us: int | None
    value: float
    line: Line
    shown: str = ""


@dataclass(slots=True)
class Series:
    """One metric of one thing, its points in time order."""

    metric: str
    labels: dict[str, str]
    entity: Entity
    points: list[Point] = field(default_factory=list)


def read_series(sheet: Sheet, documents: Sequence[JsonValue]) -> list[Series]:
    """Consume metric text and JSON answers; return the job's series in a stable order.

    Series of hosts that the job did not run on are consumed and dropped.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
    for metric, labels, point in _points(sheet, documents):
        entity = entity_of(sheet, labels)
        if entity is None:
            continue
        kept = tuple(sorted((k, v) for k, v in labels.items() if k not in _VOLATILE))
        # node_exporter tells its nodes apart by `instance` alone, which is not kept.
        key = (metric, (("@node", entity.node), *kept))
        if key not in found:
            found[key] = Series(metric, labels, entity)
        found[key].points.append(point)
    for series in found.values():
        series.points.sort(key=lambda point: (point.us or 0, point.line.number, point.value))
    return [found[key] for key in sorted(found)]


def _points(
    sheet: Sheet, documents: Sequence[JsonValue]
) -> Iterator[tuple[str, dict[str, str], Point]]:
    for document in documents:
        if is_answer(document.value):
            sheet.consume(*document.indexes)
            yield from _answer_points(document)
    labels_of: dict[str, dict[str, str]] = {}
    for index, line in list(sheet.free()):
        match = _SAMPLE.match(line.text)
        if match is None:
            if _COMMENT.match(line.text):
                sheet.consume(index)
            continue
        sheet.consume(index)
        value = float(match[3])
        if math.isnan(value) or math.isinf(value):
            continue
        body = match[2] or ""
        if body not in labels_of:
            labels_of[body] = dict(_LABEL.findall(body))
        us = stamp_us(match[4])
        yield match[1], labels_of[body], Point(us or sheet.label.captured_at_us, value, line)


def stamp_us(text: str | None) -> int | None:
    """Return microseconds of Prometheus milliseconds or OpenMetrics seconds."""
    if text is None:
        return None
    whole, _, part = text.partition(".")
    number = int(whole)
    if not part and number > 10**11:
        return number * 1_000 if number < 10**15 else number // 1_000
    return number * 1_000_000 + int((part + "000000")[:6])


def is_answer(value: Any) -> bool:
    """Whether parsed JSON is a Prometheus HTTP API answer (or its `data` part)."""
    record = as_dict(value)
    return "resultType" in as_dict(record.get("data", record))


def _answer_points(document: JsonValue) -> Iterator[tuple[str, dict[str, str], Point]]:
    record = as_dict(document.value)
    data = as_dict(record.get("data", record))
    for item in as_items(data.get("result")):
        body = as_dict(item)
        labels = {key: str(each)[:1000] for key, each in as_dict(body.get("metric")).items()}
        metric = labels.get("__name__", "")
        pairs = as_items(body.get("values")) or [body.get("value")]
        lines, _ = document.span("__name__", metric)
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                continue
            try:
                us, value = stamp_us(str(pair[0])), float(str(pair[1]))
            except ValueError:
                continue
            if math.isnan(value) or math.isinf(value):
                continue
            yield metric, labels, Point(us, value, lines[0], f"{_shown(labels)} {pair[1]}")


def _shown(labels: dict[str, str]) -> str:
    inner = ",".join(f'{key}="{labels[key]}"' for key in sorted(labels) if key != "__name__")
    return f"{labels.get('__name__', '')}{{{inner}}}"


def entity_of(sheet: Sheet, labels: dict[str, str]) -> Entity | None:
    """Return what a series measures, or None for a host that is not the job's."""
    known = set(sheet.workload.nodes) | set(sheet.label.nodes)
    named = next((labels[key] for key in _HOST_LABELS if labels.get(key)), "")
    address = next((labels[key] for key in _ADDRESS_LABELS if labels.get(key)), "")
    own = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
    node = next((each for each in (named, address.rpartition(":")[0], own) if each in known), "")
    if named and known and named not in known and not _is_pod_name(named, labels):
        return None
    index = next((labels[key] for key in _GPU_LABELS if labels.get(key, "").isdigit()), "")
    device = labels.get("device", "")
    is_gpu = bool(index or labels.get("UUID") or labels.get("uuid"))
    return Entity(
        node=node,
        gpu_index=int(index) if index and len(index) < 6 else None,
        gpu_pci=labels.get("pci_bus_id", ""),
        gpu_uuid=labels.get("UUID") or labels.get("uuid", ""),
        nic="" if is_gpu else device,
        filesystem=labels.get("mountpoint", ""),
    )


def _is_pod_name(named: str, labels: dict[str, str]) -> bool:
    """Exporters in pods without host networking give their own pod's name as the host."""
    return named == labels.get("pod") or "exporter" in named
