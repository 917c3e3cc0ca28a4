"""A contract server: answers as slurmrestd does, in the shapes of v0.0.39 (23.02) to v0.0.45.

Written from the OpenAPI definitions that SchedMD publishes with Slurm's tests. To compare every
answer with such a file:

    python tests/contract/slurmrestd.py openapi_spec_v43.json ...

Debian's own slurmrestd (v0.0.38) runs in tests/slurm.
"""

import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

OLDEST, NEWEST = 39, 45
VERSIONS = range(OLDEST, NEWEST + 1)
RELEASES = {39: "23.02.8", 40: "23.11.10", 41: "24.05.3", 42: "24.11.7", 43: "25.05.4",
            44: "25.11.0", 45: "26.05.0"}  # fmt: skip
SECRET = "export TOKEN=not-to-be-stored"


@dataclass
class Job:
    """One attempt of one job, in no version's shape."""

    id: int
    state: str
    code: int = 0
    signal: int = 0
    start: int = 1_760_000_000
    end: int = 1_760_000_600
    nodes: str = "n[1-2]"
    name: str = "sft"
    array: tuple[int, int] | None = None
    het: tuple[int, int] | None = None
    restarts: int = 0
    failed_node: str = ""
    killed_by: str = ""
    limit: int = 60
    gpus: int = 8
    step: tuple[str, int] | None = None
    held: bool = True
    """Whether the controller still knows it."""


@dataclass
class Node:
    """One node."""

    name: str
    state: tuple[str, ...]
    reason: str = ""
    instance: str = ""


@dataclass
class Fault:
    """What to answer instead, for so many requests whose path holds a text."""

    path: str
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1_000
    is_cut: bool = False
    after_s: float = 0.0


class Shapes:
    """The documents of one version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.has_lists = version >= 40

    def number(self, value: int | None) -> dict[str, Any]:
        return {"set": value is not None, "infinite": False, "number": value or 0}

    def moment(self, value: int) -> Any:
        return self.number(value) if self.has_lists else value

    def state(self, *words: str) -> Any:
        return list(words) if self.has_lists else words[0]

    def exit(self, code: int, signal: int) -> dict[str, Any]:
        status = "SIGNALED" if signal else "ERROR" if code else "SUCCESS"
        if not self.has_lists:
            told: dict[str, Any] = {"status": status, "return_code": code}
            if signal:
                told["signal"] = {"signal_id": signal, "name": ""}
            return told
        return {
            "status": [status], "return_code": self.number(None if signal else code),
            "signal": {"id": self.number(signal or None), "name": ""},
        }  # fmt: skip

    def meta(self) -> dict[str, Any]:
        release = RELEASES[self.version]
        major, minor, micro = release.split(".")
        if not self.has_lists:
            words = {"major": int(major), "minor": int(minor), "micro": int(micro)}
            return {"meta": {"Slurm": {"version": words, "release": release}},
                    "errors": [], "warnings": []}  # fmt: skip
        words = {"major": major, "minor": minor, "micro": micro}
        return {"meta": {"slurm": {"version": words, "release": release, "cluster": "c"}},
                "errors": [], "warnings": []}  # fmt: skip

    def accounting(self, jobs: list[Job]) -> dict[str, Any]:
        document = {**self.meta(), "jobs": [self._accounted(job) for job in jobs]}
        if not jobs:
            told = "slurmdb_jobs_get(0x7f22cc00ae90) found nothing"
            document["warnings"] = [{"description": told, "source": "_dump_jobs"}]
        return document

    def _accounted(self, job: Job) -> dict[str, Any]:
        array, het = job.array or (0, None), job.het or (0, None)
        gpu = {"type": "gres", "name": "gpu", "id": 1001, "count": job.gpus}
        found: dict[str, Any] = {
            "account": "ml", "cluster": "c", "name": job.name, "job_id": job.id,
            "comment": {"administrator": "", "job": SECRET, "system": ""},
            "array": {"job_id": array[0], "task_id": self.number(array[1]), "task": ""},
            "het": {"job_id": het[0], "job_offset": self.number(het[1])},
            "association": {"account": "ml", "cluster": "c", "partition": "", "user": "ann"},
            "exit_code": self.exit(job.code, job.signal),
            "derived_exit_code": self.exit(job.code, 0),
            "time": {"elapsed": job.end - job.start, "eligible": job.start, "end": job.end,
                     "start": job.start, "submission": job.start - 60, "suspended": 0,
                     "limit": self.number(job.limit)},
            "failed_node": job.failed_node, "kill_request_user": job.killed_by,
            "nodes": job.nodes, "partition": "gpu", "script": SECRET, "submit_line": SECRET,
            "state": {"current": self.state(job.state), "reason": "None"},
            "steps": [self._step(job)] if job.step else [],
            "tres": {"allocated": [gpu], "requested": [gpu]}, "user": "ann",
            "working_directory": "/home/ann",
        }  # fmt: skip
        if self.version >= 42:
            found["restart_cnt"] = job.restarts
        if self.version >= 41:
            found |= {"stdout": "/out/%j.log", "stdout_expanded": f"/out/{job.id}.log"}
        return found

    def _step(self, job: Job) -> dict[str, Any]:
        assert job.step is not None
        name, code = job.step
        identity = f"{job.id}.{name}" if self.has_lists else {"job_id": job.id, "step_id": name}
        return {
            "step": {"id": identity, "name": name}, "state": self.state("FAILED"),
            "exit_code": self.exit(code, 0), "nodes": {"count": 1, "range": "n1", "list": ["n1"]},
            "time": {"elapsed": 1, "start": self.moment(job.start), "end": self.moment(job.end)},
        }  # fmt: skip

    def controller(self, jobs: list[Job]) -> dict[str, Any]:
        document = {**self.meta(), "jobs": [self._held(job) for job in jobs]}
        if self.has_lists:
            document |= {"last_backfill": self.number(0), "last_update": self.number(0)}
        if not jobs:
            told = {"description": "Unable to query JobId=", "error_number": 2017,
                    "error": "Invalid job id specified", "source": "_handle_job_get"}  # fmt: skip
            document["errors"] = [told]
        return document

    def _held(self, job: Job) -> dict[str, Any]:
        array, het = job.array or (0, None), job.het or (0, 0)
        status = job.code << 8 | job.signal
        return {
            "account": "ml", "cluster": "c", "name": job.name, "job_id": job.id,
            "comment": SECRET, "command": SECRET, "current_working_directory": "/home/ann",
            "array_job_id": self.number(array[0]), "array_task_id": self.number(array[1]),
            "het_job_id": self.number(het[0]), "het_job_offset": self.number(het[1]),
            "exit_code": self.exit(job.code, job.signal) if self.has_lists
            else self.number(status),
            "derived_exit_code": self.exit(job.code, 0) if self.has_lists else self.number(0),
            "start_time": self.moment(job.start), "end_time": self.moment(job.end),
            "submit_time": self.moment(job.start - 60), "time_limit": self.number(job.limit),
            "failed_node": job.failed_node, "nodes": job.nodes, "partition": "gpu",
            "job_state": self.state(job.state), "state_reason": "None",
            "restart_cnt": job.restarts, "gres_detail": [f"gpu:h100:{job.gpus}(IDX:0-7)"],
            "tres_alloc_str": "cpu=8,mem=1G,node=2,billing=8", "user_name": "ann",
            "standard_output": f"/out/{job.id}.log", "standard_error": f"/out/{job.id}.log",
        }  # fmt: skip

    def nodes(self, nodes: list[Node]) -> dict[str, Any]:
        document = {**self.meta(), "nodes": [self._node(node) for node in nodes]}
        if self.has_lists:
            document["last_update"] = self.number(0)
        if not nodes:
            told = {"description": "Failure to query node x", "error_number": 0,
                    "error": "No error", "source": "_dump_nodes"}  # fmt: skip
            document["errors"] = [told]
            if self.version >= 44:
                del document["nodes"], document["last_update"]
        return document

    def _node(self, node: Node) -> dict[str, Any]:
        found = {
            "name": node.name, "hostname": node.name, "address": node.name, "comment": SECRET,
            "state": list(node.state), "reason": node.reason, "reason_set_by_user": "root",
            "reason_changed_at": self.moment(1_760_000_600), "boot_time": self.moment(1),
            "slurmd_start_time": self.moment(1), "version": RELEASES[self.version],
        }  # fmt: skip
        if self.version >= 41:
            found |= {"instance_id": node.instance, "instance_type": ""}
        return found

    def ping(self) -> dict[str, Any]:
        told: dict[str, Any] = {"hostname": "head"}
        told |= {"pinged": "UP", "mode": "primary"} if self.version < 45 else {"status": "UP"}
        if self.version >= 42:
            told |= {"responding": True, "primary": True}
        return {**self.meta(), "pings": [told]}

    def openapi(self, served: list[int]) -> dict[str, Any]:
        paths = [
            path.replace("V", f"v0.0.{number}")
            for number in served
            for path in ("/slurm/V/job/{job_id}", "/slurmdb/V/job/{job_id}", "/slurm/V/ping/")
        ]
        return {"openapi": "3.0.3", "paths": {path: {"get": {}} for path in paths}}


class SlurmRest(ThreadingHTTPServer):
    """slurmrestd of one cluster; `served` are the versions that it has."""

    daemon_threads = True

    def __init__(self, served: list[int], token: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.served, self.token = served, token
        self.jobs: list[Job] = []
        self.nodes: list[Node] = []
        self.faults: list[Fault] = []
        self.seen: list[str] = []

    def handle_error(self, *_: Any) -> None:
        """Say nothing about clients that give up: that is what is tested."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def jobs_of(self, number: int) -> list[Job]:
        """Return all attempts of a job; of an array or het job those of all its parts."""
        return [
            job for job in self.jobs
            if number in (job.id, (job.array or (0,))[0], (job.het or (0,))[0])
        ]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlurmRest

    def do_GET(self) -> None:
        server, path = self.server, self.path.split("?")[0]
        server.seen.append(path)
        fault = next((each for each in server.faults if each.path in path and each.times > 0), None)
        if fault is not None:
            fault.times -= 1
            time.sleep(fault.after_s)
            self._reply(fault.status, fault.body, fault.headers, is_cut=fault.is_cut)
            return
        told = self.headers.get("X-SLURM-USER-TOKEN")
        if server.token is not None and told is None:
            newest = max(server.served)
            text = b"Authentication does not apply to request"
            self._reply(500 if newest >= 44 else 401, text if newest >= 44 else b"Authentication "
                        b"failure")  # fmt: skip
            return
        if path == "/openapi/v3":
            self._json(200, Shapes(max(server.served)).openapi(server.served))
            return
        match = re.fullmatch(r"/(slurm|slurmdb)/v0\.0\.(\d+)/(job|node|nodes|ping)(?:/(.*))?", path)
        if match is None or int(match[2]) not in server.served:
            self._reply(404, b"Unable find requested URL. Please view /openapi/v3")
            return
        shapes = Shapes(int(match[2]))
        if server.token is not None and told != server.token:
            self._denied(shapes)
            return
        self._answer(shapes, match[1], match[3], match[4] or "")

    def _answer(self, shapes: Shapes, plugin: str, what: str, name: str) -> None:
        server = self.server
        if what == "ping":
            self._json(200, shapes.ping())
        elif what in ("node", "nodes"):
            named = [node for node in server.nodes if what == "nodes" or node.name == name]
            self._json(200, shapes.nodes(named))
        else:
            found = server.jobs_of(int(name)) if name.isdigit() else []
            if plugin == "slurmdb":
                self._json(200, shapes.accounting(found))
            else:
                held = [job for job in found if job.held]
                self._json(200 if held else 404, shapes.controller(held))

    def _denied(self, shapes: Shapes) -> None:
        """A wrong token: HTTP 500 until 24.05, 511 later, with Slurm's own number."""
        told = {"description": "Unable to query jobs", "error_number": 1007,
                "error": "Protocol authentication error", "source": "slurm_load_jobs"}  # fmt: skip
        document = {**shapes.meta(), "jobs": [], "errors": [told]}
        self._json(511 if shapes.version >= 42 else 500, document)

    def _json(self, status: int, value: dict[str, Any]) -> None:
        # As Slurm's serializer writes it: indented, with slashes escaped.
        text = json.dumps(value, indent=2).replace("/", "\\/")
        self._reply(status, text.encode(), {"Content-Type": "application/json"})

    def _reply(self, status: int, body: bytes, headers: Any = (), *, is_cut: bool = False) -> None:
        self.send_response(status)
        for name, each in dict(headers).items():
            self.send_header(name, each)
        self.send_header("Content-Length", str(len(body) + (5000 if is_cut else 0)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = self.close_connection or is_cut

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving(*served: int, token: str | None = None) -> Iterator[SlurmRest]:
    """Run a server of these versions for as long as the body does."""
    with SlurmRest(list(served), token) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


def differences(spec: dict[str, Any]) -> list[str]:
    """Return where our answers differ from a published definition: unknown keys, other types."""
    (version,) = {int(n) for p in spec["paths"] for n in re.findall(r"/v0\.0\.(\d+)/", p)}
    shapes = Shapes(version)
    jobs = [Job(7, "FAILED", code=1, step=("batch", 1)), Job(8, "FAILED", signal=9, array=(7, 1))]
    nodes = [Node("n1", ("DOWN", "DRAIN"), "x", "i-1")]
    answers = {
        f"/slurmdb/v0.0.{version}/job/{{job_id}}": shapes.accounting(jobs),
        f"/slurm/v0.0.{version}/job/{{job_id}}": shapes.controller(jobs),
        f"/slurm/v0.0.{version}/node/{{node_name}}": shapes.nodes(nodes),
        f"/slurm/v0.0.{version}/ping/": shapes.ping(),
    }
    found = []
    for path, answer in answers.items():
        content = spec["paths"][path]["get"]["responses"]["200"]["content"]
        schema = content["application/json"]["schema"]
        found += [f"{path} {each}" for each in _compared(answer, schema, spec, "")]
    return found


def _compared(value: Any, schema: dict[str, Any], spec: dict[str, Any], at: str) -> list[str]:
    while "$ref" in schema:
        schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    wanted = schema.get("type")
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int,
             "number": (int, float)}  # fmt: skip
    if wanted in kinds and not isinstance(value, kinds[wanted]):
        return [f"{at}: {wanted} is published, {type(value).__name__} is served"]
    if isinstance(value, dict):
        known = schema.get("properties", {})
        unknown = [f"{at}.{name}: is not published" for name in value if name not in known]
        inner = [_compared(value[n], known[n], spec, f"{at}.{n}") for n in value if n in known]
        return unknown + [each for several in inner for each in several]
    if isinstance(value, list):
        several = [_compared(each, schema["items"], spec, f"{at}[]") for each in value]
        return [each for inner in several for each in inner]
    if isinstance(value, str) and "enum" in schema and value not in schema["enum"]:
        return [f"{at}: {value!r} is none of the published values"]
    return []


def main(*paths: str) -> int:
    """Compare our answers with published definitions; returns 1 where they differ."""
    count = 0
    for path in paths:
        found = differences(json.loads(Path(path).read_bytes()))
        count += len(found)
        print(f"{path}: {len(found)} differences", *found, sep="\n  ")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
