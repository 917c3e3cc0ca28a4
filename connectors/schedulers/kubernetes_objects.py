"""Kubernetes objects: what is kept of one, when a job's object is at its end, and where pods ran.

Specs hold commands, environments and secrets' names; of them only a node's taints and a pod's node
are kept. Condition names are those of the published APIs: batch/v1, jobset.x-k8s.io/v1alpha2,
kubeflow.org/v1, trainer.kubeflow.org/v1alpha1, ray.io/v1, kueue.x-k8s.io/v1beta1 and v1beta2.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

JOB_KINDS: Final = ("Job", "JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "Workload")
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_RANK_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
)
_JOB_LABELS: Final = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name",
    "ray.io/cluster",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
"""From the outermost owner to the innermost: a JobSet's pod has a Job's label as well."""
_ENDS: Final = {
    "Complete": "Succeeded", "Completed": "Succeeded", "Succeeded": "Succeeded",
    "Failed": "Failed",
}  # fmt: skip
_RAY_ENDS: Final = {"SUCCEEDED": "Succeeded", "FAILED": "Failed", "STOPPED": "Stopped"}
_METADATA: Final = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp")
_MAX_TEXT: Final = 4096
_MAX_DEPTH: Final = 12
_INSTANCE = re.compile(r"\bi-[0-9a-f]{8,17}\b")


@dataclass(slots=True, frozen=True)
class End:
    """How an attempt of a job's object ended; times as the API writes them."""

    state: str
    reason: str
    message: str
    start: str | None
    end: str | None
    attempt: int | None = None


@dataclass(slots=True)
class Placement:
    """Where the pods of one job ran, kept after they are gone."""

    nodes: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def note(self, pod: Mapping[str, Any]) -> None:
        """Remember a pod's node, rank and last state."""
        name = name_of(pod)
        node = as_map(pod.get("spec")).get("nodeName")
        if isinstance(node, str) and node:
            self.nodes[name] = node
        labels = as_map(as_map(pod.get("metadata")).get("labels"))
        rank = next((labels[key] for key in _RANK_LABELS if key in labels), None)
        if isinstance(rank, str) and rank.isdigit():
            self.ranks[name] = int(rank)
        self.pods[name] = slim(pod)


def slim(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be kept of an object."""
    metadata = as_map(item.get("metadata"))
    kept: dict[str, Any] = {name: metadata[name] for name in _METADATA if name in metadata}
    labels = as_map(metadata.get("labels"))
    own = {key: labels[key] for key in (*_RANK_LABELS, *_JOB_LABELS, QUEUE_LABEL) if key in labels}
    if own:
        kept["labels"] = own
    owners = metadata.get("ownerReferences")
    if isinstance(owners, list):
        kept["ownerReferences"] = [
            {name: owner.get(name) for name in ("kind", "name", "uid")}
            for owner in owners
            if isinstance(owner, Mapping)
        ]
    found: dict[str, Any] = {
        "apiVersion": item.get("apiVersion"),
        "kind": item.get("kind"),
        "metadata": kept,
    }
    spec = as_map(item.get("spec"))
    small = {name: spec[name] for name in ("nodeName", "taints", "providerID") if name in spec}
    if small:
        found["spec"] = small
    if "status" in item:
        found["status"] = _cut(item["status"])
    for name in ("involvedObject", "reason", "message", "type", "count", "firstTimestamp",
                 "lastTimestamp", "eventTime", "source", "reportingComponent"):  # fmt: skip
        if name in item:
            found[name] = _cut(item[name])
    return found


def end_of(item: Mapping[str, Any]) -> End | None:
    """Return how a job's object ended; None while it runs, or for one that we do not know."""
    kind = item.get("kind")
    status = as_map(item.get("status"))
    if kind == "Workload":
        return _workload_end(status)
    if kind == "RayJob":
        state = _RAY_ENDS.get(str(status.get("jobStatus")))
        if state is None:
            return None
        return End(
            state, str(status.get("reason") or ""), str(status.get("message") or ""),
            _text(status.get("startTime")), _text(status.get("endTime")),
        )  # fmt: skip
    if kind not in JOB_KINDS:
        return None
    for condition in _conditions(status):
        state = _ENDS.get(str(condition.get("type")))
        if state is None or condition.get("status") != "True":
            continue
        ended = status.get("completionTime") or condition.get("lastTransitionTime")
        start = status.get("startTime") or as_map(item.get("metadata")).get("creationTimestamp")
        restarts = status.get("restarts")
        return End(
            state, str(condition.get("reason") or ""), str(condition.get("message") or ""),
            _text(start), _text(ended),
            restarts if isinstance(restarts, int) else None,
        )  # fmt: skip
    return None


def _workload_end(status: Mapping[str, Any]) -> End | None:
    """A Workload ends for good (Finished) or loses its place and is queued again (Evicted)."""
    conditions = {str(each.get("type")): each for each in _conditions(status)}
    admitted = conditions.get("Admitted") or conditions.get("QuotaReserved") or {}
    start = _text(admitted.get("lastTransitionTime"))
    finished = conditions.get("Finished", {})
    if finished.get("status") == "True":
        reason = str(finished.get("reason") or "")
        # Before v0.6 the reason was JobFinished, whatever became of the job.
        message = str(finished.get("message") or "")
        is_failed = reason == "Failed" or "fail" in message.lower()
        state = "Failed" if is_failed else "Succeeded" if reason != "OutOfSync" else "OutOfSync"
        was_admitted = admitted.get("status") == "True"
        return End(
            state, reason, message, start if was_admitted else None,
            _text(finished.get("lastTransitionTime")),
        )  # fmt: skip
    evicted = conditions.get("Evicted", {})
    if evicted.get("status") == "True":
        # The eviction turns Admitted to False: its time is then the end, and the start is gone.
        is_over = admitted.get("status") != "True"
        return End(
            "Evicted", str(evicted.get("reason") or ""), str(evicted.get("message") or ""),
            None if is_over else start, _text(evicted.get("lastTransitionTime")),
        )  # fmt: skip
    return None


def admitted_at(item: Mapping[str, Any]) -> str | None:
    """Return when a Workload was admitted, while it is."""
    for condition in _conditions(as_map(item.get("status"))):
        if condition.get("type") == "Admitted" and condition.get("status") == "True":
            return _text(condition.get("lastTransitionTime"))
    return None


def job_name_of(item: Mapping[str, Any]) -> str:
    """Return the job that an object belongs to: its owner's name, its label's, or its own."""
    metadata = as_map(item.get("metadata"))
    if item.get("kind") == "Workload":
        owners = metadata.get("ownerReferences")
        for owner in owners if isinstance(owners, list) else ():
            if isinstance(owner, Mapping) and owner.get("name"):
                return str(owner["name"])
    labels = as_map(metadata.get("labels"))
    if item.get("kind") == "Pod":
        return next((str(labels[key]) for key in _JOB_LABELS if labels.get(key)), name_of(item))
    return name_of(item)


def name_of(item: Mapping[str, Any]) -> str:
    """Return an object's name."""
    return str(as_map(item.get("metadata")).get("name") or "")


def namespace_of(item: Mapping[str, Any]) -> str:
    """Return an object's namespace."""
    return str(as_map(item.get("metadata")).get("namespace") or "default")


def is_queued_by_kueue(item: Mapping[str, Any]) -> bool:
    """Whether Kueue manages a job, and so a Workload tells of its end."""
    labels = as_map(as_map(item.get("metadata")).get("labels"))
    return item.get("kind") != "Workload" and bool(labels.get(QUEUE_LABEL))


def instance_of(node: Mapping[str, Any]) -> str:
    """Return the instance id in a node's provider id (`aws:///eu-west-1a/i-0abc...`), or ""."""
    match = _INSTANCE.search(str(as_map(node.get("spec")).get("providerID") or ""))
    return match[0] if match else ""


def as_map(value: Any) -> Mapping[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def _conditions(status: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found = status.get("conditions")
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _cut(value: Any, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        return {str(key): _cut(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list):
        return [_cut(each, depth + 1) for each in value[:500]]
    return value[:_MAX_TEXT] if isinstance(value, str) else value
