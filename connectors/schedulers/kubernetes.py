"""The Kubernetes connector: a job's objects, its pods, their events and nodes, Kueue's Workload."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.allowance import Allowance
from connectors.parts import Part, open_parts
from connectors.protocol import (
    ByteStream,
    Capabilities,
    Collected,
    ConnectorError,
    Probe,
    SourceAbsentError,
    SourceRefusedError,
    probe_status,
)
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.schedulers.kubernetes_objects import JOB_KINDS, as_map, job_name_of, name_of, slim
from engine.model.plan import Budget, PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

NAME: Final = "kubernetes"
_MAX_NODES: Final = 8
"""So many nodes are asked for one by one; of a larger job the whole list is taken."""


@dataclass(slots=True)
class KubernetesConnector:
    """One cluster. `api_for` makes the client of one item's allowance."""

    target: str
    api_for: Callable[[Allowance], KubernetesApi]
    clock: Callable[[], float]
    namespaces: tuple[str, ...] = ()
    budget: Budget = field(default_factory=Budget)
    name: str = NAME

    @property
    def capabilities(self) -> Capabilities:
        """Objects as long as the cluster keeps them: events an hour, pods until deleted."""
        return Capabilities(
            sources=("kubernetes",), trust="platform", resumes=True, remembers=False
        )

    def probe(self) -> Probe:
        """Ask for the version and one page of pods."""
        allowance = Allowance(Budget(requests=8, seconds=30), self.clock)
        try:
            api = self.api_for(allowance)
            version = api.describe_server()
            namespace = self.namespaces[0] if self.namespaces else None
            api.source.get_json(api.path("Pod", namespace), {"limit": 1})
        except ConnectorError as error:
            return Probe(NAME, self.target, probe_status(error), str(error))
        would = ("the job's objects and Kueue Workload", "its pods and their events",
                 "conditions and taints of its nodes")  # fmt: skip
        return Probe(NAME, self.target, "ok", f"Kubernetes {version}", would)

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield a stream of objects for each of events, jobs, nodes and pods."""
        allowance = Allowance(item.budget, self.clock)
        api = self.api_for(allowance)
        namespace = workload.namespace or "default"
        seen = _Seen(api, workload, namespace)
        parts = [
            Part(_label("events"), seen.events),
            Part(_label("jobs"), seen.jobs),
            Part(_label("pods"), seen.pods),
        ]
        if workload.nodes:
            parts.append(Part(_label("nodes"), seen.nodes))
        try:
            yield from open_parts(parts, cursor=item.cursor, collected=collected)
        finally:
            collected.requests += allowance.requests


@dataclass(slots=True)
class _Seen:
    """What one item reads."""

    api: KubernetesApi
    workload: Workload
    namespace: str

    def pods(self) -> bytes:
        names = self._names() | self._ray_clusters()
        listed = self.api.list_items("Pod", self.namespace).items
        return _document([each for each in listed if job_name_of(each) in names])

    def events(self) -> bytes:
        listed = self.api.list_items("Event", self.namespace).items
        names = self._names()
        own = [
            each
            for each in listed
            if any(
                _is_part(str(as_map(each.get("involvedObject")).get("name", "")), name)
                for name in names
            )
        ]
        return _document(own)

    def jobs(self) -> bytes:
        """Return the job's objects of every kind that the server has and we may list."""
        found: list[dict[str, Any]] = []
        refusal: SourceRefusedError | None = None
        for kind in JOB_KINDS:
            try:
                listed = self.api.list_items(kind, self.namespace).items
            except SourceAbsentError:
                continue
            except SourceRefusedError as error:
                refusal = error
                continue
            found += [each for each in listed if job_name_of(each) in self._names()]
        if refusal is not None and not found:
            raise refusal
        return _document(found)

    def nodes(self) -> bytes:
        wanted = set(self.workload.nodes)
        if len(wanted) > _MAX_NODES:
            listed = self.api.list_items("Node").items
        else:
            chosen = [f"metadata.name={name}" for name in sorted(wanted)]
            several = [self.api.list_items("Node", fields=each).items for each in chosen]
            listed = [item for items in several for item in items]
        return _document([each for each in listed if name_of(each) in wanted])

    def _ray_clusters(self) -> frozenset[str]:
        """Return the clusters of the job, if it is a RayJob: older pods name nothing else."""
        try:
            listed = self.api.list_items("RayJob", self.namespace).items
        except (SourceAbsentError, SourceRefusedError):
            return frozenset()
        own = [each for each in listed if name_of(each) in self._names()]
        names = [as_map(each.get("status")).get("rayClusterName") for each in own]
        return frozenset(name for name in names if isinstance(name, str) and name)

    def _names(self) -> frozenset[str]:
        names = {self.workload.job_id, self.workload.name or self.workload.job_id}
        return frozenset(name.rsplit("/", 1)[-1] for name in names)


def _is_part(name: str, job: str) -> bool:
    """Whether an object's name is the job's, or one that a controller made of it."""
    return name == job or name.startswith(f"{job}-") or name.endswith(f"-{job}")


def _document(items: Sequence[dict[str, Any]]) -> bytes:
    """Return the objects as a list document; empty where there is none."""
    if not items:
        return b""
    ordered = sorted((slim(each) for each in items), key=lambda each: json.dumps(each["metadata"]))
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": ordered}).encode()


def _label(name: str) -> StreamLabel:
    return StreamLabel(f"kubernetes/{name}", "kubernetes", "platform")
