"""Logs of a job's pods from the Kubernetes API: every container, also the instance before.

The API keeps a pod's log as long as the pod, and of a container what the kubelet has not rotated
away (10 MiB as shipped). What is gone is told, so that another source can be asked.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from connectors.allowance import Allowance
from connectors.parts import Part, open_parts
from connectors.protocol import (
    ByteStream,
    Capabilities,
    Collected,
    ConnectorError,
    Probe,
    probe_status,
)
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.telemetry.settings import PodLogs
from connectors.telemetry.templates import TemplateValueError, fill
from engine.model.moment import parse_rfc3339
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

NAME: Final = "pod_logs"
LIMIT_BYTES: Final = 32 * 1024 * 1024
_LATE_S: Final = 60
_STAMP: Final = re.compile(rb"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z ")


@dataclass(slots=True)
class PodLogsConnector:
    """The pods of one API server. `open_api` gives it for an allowance."""

    cluster: str
    target: str
    settings: PodLogs
    open_api: Callable[[Allowance], KubernetesApi]
    clock: Callable[[], float]
    name: str = NAME

    @property
    def capabilities(self) -> Capabilities:
        """Nothing is left once the pods are deleted."""
        return Capabilities(sources=("applog",), trust="workload", resumes=True, remembers=False)

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield a stream for each instance of each container that has a log."""
        allowance = Allowance(item.budget, self.clock)
        try:
            selector = self._selector(workload)
            api = self.open_api(allowance)
            pods = api.list_items("Pod", workload.namespace, labels=selector).items
            if not pods:
                collected.coverage = "unverified"
                collected.warnings.append(
                    f"no pod carries {selector}: deleted, or the labels are wrong; a log store "
                    "has to tell"
                )
            parts = [
                part
                for pod in pods
                for part in _parts(api, pod, workload, since=_since(item), collected=collected)
            ]
            yield from open_parts(parts, cursor=item.cursor, collected=collected)
        except TemplateValueError as error:
            collected.coverage = "unverified"
            collected.warnings.append(str(error))
        finally:
            collected.requests = allowance.requests

    def probe(self) -> Probe:
        """Ask for the server's version; never raises `ConnectorError`."""
        try:
            found = self.open_api(Allowance(self.settings.budget, self.clock)).describe_server()
        except ConnectorError as error:
            return Probe(self.name, self.target, probe_status(error), str(error))
        wanted = ", ".join(f"{key}={value}" for key, value in sorted(self.settings.match.items()))
        return Probe(self.name, self.target, "ok", f"Kubernetes {found}", (f"applog: {wanted}",))

    def _selector(self, workload: Workload) -> str:
        match = self.settings.match
        return ",".join(f"{key}={fill(match[key], workload, safe=True)}" for key in sorted(match))


def _since(item: PlanItem) -> str | None:
    starts = [each.start for each in item.windows if each.name != "history" and each.start]
    return min(starts, key=lambda text: parse_rfc3339(text, None)) if starts else None


def _parts(
    api: KubernetesApi,
    pod: Mapping[str, Any],
    workload: Workload,
    *,
    since: str | None,
    collected: Collected,
) -> Iterator[Part]:
    metadata, spec, status = (_map(pod.get(key)) for key in ("metadata", "spec", "status"))
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    node = str(spec.get("nodeName") or "")
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(kind) or ():
            held = _map(container)
            label = str(held.get("name") or "")
            instances = ["current"] if held.get("state") != {"waiting": {}} else []
            if int(held.get("restartCount") or 0) > 0:
                instances.append("previous")
            for instance in instances:
                yield Part(
                    StreamLabel(
                        f"pods/{name}/{label}/{instance}",
                        "applog",
                        "workload",
                        nodes=(node,) if node else workload.nodes,
                        pod=name,
                        container=label,
                    ),
                    _Fetch(api, namespace, name, held, instance, since, collected),
                )


@dataclass(slots=True, frozen=True)
class _Fetch:
    """One log to be fetched."""

    api: KubernetesApi
    namespace: str
    pod: str
    container: Mapping[str, Any]
    instance: str
    since: str | None
    collected: Collected

    def __call__(self) -> bytes:
        params: dict[str, str | int] = {
            "container": str(self.container.get("name") or ""),
            "timestamps": "true",
            "limitBytes": LIMIT_BYTES,
        }
        if self.since is not None:
            params["sinceTime"] = self.since
        if self.instance == "previous":
            params["previous"] = "true"
        path = f"{self.api.path('Pod', quote(self.namespace, safe=''))}/{quote(self.pod, safe='')}"
        body = self.api.source.get(f"{path}/log", params)
        self._note_loss(body)
        return body

    def _note_loss(self, body: bytes) -> None:
        place = f"pods/{self.pod}/{name_of(self.container)}/{self.instance}"
        if len(body) >= LIMIT_BYTES:
            self.collected.warnings.append(f"{place}: cut after {LIMIT_BYTES} bytes")
            self.collected.paths_missing.append(f"{place}, its end")
        state = "state" if self.instance == "current" else "lastState"
        began = _began(_map(self.container.get(state)))
        first = _STAMP.match(body)
        if began is None or first is None:
            return
        since = None if self.since is None else parse_rfc3339(self.since, None)
        expected = began if since is None else max(began, since)
        at = datetime.fromisoformat(first[1].decode()).replace(tzinfo=UTC)
        if (at - expected).total_seconds() > _LATE_S:
            self.collected.warnings.append(
                f"{place}: begins {int((at - expected).total_seconds())} s after its container; "
                "silent until then, or rotated away"
            )


def name_of(container: Mapping[str, Any]) -> str:
    """Return a container's name."""
    return str(container.get("name") or "")


def _began(state: Mapping[str, Any]) -> datetime | None:
    for each in ("running", "terminated"):
        text = _map(state.get(each)).get("startedAt")
        if isinstance(text, str):
            return parse_rfc3339(text, None)
    return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
