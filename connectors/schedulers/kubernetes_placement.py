"""Where the pods of one job ran, kept after they are gone, and which ranks that gives.

A pod's labels give its place among the job's pods. That is the rank of its process where it has
one: with several GPUs a launcher in the pod numbers the ranks, not always in the pods' order
(torchrun's c10d rendezvous numbers by arrival), so then only the order of the nodes is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.schedulers.kubernetes_objects import as_map, items_of, name_of, slim

_COMPLETION: Final = "batch.kubernetes.io/job-completion-index"
_JOBSET_JOB: Final = "jobset.sigs.k8s.io/job-global-index"
_REPLICA: Final = "training.kubeflow.org/replica-index"
_REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
_LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
_FIRST: Final = ("master", "chief")
_NO_RANK: Final = ("launcher",)
_DEVICES: Final = ("/gpu", "/neuron", "/neurondevice")


@dataclass(slots=True)
class Placement:
    """Pod name to node, place `[group, index]`, number of devices, and last state."""

    nodes: dict[str, str] = field(default_factory=dict)
    places: dict[str, list[int]] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, pod: Mapping[str, Any]) -> None:
        """Remember a pod's node, place and last state."""
        name = name_of(pod)
        node = as_map(pod.get("spec")).get("nodeName")
        if isinstance(node, str) and node:
            self.nodes[name] = node
        place = _place_of(as_map(as_map(pod.get("metadata")).get("labels")))
        if place is not None:
            self.places[name] = place
        self.devices[name] = _devices_of(pod)
        self.pods[name] = slim(pod)

    def ordered(self) -> list[str]:
        """Return the placed pods in the order of their places, those without one last."""
        last = [1 << 30, 0]
        return sorted(self.nodes, key=lambda pod: (self.places.get(pod, last), pod))

    def ranks(self, *, has_master: bool | None = None) -> dict[str, int]:
        """Return pod to rank; empty where the labels do not tell.

        `has_master` says whether the job has a master beside its workers, where that is known.
        """
        placed = {pod: self.places[pod] for pod in self.nodes if pod in self.places}
        if not placed or any(self.devices.get(pod, 0) > 1 for pod in placed):
            return {}
        groups = {group for group, _ in placed.values()}
        if groups <= {_MASTER, _WORKER}:
            shift = _has_master(groups, has_master)
            if shift is None:
                return {}
            found = {
                pod: index + (shift if group == _WORKER else 0)
                for pod, (group, index) in placed.items()
            }
        elif len(groups) == 1:
            found = {pod: index for pod, (_, index) in placed.items()}
        else:
            return {}
        return found if len(set(found.values())) == len(found) else {}


_MASTER, _WORKER = -2, -1
"""Groups of a training job's pods; a JobSet's are its jobs, from 0."""


def _has_master(groups: set[int], told: bool | None) -> int | None:
    """Return by how much workers are shifted; None where nobody says whether there is a master."""
    if _MASTER in groups:
        return 1
    return None if told is None else int(told)


def _place_of(labels: Mapping[str, Any]) -> list[int] | None:
    kind = str(labels.get(_REPLICA_TYPE) or "").lower()
    if kind in _NO_RANK:
        return None
    if kind:
        index = _number(labels.get(_REPLICA))
        return None if index is None else [_MASTER if kind in _FIRST else _WORKER, index]
    index = _number(labels.get(_COMPLETION, labels.get(_LWS_WORKER)))
    return None if index is None else [_number(labels.get(_JOBSET_JOB)) or 0, index]


def _devices_of(pod: Mapping[str, Any]) -> int:
    """Return how many GPUs or other devices the pod's containers have together."""
    count = 0
    for container in items_of(as_map(pod.get("spec")).get("containers")):
        limits = as_map(as_map(container.get("resources")).get("limits"))
        for name, amount in limits.items():
            if str(name).endswith(_DEVICES):
                count += _number(amount) or 0
    return count


def _number(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isdigit() and len(text) < 10 else None
