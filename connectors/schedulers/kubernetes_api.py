"""Listing and watching a Kubernetes API server over HTTP.

Source: kubernetes.io/docs/reference/using-api/api-concepts (pages, resource versions, bookmarks).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.http_source import HttpSource
from connectors.protocol import (
    CursorExpiredError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceUnreachableError,
)

PAGE: Final = 500
_MAX_LINE_BYTES: Final = 8 * 1024 * 1024
RESOURCES: Final = {
    "Pod": ("", ("v1",), "pods"),
    "Event": ("", ("v1",), "events"),
    "Node": ("", ("v1",), "nodes"),
    "Job": ("batch", ("v1",), "jobs"),
    "JobSet": ("jobset.x-k8s.io", ("v1alpha2", "v1"), "jobsets"),
    "PyTorchJob": ("kubeflow.org", ("v1",), "pytorchjobs"),
    "MPIJob": ("kubeflow.org", ("v2beta1", "v1"), "mpijobs"),
    "TrainJob": ("trainer.kubeflow.org", ("v1alpha1", "v1"), "trainjobs"),
    "RayJob": ("ray.io", ("v1", "v1beta1", "v1alpha1"), "rayjobs"),
    "HyperPodPyTorchJob": ("sagemaker.amazonaws.com", ("v1",), "hyperpodpytorchjobs"),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", ("v1",), "leaderworkersets"),
    "Workload": ("kueue.x-k8s.io", ("v1beta2", "v1beta1"), "workloads"),
}
"""Kind to group, the versions that can be read (best first), and the resource's name."""


@dataclass(slots=True)
class Listed:
    """A whole list, and the resource version that a watch goes on from."""

    items: list[dict[str, Any]]
    version: str


@dataclass(slots=True)
class KubernetesApi:
    """One API server. What a server does not have (a CRD) is `SourceAbsentError`."""

    source: HttpSource
    _served: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def path(self, kind: str, namespace: str | None = None) -> str:
        """Return the path of a kind in the best version that the server has."""
        group, versions, plural = RESOURCES[kind]
        middle = f"namespaces/{namespace}/" if namespace else ""
        if not group:
            return f"/api/{versions[0]}/{middle}{plural}"
        served = self._versions(group)
        version = next((each for each in versions if each in served), None)
        if version is None:
            raise SourceAbsentError(
                f"{self.source.what}: has {group} {', '.join(served)}, wanted {versions[0]}"
            )
        return f"/apis/{group}/{version}/{middle}{plural}"

    def list_items(
        self,
        kind: str,
        namespace: str | None = None,
        *,
        fields: str | None = None,
        labels: str | None = None,
    ) -> Listed:
        """Return all objects of a kind, page by page; lists again once when the pages expired."""
        path = self.path(kind, namespace)
        selectors = {"fieldSelector": fields, "labelSelector": labels}
        chosen = {name: value for name, value in selectors.items() if value}
        try:
            return self._pages(path, chosen, kind)
        except CursorExpiredError:
            return self._pages(path, chosen, kind)

    def watch_items(
        self, kind: str, version: str, namespace: str | None = None, *, seconds: int = 300
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield `(type, object)` from a version on: ADDED, MODIFIED, DELETED and BOOKMARK.

        Ends when the server ends it. Raises `CursorExpiredError` where the version is gone, also
        when the server says so in the middle (an ERROR event of code 410).
        """
        params: dict[str, str | int] = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        }
        with self.source.stream(self.path(kind, namespace), params) as pieces:
            for line in _lines(pieces):
                try:
                    event = json.loads(line)
                    what, item = str(event["type"]), event["object"]
                except (KeyError, TypeError, ValueError) as error:
                    raise SourceUnreachableError(
                        f"{self.source.what}: a watch of {kind} broke off ({error})"
                    ) from error
                if what == "ERROR":
                    self._fail(item, kind)
                if isinstance(item, dict):
                    yield what, item

    def describe_server(self) -> str:
        """Return the server's version; raises the errors of `connectors.protocol`."""
        value = self.source.get_json("/version")
        return str(value.get("gitVersion", "unknown")) if isinstance(value, dict) else "unknown"

    def _versions(self, group: str) -> tuple[str, ...]:
        if group not in self._served:
            value = self.source.get_json(f"/apis/{group}")
            given = value.get("versions") if isinstance(value, dict) else None
            self._served[group] = tuple(
                str(each.get("version")) for each in given or () if isinstance(each, dict)
            )
        return self._served[group]

    def _pages(self, path: str, chosen: dict[str, str], kind: str) -> Listed:
        items: list[dict[str, Any]] = []
        params: dict[str, str | int] = {"limit": PAGE, **chosen}
        while True:
            value = self.source.get_json(path, params)
            if not isinstance(value, dict) or not isinstance(value.get("items", []), list):
                raise MalformedAnswerError(f"{self.source.what} {path}: no list")
            version = value.get("apiVersion")
            for each in value.get("items") or ():
                if isinstance(each, dict):
                    # Items of a list leave their kind to the list.
                    items.append({"apiVersion": version, "kind": kind, **each})
            metadata = value.get("metadata") or {}
            token = metadata.get("continue")
            if not token:
                return Listed(items, str(metadata.get("resourceVersion") or ""))
            params["continue"] = str(token)

    def _fail(self, item: Any, kind: str) -> None:
        status = item if isinstance(item, dict) else {}
        text = f"{self.source.what}: watch of {kind}: {status.get('message')}"
        if status.get("code") == 410:
            raise CursorExpiredError(text)
        raise SourceUnreachableError(text)


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    held = b""
    for piece in pieces:
        held += piece
        *whole, held = held.split(b"\n")
        yield from (line for line in whole if line.strip())
        if len(held) > _MAX_LINE_BYTES:
            raise MalformedAnswerError("one watch event is larger than 8 MiB")
    if held.strip():
        yield held
