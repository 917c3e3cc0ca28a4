"""A contract server: lists, pages, watches and refuses as a Kubernetes API server does.

Written from the published API conventions (kubernetes.io/docs/reference/using-api/api-concepts): no
API server can be installed here. `test_contract_server.py` proves it with the official client and
kubectl.
"""

import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from selectors_of_lists import selector

TOKEN = "hunter2-token"
KINDS = {
    ("", "v1"): {"pods": "Pod", "events": "Event", "nodes": "Node"},
    ("batch", "v1"): {"jobs": "Job"},
    ("jobset.x-k8s.io", "v1alpha2"): {"jobsets": "JobSet"},
    ("kubeflow.org", "v1"): {"pytorchjobs": "PyTorchJob"},
    ("ray.io", "v1"): {"rayjobs": "RayJob"},
    ("leaderworkerset.x-k8s.io", "v1"): {"leaderworkersets": "LeaderWorkerSet"},
    ("kueue.x-k8s.io", "v1beta1"): {"workloads": "Workload"},
}
CLUSTER_WIDE = {"nodes"}


@dataclass
class Fault:
    """What to answer instead, for so many requests whose path holds a text."""

    path: str
    kind: str
    times: int = 1
    headers: dict[str, str] = field(default_factory=dict)


class ApiServer(ThreadingHTTPServer):
    """Objects by resource; every change has a version, and a watch tells changes since one."""

    daemon_threads = True

    def __init__(self, kueue: str = "v1beta1", tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.scheme = "http" if tls is None else "https"
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.kinds = {
            (group, kueue if group == "kueue.x-k8s.io" else version): names
            for (group, version), names in KINDS.items()
        }
        self.version = 100
        self.oldest = 100
        self.objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = {}
        self.changes: list[tuple[int, str, str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.seen: list[str] = []
        self.changed = threading.Condition()
        self.snapshots: dict[int, list[dict[str, Any]]] = {}
        self.page = 500
        self.needs_token = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing about clients that give up: that is what is tested."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_port}"

    def put(self, plural: str, item: dict[str, Any]) -> None:
        """Add or change an object."""
        metadata = item.setdefault("metadata", {})
        key = (metadata.get("namespace", ""), metadata["name"])
        held = self.objects.setdefault(plural, {})
        with self.changed:
            self.version += 1
            metadata["resourceVersion"] = str(self.version)
            what = "MODIFIED" if key in held else "ADDED"
            held[key] = json.loads(json.dumps(item))
            self.changes.append((self.version, plural, what, held[key]))
            self.changed.notify_all()

    def delete(self, plural: str, name: str, namespace: str = "") -> None:
        """Remove an object."""
        with self.changed:
            self.version += 1
            item = self.objects[plural].pop((namespace, name))
            self.changes.append((self.version, plural, "DELETED", item))
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget all changes until now, as etcd does every five minutes."""
        with self.changed:
            self.oldest = self.version
            self.changes = []
            self.snapshots.clear()

    def take_fault(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.path in path and fault.times > 0:
                fault.times -= 1
                return fault
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ApiServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        self.server.seen.append(self.path)
        fault = self.server.take_fault(parts.path + ("?watch" if "watch" in query else ""))
        if fault is not None and not fault.kind.startswith("watch-"):
            self._misbehave(fault)
            return
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}" or self._is_certified()
        if self.server.needs_token and not is_known:
            self._status(401, "Unauthorized", "Unauthorized")
            return
        names = [name for name in parts.path.split("/") if name]
        if self._discover(names):
            return
        found = self._resource(names)
        if found is None:
            self._status(404, "NotFound", "the server could not find the requested resource")
            return
        plural, namespace, name, version = found
        if namespace == "forbidden":
            self._status(403, "Forbidden", f"{plural} is forbidden: cannot list resource")
        elif query.get("watch") in ("true", "1"):
            self._watch(plural, namespace, query, fault)
        elif name:
            item = self.server.objects.get(plural, {}).get((namespace, name))
            if item is None:
                self._status(404, "NotFound", f'{plural} "{name}" not found')
            else:
                self._json(200, item)
        else:
            self._list(plural, namespace, query, version)

    def _is_certified(self) -> bool:
        """Whether the client showed a certificate of our authority."""
        return isinstance(self.request, ssl.SSLSocket) and bool(self.request.getpeercert())

    def _discover(self, names: list[str]) -> bool:
        server = self.server
        if names == ["version"]:
            self._json(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.4-contract"})
        elif names == ["api"]:
            self._json(200, {"kind": "APIVersions", "versions": ["v1"]})
        elif names == ["apis"]:
            groups = [_group(*key) for key in server.kinds if key[0]]
            self._json(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        elif len(names) == 2 and names[0] == "apis":
            group = next((_group(*key) for key in server.kinds if key[0] == names[1]), None)
            if group is None:
                return False
            self._json(200, {"kind": "APIGroup", "apiVersion": "v1", **group})
        elif names[:1] in (["api"], ["apis"]) and len(names) == (2 if names[0] == "api" else 3):
            key = ("", names[1]) if names[0] == "api" else (names[1], names[2])
            if key not in server.kinds:
                return False
            resources = [
                {"name": plural, "singularName": kind.lower(), "kind": kind,
                 "namespaced": plural not in CLUSTER_WIDE, "verbs": ["get", "list", "watch"]}
                for plural, kind in server.kinds[key].items()
            ]  # fmt: skip
            version = key[1] if not key[0] else "/".join(key)
            self._json(
                200,
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version,
                 "resources": resources},
            )  # fmt: skip
        else:
            return False
        return True

    def _resource(self, names: list[str]) -> tuple[str, str, str, str] | None:
        rest = names[1:] if names[:1] == ["api"] else names[2:]
        group = "" if names[:1] == ["api"] else names[1] if len(names) > 1 else "?"
        if not rest or (group, rest[0]) not in self.server.kinds:
            return None
        version, rest = rest[0], rest[1:]
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if not rest or rest[0] not in self.server.kinds[(group, version)]:
            return None
        return (
            rest[0],
            namespace,
            rest[1] if len(rest) > 1 else "",
            "/".join(filter(None, (group, version))),
        )

    def _list(self, plural: str, namespace: str, query: dict[str, str], version: str) -> None:
        server = self.server
        wanted = int(query.get("resourceVersion") or 0)
        chosen = selector(query)
        if chosen is None:
            self._status(400, "BadRequest", "unable to parse or unsupported selector")
            return
        with server.changed:
            held = server.objects.get(plural, {})
            items = [
                held[key] for key in sorted(held) if namespace in ("", key[0]) and chosen(held[key])
            ]
            at = server.version
        start = 0
        if "continue" in query:
            token = json.loads(base64.urlsafe_b64decode(query["continue"]))
            if wanted:
                self._status(400, "BadRequest", "specifying resource version is not allowed when "
                             "using continue")  # fmt: skip
                return
            if token["rv"] not in server.snapshots:
                self._status(410, "Expired", "The provided continue parameter is too old")
                return
            start, at = token["start"], token["rv"]
            items = server.snapshots[at]
        elif wanted > at:
            self._status(504, "Timeout", f"Too large resource version: {wanted}, current: {at}")
            return
        elif query.get("resourceVersionMatch") == "Exact" and wanted < at:
            self._status(410, "Expired", f"The resourceVersion for the provided list is too old: "
                         f"{wanted}")  # fmt: skip
            return
        limit = min(int(query.get("limit") or server.page), server.page)
        page = items[start : start + limit]
        metadata: dict[str, Any] = {"resourceVersion": str(at)}
        if start + limit < len(items):
            server.snapshots[at] = items
            token_text = json.dumps({"rv": at, "start": start + limit}).encode()
            metadata["continue"] = base64.urlsafe_b64encode(token_text).decode()
            metadata["remainingItemCount"] = len(items) - start - limit
        kind = next(names[plural] for names in server.kinds.values() if plural in names)
        # A list's items carry no kind of their own.
        bare = [{k: v for k, v in each.items() if k not in ("kind", "apiVersion")} for each in page]
        self._json(
            200, {"kind": f"{kind}List", "apiVersion": version, "metadata": metadata, "items": bare}
        )

    def _watch(
        self, plural: str, namespace: str, query: dict[str, str], fault: Fault | None
    ) -> None:
        server = self.server
        chosen = selector(query)
        if chosen is None:
            self._status(400, "BadRequest", "unable to parse or unsupported selector")
            return
        at = int(query.get("resourceVersion") or server.version)
        if at < server.oldest:
            self._status(410, "Expired", f"too old resource version: {at} ({server.oldest})")
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        deadline = time.monotonic() + float(query.get("timeoutSeconds") or 30)
        while True:
            with server.changed:
                new = [c for c in server.changes if c[0] > at]
                if not new:
                    server.changed.wait(min(0.2, max(0.0, deadline - time.monotonic())))
            for version, changed, what, item in new:
                at = version
                own = item["metadata"].get("namespace", "")
                if changed == plural and namespace in ("", own) and chosen(item):
                    if fault is not None and fault.kind == "watch-cut":
                        self._chunk(json.dumps({"type": what, "object": item}).encode()[:40])
                        self.close_connection = True
                        return
                    self._event(what, item)
            if fault is not None and fault.kind == "watch-expires":
                self._event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
                break
            if time.monotonic() >= deadline:
                if query.get("allowWatchBookmarks") == "true":
                    kind = next(n[plural] for n in server.kinds.values() if plural in n)
                    self._event(
                        "BOOKMARK", {"kind": kind, "metadata": {"resourceVersion": str(at)}}
                    )
                break
        self._chunk(b"")

    def _event(self, what: str, item: dict[str, Any]) -> None:
        self._chunk(json.dumps({"type": what, "object": item}).encode() + b"\n")

    def _chunk(self, body: bytes) -> None:
        self.wfile.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
        self.wfile.flush()

    def _misbehave(self, fault: Fault) -> None:
        if fault.kind.isdigit():
            self._status(int(fault.kind), "Fault", "as asked", fault.headers)
        elif fault.kind == "truncated":
            self.send_response(200)
            self.send_header("Content-Length", "5000")
            self.end_headers()
            self.wfile.write(b'{"items": [')
            self.close_connection = True
        elif fault.kind == "slow":
            time.sleep(float(fault.headers.get("seconds", "1")))
            self._status(500, "Fault", "late")
        elif fault.kind == "huge":
            self._json(200, {"items": [], "padding": "x" * 3_000_000})

    def _status(
        self, code: int, reason: str, message: str, headers: dict[str, str] | None = None
    ) -> None:
        value = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        }  # fmt: skip
        self._json(code, value, headers)

    def _json(
        self, code: int, value: dict[str, Any], headers: dict[str, str] | None = None
    ) -> None:
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, each in (headers or {}).items():
            self.send_header(name, each)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def _group(group: str, version: str) -> dict[str, Any]:
    known = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [known], "preferredVersion": known}


@contextmanager
def serving(kueue: str = "v1beta1", tls: ssl.SSLContext | None = None) -> Iterator[ApiServer]:
    """Run a server for as long as the body does."""
    with ApiServer(kueue, tls) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def pod(name: str, node: str, job: str = "sft", **status: Any) -> dict[str, Any]:
    """Return a pod of a job."""
    labels = {
        "batch.kubernetes.io/job-name": job,
        "batch.kubernetes.io/job-completion-index": name[-1],
    }
    secret = {"name": "TOKEN", "value": TOKEN}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "labels": labels, "uid": f"uid-{name}"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "env": [secret]}]},
        "status": {"phase": "Running", **status},
    }  # fmt: skip


def condition(kind: str, at: str, status: str = "True", **said: str) -> dict[str, str]:
    """Return a condition; `said` are its reason and message."""
    return {"type": kind, "status": status, "lastTransitionTime": at, **said}
