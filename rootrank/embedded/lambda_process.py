"""One execution environment of Lambda: AWS's runtime client in a process of its own.

The other side of the Runtime API (docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html) is here,
with what the service does about time and memory: a call that takes too long, and a process that
grows beyond its memory, are killed. Standard library only: it also runs in MiniStack's process.
"""

import contextlib
import json
import os
import queue
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any, Final

INIT_S: Final = 10.0
"""What Lambda gives a function's initialisation, beside the call's own time."""
MAX_ANSWER_BYTES: Final = 6 * 1024 * 1024
"""Lambda's limit for a synchronous answer; the event's is the same."""
_POLL_S: Final = 0.01
_REGION: Final = "us-east-1"


@dataclass(slots=True, frozen=True)
class FunctionSpec:
    """What Lambda knows of a function. `packages` are the layers' folders, `client` the runtime's.

    `launcher` comes before the command, for a namespace of its own.
    """

    name: str
    handler: str
    code: Path
    packages: Sequence[Path]
    client: Path
    python: str
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int = 512
    timeout_s: float = 60.0
    launcher: Sequence[str] = ()


@dataclass(slots=True, frozen=True)
class Answer:
    """What came of one call. `error` is None, or `Unhandled` as the service calls it."""

    payload: bytes
    error: str | None
    log: str
    milliseconds: float
    is_cold: bool

    @property
    def value(self) -> Any:
        """The answer, or the error's description."""
        return json.loads(self.payload or b"null")


class LambdaProcess:
    """A warm process; killed and replaced when it crashed or took too long. One call at a time."""

    def __init__(self, spec: FunctionSpec) -> None:
        self.spec = spec
        self.starts = 0
        self.init_milliseconds = 0.0
        self.init_cpu_milliseconds = 0.0
        self.peak_mib = 0.0
        self.is_busy = False
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._server: _RuntimeApi | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> "LambdaProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def invoke(self, event: Any) -> Answer:
        """Call the handler with an event that survives JSON."""
        payload = json.dumps(event).encode()
        if len(payload) > MAX_ANSWER_BYTES:
            return _failed("RequestTooLargeException", "the event is larger than 6 MiB")
        with self._lock:
            is_cold = self._process is None or self._process.poll() is not None
            if is_cold:
                self.stop()
                self._start()
            return self._call(payload, is_cold=is_cold)

    def start(self) -> None:
        """Start the process anew and wait until it asks for its first call."""
        with self._lock:
            self.stop()
            self._start()

    def stop(self) -> None:
        """Kill the process and its side of the API."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._server is not None:
            self._server.inbox.put(None)
            self._server.shutdown()
            self._server.server_close()
        if self._log is not None:
            self._log.close()
        self._process = self._server = self._log = None

    def _start(self) -> None:
        self.starts += 1
        self._server = _RuntimeApi()
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        spec = self.spec
        started = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603  our own command
            [*spec.launcher, spec.python, "-m", "awslambdaric", spec.handler],
            cwd=spec.code,
            env=_environment(spec, self._server.server_port),
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        while not self._server.is_ready.wait(_POLL_S):
            if self._process.poll() is not None or time.monotonic() - started > INIT_S:
                break
        self.init_milliseconds = (time.monotonic() - started) * 1000
        self.init_cpu_milliseconds = _cpu_milliseconds(self._process.pid)

    def _call(self, payload: bytes, *, is_cold: bool) -> Answer:
        process, server, log = self._process, self._server, self._log
        if process is None or server is None or log is None:
            raise RuntimeError("the process was not started")
        log.seek(0, os.SEEK_END)
        mark = 0 if is_cold else log.tell()
        started = time.monotonic()
        request = uuid.uuid4().hex
        server.inbox.put(_Call(request, payload, time.time() + self.spec.timeout_s, self.spec.name))
        kind, body = self._outcome(process, server, started + self.spec.timeout_s)
        milliseconds = (time.monotonic() - started) * 1000
        log.seek(mark)
        text = log.read().decode(errors="replace")
        if kind in ("crash", "timeout", "init"):
            self.stop()
        if kind == "response" and len(body) > MAX_ANSWER_BYTES:
            return _failed("Function.ResponseSizeTooLarge", "the answer is larger than 6 MiB")
        error = None if kind == "response" else "Unhandled"
        return Answer(body, error, text, milliseconds, is_cold)

    def _outcome(
        self, process: subprocess.Popen[bytes], server: "_RuntimeApi", deadline: float
    ) -> tuple[str, bytes]:
        while True:
            with contextlib.suppress(queue.Empty):
                found = server.outbox.get(timeout=_POLL_S)
                self._measure(process.pid)
                return found
            if self._measure(process.pid) > self.spec.memory_mib:
                process.kill()
            if process.poll() is not None:
                with contextlib.suppress(queue.Empty):
                    return server.outbox.get_nowait()
                how = (
                    "signal: killed"
                    if process.returncode < 0
                    else f"exit status {process.returncode}"
                )
                return "crash", _error("Runtime.ExitError", f"Runtime exited with error: {how}")
            if time.monotonic() > deadline:
                after = f"{self.spec.timeout_s:.2f} seconds"
                return "timeout", _error("Sandbox.Timedout", f"Task timed out after {after}")

    def _measure(self, pid: int) -> float:
        """Return the memory in use in MiB; the highest is kept."""
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return 0.0
        sizes = {
            line.split(":")[0]: line.split()[1] for line in status.splitlines() if "kB" in line
        }
        self.peak_mib = max(self.peak_mib, int(sizes.get("VmHWM", 0)) / 1024)
        return int(sizes.get("VmRSS", 0)) / 1024


def _cpu_milliseconds(pid: int) -> float:
    """Return what a process has used of a processor, user and system; 0 where it is gone."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        nanoseconds = [int((each / "schedstat").read_text().split()[0]) for each in threads]
    except OSError:
        return 0.0
    return sum(nanoseconds) / 1e6


@dataclass(slots=True, frozen=True)
class _Call:
    request: str
    payload: bytes
    deadline: float
    function: str


class _RuntimeApi(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.inbox: queue.Queue[_Call | None] = queue.Queue()
        self.outbox: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.is_ready = threading.Event()

    def handle_error(self, *_: Any) -> None:
        """Say nothing about a process that was killed."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one segment an answer: else Nagle and delayed ACK cost 40 ms each
    server: _RuntimeApi

    def do_GET(self) -> None:
        if not self.path.endswith("/invocation/next"):
            self._reply(404, b"", {})
            return
        self.server.is_ready.set()
        call = self.server.inbox.get()
        if call is None:
            self.close_connection = True
            return
        arn = f"arn:aws:lambda:{_REGION}:123456789012:function:{call.function}"
        headers = {
            "Lambda-Runtime-Aws-Request-Id": call.request,
            "Lambda-Runtime-Deadline-Ms": str(int(call.deadline * 1000)),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
            "Lambda-Runtime-Trace-Id": f"Root=1-67000000-{call.request[:24]};Sampled=0",
            "Content-Type": "application/json",
        }
        self._reply(200, call.payload, headers)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kinds = {"init/error": "init", "/response": "response", "/error": "error"}
        kind = next((kind for end, kind in kinds.items() if self.path.endswith(end)), None)
        self._reply(202 if kind else 404, b"{}", {})
        if kind:
            self.server.outbox.put((kind, body))

    def _reply(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _environment(spec: FunctionSpec, port: int) -> dict[str, str]:
    """Return what Lambda sets; nothing of this process but its path gets in."""
    places = [spec.client, *spec.packages]
    return {
        "PATH": os.defpath,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "_HANDLER": spec.handler,
        "LAMBDA_TASK_ROOT": str(spec.code),
        "PYTHONPATH": os.pathsep.join(str(each) for each in (spec.code, *places)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{port}",
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "1",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mib),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{spec.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "2020/01/01/[1]local",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
        "AWS_REGION": _REGION,
        "AWS_DEFAULT_REGION": _REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_SESSION_TOKEN": "test",
        **spec.environment,
    }


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"errorType": kind, "errorMessage": message}).encode()


def _failed(kind: str, message: str) -> Answer:
    return Answer(_error(kind, message), "Unhandled", "", 0.0, False)
