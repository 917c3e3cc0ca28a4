"""The details of the watcher's events: an attempt's description, objects and machines. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from connectors.schedulers.kubernetes_objects import as_map, items_of, name_of, slim
from connectors.schedulers.kubernetes_placement import Placement
from engine.model.workload import image_mark

MAX_PODS_TOLD: Final = 64
"""So many pods' objects go into an event, the failed ones first; placement names all."""


def make_detail(
    item: Mapping[str, Any],
    workload: dict[str, Any],
    *,
    placement: Placement,
    instances: Mapping[str, str],
    signal: str | None = None,
) -> dict[str, Any]:
    """Return the detail of `Job Completed`, or of `Attribution Requested` where there is a signal.

    `workload` holds what is known beside the placement; what is None or empty is left out.
    """
    ordered = placement.ordered()
    nodes = list(dict.fromkeys(placement.nodes[pod] for pod in ordered))
    ranks = placement.ranks(has_master=has_master(item))
    known = {
        **workload,
        "image": image_of(placement),
        "nodes": nodes,
        "ranks": [{"rank": ranks[pod], "node": placement.nodes[pod]} for pod in ordered
                  if pod in ranks],
    }  # fmt: skip
    pods = sorted(placement.pods.values(), key=lambda pod: (not has_failed(pod), name_of(pod)))
    told = pods[:MAX_PODS_TOLD]
    objects = told if item.get("kind") == "Pod" else [slim(item), *told]
    detail: dict[str, Any] = {
        "version": 1,
        "workload": {key: each for key, each in known.items() if each not in (None, [])},
        "record": {
            "objects": objects,
            "instance_ids": {node: instances[node] for node in nodes if node in instances},
        },
    }
    if signal is not None:
        detail["detection_signal"] = signal
    return detail


def has_master(item: Mapping[str, Any]) -> bool | None:
    """Return whether a PyTorchJob has a master beside its workers; None for what does not say."""
    specs = as_map(as_map(item.get("spec")).get("pytorchReplicaSpecs"))
    return any(str(name).lower() == "master" for name in specs) if specs else None


def image_of(placement: Placement) -> str | None:
    """Return the mark of the image that every pod's first container runs; None if they differ."""
    found = set()
    for pod in placement.pods.values():
        statuses = items_of(as_map(pod.get("status")).get("containerStatuses"))
        if statuses:
            found.add(image_mark(statuses[0].get("image")))
    return found.pop() if len(found) == 1 else None


def terminations(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how the pod's containers ended, the earlier end of a restarted one too."""
    found = []
    for status in items_of(as_map(pod.get("status")).get("containerStatuses")):
        for place in ("state", "lastState"):
            ended = as_map(as_map(status.get(place)).get("terminated"))
            if ended:
                found.append(dict(ended))
    return found


def has_failed(pod: Mapping[str, Any]) -> bool:
    """Whether a container of the pod ended with an exit code other than 0."""
    return any(each.get("exitCode") for each in terminations(pod))


def first_exit(placement: Placement) -> str | None:
    """Return the code of the container that failed first, where one did."""
    failed = [
        (str(each.get("finishedAt") or "~"), name, each["exitCode"])
        for name, pod in placement.pods.items()
        for each in terminations(pod)
        if each.get("exitCode")
    ]
    return str(min(failed)[2]) if failed else None
