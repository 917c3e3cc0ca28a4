"""Kubernetes objects: what is kept of one, when a job's object is at its end, and where pods ran.

Specs hold commands, environments and secrets' names; of them only a node's taints and a pod's node
are kept. Condition names are those of the published APIs: batch/v1, jobset.x-k8s.io/v1alpha2,
kubeflow.org/v1, trainer.kubeflow.org/v1alpha1, ray.io/v1, kueue.x-k8s.io/v1beta1 and v1beta2.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

JOB_KINDS: Final = (
    "Job", "JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob", "HyperPodPyTorchJob",
    "LeaderWorkerSet", "Workload",
)  # fmt: skip
REQUESTED: Final = "rootrank.io/attribution-requested"
"""The annotation on a running job's object that asks for attribution: crash, hang, straggler."""
SIGNALS: Final = ("crash", "hang", "straggler")
GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
_PLACE_LABELS: Final = (
    "batch.kubernetes.io/job-completion-index",
    "jobset.sigs.k8s.io/job-global-index",
    "jobset.sigs.k8s.io/restart-attempt",
    "training.kubeflow.org/replica-index",
    "training.kubeflow.org/replica-type",
    "leaderworkerset.sigs.k8s.io/worker-index",
    GROUP,
)
_JOB_LABELS: Final = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-name",
    "ray.io/originated-from-cr-name",
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
_DEADLINE: Final = "DeadlineExceeded"
"""The reason of a Job, or of what is made of Jobs, that ran into its own limit."""
_OVERTIME: Final = "MaximumExecutionTimeExceeded"
"""Kueue's own limit; its reason is DeactivatedDueTo... of that."""
_REPLACED: Final = "WorkloadSliceReplaced"
"""An elastic job goes on as another Workload: nothing ended."""
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


def slim(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return what may be kept of an object."""
    metadata = as_map(item.get("metadata"))
    kept: dict[str, Any] = {name: metadata[name] for name in _METADATA if name in metadata}
    labels = as_map(metadata.get("labels"))
    own = {key: labels[key] for key in (*_PLACE_LABELS, *_JOB_LABELS, QUEUE_LABEL) if key in labels}
    if own:
        kept["labels"] = own
    owners = items_of(metadata.get("ownerReferences"))
    if owners:
        kept["ownerReferences"] = [
            {name: owner.get(name) for name in ("kind", "name", "uid")} for owner in owners
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
            started_at(item), _text(status.get("endTime")),
        )  # fmt: skip
    if kind not in JOB_KINDS:
        return None
    for condition in items_of(status.get("conditions")):
        state = _ENDS.get(str(condition.get("type")))
        if state is None or condition.get("status") != "True":
            continue
        if condition.get("reason") == _DEADLINE:
            state = _DEADLINE
        ended = status.get("completionTime") or condition.get("lastTransitionTime")
        restarts = status.get("restarts")
        return End(
            state, str(condition.get("reason") or ""), str(condition.get("message") or ""),
            started_at(item), _text(ended),
            restarts if isinstance(restarts, int) else None,
        )  # fmt: skip
    return None


def _workload_end(status: Mapping[str, Any]) -> End | None:
    """A Workload ends for good (Finished) or loses its place and is queued again (Evicted)."""
    conditions = {str(each.get("type")): each for each in items_of(status.get("conditions"))}
    admitted = conditions.get("Admitted") or conditions.get("QuotaReserved") or {}
    start = _text(admitted.get("lastTransitionTime"))
    finished = conditions.get("Finished", {})
    if finished.get("status") == "True":
        reason = str(finished.get("reason") or "")
        if reason == _REPLACED:
            return None
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
        reason = str(evicted.get("reason") or "")
        return End(
            _OVERTIME if reason.endswith(_OVERTIME) else "Evicted",
            reason, str(evicted.get("message") or ""),
            None if is_over else start, _text(evicted.get("lastTransitionTime")),
        )  # fmt: skip
    return None


def requested_signal(item: Mapping[str, Any]) -> str | None:
    """Return what was noticed of a running job, where its annotation asks for attribution."""
    annotations = as_map(as_map(item.get("metadata")).get("annotations"))
    value = annotations.get(REQUESTED)
    is_job = item.get("kind") in JOB_KINDS and item.get("kind") != "LeaderWorkerSet"
    return value if is_job and value in SIGNALS else None


def started_at(item: Mapping[str, Any]) -> str | None:
    """Return when the attempt of a job's object began, as its end will say."""
    if item.get("kind") == "Workload":
        return admitted_at(item)
    start = _text(as_map(item.get("status")).get("startTime"))
    if start is None and item.get("kind") != "RayJob":
        start = _text(as_map(item.get("metadata")).get("creationTimestamp"))
    return start


def limit_of(item: Mapping[str, Any]) -> str | None:
    """Return the job's own time limit in seconds, where its specification gives one."""
    spec = as_map(item.get("spec"))
    for given in (
        spec.get("activeDeadlineSeconds"),
        as_map(spec.get("runPolicy")).get("activeDeadlineSeconds"),
        spec.get("maximumExecutionTimeSeconds"),
    ):
        if isinstance(given, int) and not isinstance(given, bool) and given > 0:
            return str(given)
    return None


def admitted_at(item: Mapping[str, Any]) -> str | None:
    """Return when a Workload was admitted, while it is."""
    for condition in items_of(as_map(item.get("status")).get("conditions")):
        if condition.get("type") == "Admitted" and condition.get("status") == "True":
            return _text(condition.get("lastTransitionTime"))
    return None


def job_name_of(item: Mapping[str, Any]) -> str:
    """Return the job that an object belongs to: its owner's name, its label's, or its own."""
    metadata = as_map(item.get("metadata"))
    if item.get("kind") == "Workload":
        for owner in items_of(metadata.get("ownerReferences")):
            if owner.get("name"):
                return str(owner["name"])
    labels = as_map(metadata.get("labels"))
    if item.get("kind") == "Pod":
        told = next((str(labels[key]) for key in _JOB_LABELS if labels.get(key)), "")
        return told or next(_owning_jobs(item), name_of(item))
    return name_of(item)


def is_made_by_a_job(item: Mapping[str, Any]) -> bool:
    """Whether another job's object made this one, and tells of its end: a JobSet of its Jobs."""
    return item.get("kind") != "Workload" and next(_owning_jobs(item), None) is not None


def _owning_jobs(item: Mapping[str, Any]) -> Iterator[str]:
    for owner in items_of(as_map(item.get("metadata")).get("ownerReferences")):
        if owner.get("kind") in JOB_KINDS and owner.get("name"):
            yield str(owner["name"])


def name_of(item: Mapping[str, Any]) -> str:
    """Return an object's name."""
    return str(as_map(item.get("metadata")).get("name") or "")


def namespace_of(item: Mapping[str, Any]) -> str:
    """Return an object's namespace."""
    return str(as_map(item.get("metadata")).get("namespace") or "default")


def is_part_of_a_job(pod: Mapping[str, Any]) -> bool:
    """Whether a pod belongs to a job, by its labels, its owner, or Kueue's queue."""
    labels = as_map(as_map(pod.get("metadata")).get("labels"))
    is_named = any(labels.get(key) for key in (*_JOB_LABELS, QUEUE_LABEL))
    return is_named or next(_owning_jobs(pod), None) is not None


def group_of(item: Mapping[str, Any]) -> str | None:
    """Return the group of a LeaderWorkerSet's pod; None for anything else."""
    if item.get("kind") != "Pod":
        return None
    group = as_map(as_map(item.get("metadata")).get("labels")).get(GROUP)
    return group if isinstance(group, str) and group.isdigit() else None


def is_queued_by_kueue(item: Mapping[str, Any]) -> bool:
    """Whether Kueue manages a job, and so a Workload tells of its end."""
    labels = as_map(as_map(item.get("metadata")).get("labels"))
    return item.get("kind") != "Workload" and bool(labels.get(QUEUE_LABEL))


def instance_of(node: Mapping[str, Any]) -> str:
    """Return the instance id in a node's provider id (`aws:///eu-west-1a/i-0abc...`), or ""."""
    match = _INSTANCE.search(str(as_map(node.get("spec")).get("providerID") or ""))
    return match[0] if match else ""


def items_of(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list, none for anything else."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def as_map(value: Any) -> Mapping[str, Any]:
    """Return a mapping, empty for anything else."""
    return value if isinstance(value, Mapping) else {}


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
