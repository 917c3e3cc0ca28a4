"""Plan items of the log and metric sources that a site configures. Pure; without a site none."""

import json
import re
from collections.abc import Sequence
from typing import Final

from connectors.site import Cluster
from connectors.telemetry.cloudwatch import GROUP
from connectors.telemetry.cloudwatch import NAME as CLOUDWATCH
from connectors.telemetry.cloudwatch import PART as GROUP_PART
from connectors.telemetry.cloudwatch import TEXTS as GROUP_TEXTS
from connectors.telemetry.files import NAME as FILES
from connectors.telemetry.files import PART, SOURCE
from connectors.telemetry.loki import NAME as LOKI
from connectors.telemetry.loki import PART as LOKI_PART
from connectors.telemetry.loki import STREAM, TEXTS
from connectors.telemetry.pod_logs import NAME as POD_LOGS
from connectors.telemetry.prometheus import METRICS
from connectors.telemetry.prometheus import NAME as PROMETHEUS
from connectors.telemetry.settings import CLUSTER
from engine.model.canonical import short_id
from engine.model.evidence_request import EvidenceRequest
from engine.model.plan import Budget, PlanItem, Window
from engine.model.vocabulary import Runner, Source
from engine.model.workload import Workload
from engine.rulebook.book import MetricDef, Rulebook
from engine.rulebook.coarse import coarse_texts
from engine.rulebook.pushdown import line_texts

RANKS_A_PART: Final = 512
MAX_PARTS: Final = 16
_NODE_LABEL: Final = re.compile(r'([A-Za-z_]\w{0,100})=~"\$nodes"')


def metric_queries(book: Rulebook) -> str:
    """Return what the metric rules read, one query a metric and set of fixed labels, as JSON.

    The label that names the node is the one that the rule's own `promql` uses. Its `screens` find
    every series that any of the rules can fire on; without one all series are wanted.
    """
    found: dict[str, dict[str, object]] = {}
    screens: dict[str, list[str | None]] = {}
    for rule in book.metrics:
        for metric in rule.metrics:
            label = _NODE_LABEL.search(rule.promql)
            query: dict[str, object] = {
                "metric": metric,
                "node_label": label[1] if label else "instance",
                "labels": dict(sorted(rule.labels.items())),
            }
            key = json.dumps(query, sort_keys=True)
            found[key] = query
            screens.setdefault(key, []).append(screen_of(rule))
    for key, query in found.items():
        made = {each for each in screens[key] if each is not None}
        if None not in screens[key]:
            query["screens"] = sorted(made)
    return json.dumps([found[key] for key in sorted(found)], sort_keys=True)


def screen_of(rule: MetricDef) -> str | None:
    """Return a PromQL condition on `$series` that holds wherever the rule can fire.

    None where a rule compares a series with others: then all are wanted.
    """
    match rule.detector:
        case "above":
            return f"max_over_time($series) > {rule.threshold or '0'}"
        case "below":
            return f"min_over_time($series) < {rule.threshold or '0'}"
        case "value_in":
            return f"max_over_time($series) >= {min(rule.values, key=float)}"
        case "bits":
            mask = int(rule.mask or "0", 0)
            return f"max_over_time($series) >= {mask & -mask}"
        case "increase":
            return "changes($series) > 0"
    return None


def telemetry_items(
    cluster: Cluster | None,
    workload: Workload,
    *,
    book: Rulebook,
    windows: tuple[Window, ...],
    requests: Sequence[EvidenceRequest] = (),
    collection: int = 1,
) -> list[PlanItem]:
    """Return the items of a cluster's telemetry, in a stable order.

    With `requests` (the second collection) only what they name is read: their source, their
    nodes and, where given, their window.
    """
    if cluster is None:
        return []
    ordered = sorted(requests, key=lambda each: each.model_dump_json())
    found: list[PlanItem] = []
    for request in ordered or (None,):
        made = [
            *_file_items(cluster, workload),
            *_loki_items(cluster, book, is_narrow=request is not None),
            *_cloudwatch_items(cluster, book, is_narrow=request is not None),
            *_metric_items(cluster, book),
            *_pod_items(cluster),
        ]
        for connector, source, query, budget, runner in made:
            if request is not None and request.source != source:
                continue
            found.append(
                _item(
                    connector,
                    source,
                    {CLUSTER: cluster.name, **query},
                    budget=budget,
                    runner=runner or cluster.runner,
                    windows=_windows_for(request, windows),
                    request=request,
                    collection=collection,
                )
            )
    return found


_Made = tuple[str, Source, dict[str, str], Budget, Runner | None]


def _file_items(cluster: Cluster, workload: Workload) -> list[_Made]:
    size = max(workload.world_size or 0, len(workload.nodes))
    parts = min(MAX_PARTS, 1 + size // RANKS_A_PART)
    return [
        (FILES, each.source, {SOURCE: each.name, PART: f"{part}/{parts}"}, each.budget, each.runner)
        for each in cluster.files
        for part in range(parts)
    ]


def _loki_items(cluster: Cluster, book: Rulebook, *, is_narrow: bool) -> list[_Made]:
    """Return the tail whole and, before it, what rules could match; a request's window whole."""
    if cluster.loki is None:
        return []
    found: list[_Made] = []
    for number, stream in enumerate(cluster.loki.streams):
        texts = None if is_narrow else line_texts(book, stream.source)
        whole = {STREAM: str(number), LOKI_PART: "all" if texts is None else "tail"}
        settings = cluster.loki
        found.append((LOKI, stream.source, whole, settings.budget, settings.runner))
        if texts is not None:
            listed = json.dumps([[each.text, each.ignore_case] for each in texts])
            before = {STREAM: str(number), LOKI_PART: "before", TEXTS: listed}
            found.append((LOKI, stream.source, before, settings.budget, settings.runner))
    return found


def _cloudwatch_items(cluster: Cluster, book: Rulebook, *, is_narrow: bool) -> list[_Made]:
    """Return the tail whole and, before it, what rules could match; a request's window whole."""
    settings = cluster.cloudwatch
    if settings is None:
        return []
    found: list[_Made] = []
    for number, group in enumerate(settings.groups):
        for part in ("all",) if is_narrow else ("before", "tail"):
            query = {GROUP: str(number), GROUP_PART: part}
            texts = _coarse(book, group.source) if part == "before" and group.pushdown else None
            more = {} if texts is None else {GROUP_TEXTS: json.dumps(texts)}
            found.append((CLOUDWATCH, group.source, query | more, settings.budget, settings.runner))
    return found


def _coarse(book: Rulebook, source: Source) -> list[list[str | bool]] | None:
    """Return short texts that stand for the rules' own: a filter of CloudWatch holds few."""
    texts = line_texts(book, source)
    if texts is None:
        return None
    plain = coarse_texts([each.text for each in texts if not each.ignore_case])
    folded = coarse_texts([each.text.lower() for each in texts if each.ignore_case])
    found: list[list[str | bool]] = [[each, False] for each in plain]
    return found + [[each, True] for each in folded]


def _pod_items(cluster: Cluster) -> list[_Made]:
    if cluster.pod_logs is None:
        return []
    return [(POD_LOGS, "applog", {}, cluster.pod_logs.budget, cluster.pod_logs.runner)]


def _metric_items(cluster: Cluster, book: Rulebook) -> list[_Made]:
    if cluster.prometheus is None:
        return []
    settings = cluster.prometheus
    query = {METRICS: metric_queries(book)}
    return [(PROMETHEUS, "metrics", query, settings.budget, settings.runner)]


def _item(
    connector: str,
    source: Source,
    query: dict[str, str],
    *,
    budget: Budget,
    runner: Runner,
    windows: tuple[Window, ...],
    request: EvidenceRequest | None,
    collection: int,
) -> PlanItem:
    asked = "" if request is None else request.model_dump_json()
    identity = short_id("i", connector, source, json.dumps(query, sort_keys=True), asked,
                        str(collection))  # fmt: skip
    item = PlanItem(
        item_id=identity,
        connector=connector,
        shard=f"{connector}-{identity[-6:]}",
        source=source,
        windows=windows,
        budget=budget,
        query=query,
        request=request,
    )
    # A plan says nothing of the usual.
    return item if runner == "lambda" else item.model_copy(update={"runner": runner})


def _windows_for(
    request: EvidenceRequest | None, windows: tuple[Window, ...]
) -> tuple[Window, ...]:
    if request is None:
        return windows
    start, end = request.window.start, request.window.end
    if start is None and end is None:
        return windows
    return (Window(name="tail", start=start, end=end),)
