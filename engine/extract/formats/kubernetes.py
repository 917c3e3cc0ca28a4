"""Kubernetes objects (JSON or YAML): pods, jobs, Kueue workloads, nodes, events."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import yaml

from engine.extract.formats.cluster import Cluster, Pending
from engine.extract.formats.jsontext import JsonValue, as_dict, as_items
from engine.extract.formats.sheet import Line, Sheet
from engine.model.observation import When

MAX_YAML_BYTES: Final = 8 * 1024 * 1024
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_JOB_LABELS: Final = (
    "job-name", "batch.kubernetes.io/job-name", "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name", "ray.io/cluster", "volcano.sh/job-name",
    "kueue.x-k8s.io/workload", "leaderworkerset.sigs.k8s.io/name", "app", "pytorch-job-name",
)  # fmt: skip
_DASHES = re.compile(r"^---(?:\s.*)?$")

Place = Callable[[str, Any], tuple[Sequence[Line], str]]


def read_kubernetes_json(sheet: Sheet, cluster: Cluster, documents: Sequence[JsonValue]) -> None:
    """Take every Kubernetes object out of parsed JSON documents."""
    for document in documents:
        if not is_kubernetes(document.value):
            continue

        def place(key: str, value: Any, document: JsonValue = document) -> tuple[Any, str]:
            return document.span(key, value)

        before = len(cluster.pending)
        add_object(cluster, document.value, place)
        if len(cluster.pending) > before:
            sheet.consume(*document.indexes)


def is_kubernetes(value: Any) -> bool:
    """Whether a parsed value is an API object, a list of them, or an exported event."""
    if isinstance(value, list):
        return bool(value) and is_kubernetes(value[0])
    if not isinstance(value, dict):
        return False
    return ("kind" in value and ("apiVersion" in value or "metadata" in value)) or (
        "involvedObject" in value
    )


def read_kubernetes_yaml(sheet: Sheet, cluster: Cluster) -> None:
    """Consume `kubectl get -o yaml` output: sections that start with `apiVersion:` or `---`."""
    indexes = [index for index, _ in sheet.free()]
    starts = [at for at in indexes if sheet.lines[at].text.startswith("apiVersion:")]
    for start in starts:
        stop = start + 1
        while stop < len(sheet.lines) and _is_yaml_line(sheet.lines[stop].text):
            stop += 1
        lines = sheet.lines[start:stop]
        text = "\n".join(line.text for line in lines)
        if len(text) > MAX_YAML_BYTES:
            continue
        try:
            if "&" in text and _has_alias(text):
                continue
            value = yaml.load(text, Loader=_LOADER)  # noqa: S506 (a base loader makes text only)
        except (yaml.YAMLError, ValueError, RecursionError):
            continue
        if not is_kubernetes(value):
            continue
        before = len(cluster.pending)
        add_object(cluster, value, _yaml_place(lines))
        if len(cluster.pending) > before:
            sheet.consume(*range(start, stop))


def _has_alias(text: str) -> bool:
    """Whether an anchor is used: that makes a small text an exponentially large tree."""
    return any(isinstance(each, yaml.AliasEvent) for each in yaml.parse(text, Loader=_LOADER))


def _is_yaml_line(text: str) -> bool:
    if not text.strip() or text[0] in " -#":
        return not _DASHES.match(text)
    return bool(re.match(r"[A-Za-z][A-Za-z0-9_.-]{0,60}:(?:\s|$)", text)) and (
        not text.startswith("apiVersion:")
    )


def _yaml_place(lines: Sequence[Line]) -> Place:
    position = 0

    def place(key: str, value: Any) -> tuple[Sequence[Line], str]:
        nonlocal position
        wanted = f"{key}: "
        for at in range(position, len(lines)):
            text = lines[at].text
            if wanted in text and str(value)[:40].split("\n")[0] in text:
                position = at
                return [lines[at]], text.strip()
        return [lines[0]], lines[0].text.strip()

    return place


def add_object(cluster: Cluster, value: Any, place: Place) -> None:
    """Take the facts of one object, or of each object of a list."""
    if isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                add_object(cluster, item, place)
        return
    kind = str(value.get("kind", "")).removesuffix("List") or "Event"
    if isinstance(value.get("items"), list):
        for item in value["items"]:
            if isinstance(item, dict):
                add_object(cluster, {"kind": kind, **item}, place)
        return
    if kind == "Pod":
        _pod(cluster, value, place)
    elif kind == "Event":
        _event(cluster, value, place)
    else:
        _conditions(cluster, value, kind, place)


def _meta(value: dict[str, Any]) -> tuple[str, tuple[str, ...]]:
    metadata = as_dict(value.get("metadata"))
    labels = as_dict(metadata.get("labels"))
    owners = [as_dict(each).get("name") for each in as_items(metadata.get("ownerReferences"))]
    names = [*(labels.get(key) for key in _JOB_LABELS), *owners]
    return str(metadata.get("name", "")), tuple(str(name) for name in names if name)


def _stamp(sheet: Sheet, *texts: Any) -> When:
    for text in texts:
        when = sheet.at(str(text)) if text else When()
        if when.basis != "none":
            return when
    return When()


def _pod(cluster: Cluster, pod: dict[str, Any], place: Place) -> None:
    name, names = _meta(pod)
    lines, excerpt = place("name", name)
    status, node = as_dict(pod.get("status")), str(as_dict(pod.get("spec")).get("nodeName") or "")
    conditions = [as_dict(each) for each in as_items(status.get("conditions"))]
    containers = list(_containers(status))
    ended = [
        _stamp(cluster.sheet, as_dict(state).get("finishedAt")) for _, _, state, _ in containers
    ]
    last = max(ended, key=lambda when: when.latest_us or 0, default=When())
    cluster.pending.append(
        Pending(
            "k8s.pod",
            {
                "name": name,
                "phase": status.get("phase"),
                "reason": status.get("reason"),
                "node": node,
                "message": status.get("message"),
            },
            lines, last, excerpt, name, "pod", node, name, names,
        )
    )  # fmt: skip
    for container, kind, state, is_last in containers:
        _container(
            cluster,
            place,
            container=container,
            kind=kind,
            state=state,
            is_last=is_last,
            pod=(name, node, names),
        )
    for condition in conditions:
        _condition(cluster, "Pod", name, condition, place, node=node, names=names)


def _containers(status: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any, bool]]:
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        for each in as_items(status.get(key)):
            container = as_dict(each)
            for field_name, is_last in (("lastState", True), ("state", False)):
                for kind, state in sorted(as_dict(container.get(field_name)).items()):
                    yield container, kind, state, is_last


def _container(
    cluster: Cluster,
    place: Place,
    *,
    container: dict[str, Any],
    kind: str,
    state: Any,
    is_last: bool,
    pod: tuple[str, str, tuple[str, ...]],
) -> None:
    name, node, names = pod
    body = as_dict(state)
    key = next((each for each in ("exitCode", "reason", "startedAt") if each in body), "name")
    lines, excerpt = place(key, body.get(key, container.get("name")))
    cluster.pending.append(
        Pending(
            "k8s.container",
            {
                "pod": name,
                "container": container.get("name"),
                "state": kind,
                "reason": body.get("reason"),
                "exit": body.get("exitCode"),
                "signal": body.get("signal"),
                "restarts": container.get("restartCount"),
                "last": "true" if is_last else None,
                "node": node,
                "message": body.get("message"),
            },
            lines,
            _stamp(cluster.sheet, body.get("finishedAt"), body.get("startedAt")),
            excerpt, name, "pod", node, name, names,
        )
    )  # fmt: skip


def _conditions(cluster: Cluster, value: dict[str, Any], kind: str, place: Place) -> None:
    name, names = _meta(value)
    status = as_dict(value.get("status"))
    node = name if kind == "Node" else ""
    for each in as_items(status.get("conditions")):
        _condition(cluster, kind, name, as_dict(each), place, node=node, names=names)
    for each in as_items(as_dict(value.get("spec")).get("taints")):
        _taint(cluster, kind, name, as_dict(each), place, names=names)


def _taint(
    cluster: Cluster,
    kind: str,
    name: str,
    taint: dict[str, Any],
    place: Place,
    *,
    names: tuple[str, ...],
) -> None:
    """A node's taint as a condition: `type=Taint`, its effect, its key and its value."""
    if not taint.get("key"):
        return
    lines, excerpt = place("key", taint["key"])
    condition = {
        "type": "Taint", "status": taint.get("effect"), "reason": taint["key"],
        "message": taint.get("value"),
    }  # fmt: skip
    add_condition(
        cluster,
        kind=kind,
        name=name,
        condition=condition,
        when=_stamp(cluster.sheet, taint.get("timeAdded")),
        lines=lines,
        excerpt=excerpt,
        node=name,
        names=names,
    )


def _condition(
    cluster: Cluster,
    kind: str,
    name: str,
    condition: dict[str, Any],
    place: Place,
    *,
    node: str,
    names: tuple[str, ...],
) -> None:
    if not condition.get("type"):
        return
    key = "message" if condition.get("message") else "type"
    lines, excerpt = place(key, condition[key])
    add_condition(
        cluster,
        kind=kind,
        name=name,
        condition=condition,
        when=_stamp(
            cluster.sheet, condition.get("lastTransitionTime"), condition.get("lastUpdateTime")
        ),
        lines=lines,
        excerpt=excerpt,
        node=node,
        names=names,
    )


def add_condition(
    cluster: Cluster,
    *,
    kind: str,
    name: str,
    condition: dict[str, Any],
    when: When,
    lines: Sequence[Line],
    excerpt: str | None = None,
    node: str = "",
    names: tuple[str, ...] = (),
) -> None:
    """Add one `k8s.condition`; `condition` has type, status, reason and message."""
    cluster.pending.append(
        Pending(
            "k8s.condition",
            {
                "kind": kind,
                "name": name,
                "type": condition.get("type"),
                "status": condition.get("status"),
                "reason": condition.get("reason"),
                "message": condition.get("message"),
            },
            lines, when, excerpt, name, "node" if kind == "Node" else kind.lower(),
            node, name if kind == "Pod" else "", names,
        )
    )  # fmt: skip


def _event(cluster: Cluster, event: dict[str, Any], place: Place) -> None:
    target = as_dict(event.get("involvedObject") or event.get("regarding"))
    series = as_dict(event.get("series"))
    source = as_dict(event.get("source"))
    message = event.get("message") or event.get("note")
    key = next((each for each in ("message", "note", "reason") if event.get(each)), "kind")
    lines, excerpt = place(key, event.get(key))
    add_event(
        cluster,
        kind=str(target.get("kind", "")),
        name=str(target.get("name", "")),
        values={
            "type": event.get("type"),
            "reason": event.get("reason"),
            "count": event.get("count") or series.get("count") or event.get("deprecatedCount"),
            "message": message,
        },
        node=str(source.get("host") or event.get("reportingInstance") or ""),
        when=_span(cluster.sheet, event, series),
        lines=lines,
        excerpt=excerpt,
    )


def _span(sheet: Sheet, event: dict[str, Any], series: dict[str, Any]) -> When:
    last = _stamp(
        sheet, event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"),
        event.get("deprecatedLastTimestamp"),
    )  # fmt: skip
    first = _stamp(sheet, event.get("firstTimestamp"), event.get("eventTime"))
    if first.earliest_us is None or last.latest_us is None:
        return last if first.earliest_us is None else first
    return When(min(first.earliest_us, last.latest_us), last.latest_us, "record", "scheduler")


def add_event(
    cluster: Cluster,
    *,
    kind: str,
    name: str,
    values: dict[str, Any],
    node: str,
    when: When,
    lines: Sequence[Line],
    excerpt: str | None = None,
) -> None:
    """Add one `k8s.event` about an object; a node's own event is about that node."""
    if kind.lower() == "node":
        node = name
    cluster.pending.append(
        Pending(
            "k8s.event",
            {**values, "kind": kind, "name": name, "node": node},
            lines, when, excerpt, name, kind.lower(), node, name if kind.lower() == "pod" else "",
        )
    )  # fmt: skip
