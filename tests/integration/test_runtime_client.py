"""Payloads under AWS's own runtime client: a process of its own, as Lambda starts it.

The runtime API (docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html) and the services that these
payloads need are on loopback: an empty table, a bucket that takes everything, a workflow that
starts. What they make together is looked at in test_payloads.py.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from events.queued import queued
from rootrank.embedded.gateway import open_gateway

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
CLIENT = ROOT / "build/ric"
pytestmark = pytest.mark.skipif(
    not CLIENT.is_dir() and "ROOTRANK_REQUIRE_SYSTEM" not in os.environ,
    reason="needs awslambdaric: pip install --target build/ric awslambdaric==4.2.2",
)


class Runtime(ThreadingHTTPServer):
    """The runtime API: hands out events and takes answers; it also plays the services."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.events: queue.Queue[Any] = queue.Queue()
        self.answers: queue.Queue[Any] = queue.Queue()
        self.stored: list[str] = []
        self.started: list[dict[str, Any]] = []

    def handle_error(self, *_: Any) -> None:
        """Say nothing about the function that is killed in the end."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Runtime

    def do_GET(self) -> None:
        if not self.path.endswith("/invocation/next"):
            self._reply(404, b"")
            return
        event = self.server.events.get()
        self._reply(
            200,
            json.dumps(event).encode(),
            {
                "Lambda-Runtime-Aws-Request-Id": "r-1",
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + 60) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:us-east-1:1:function:f",
                "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000",
                "Content-Type": "application/json",
            },
        )

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if target := self.headers.get("X-Amz-Target"):
            self._serve(target.rpartition(".")[2], json.loads(body))
            return
        self.server.answers.put((self.path.rsplit("/", 1)[1], json.loads(body or b"null")))
        self._reply(202, b"{}")

    def _serve(self, action: str, asked: dict[str, Any]) -> None:
        """DynamoDB holds nothing and takes what it gets; Step Functions starts."""
        answer: dict[str, Any] = {}
        if action == "StartExecution":
            self.server.started.append(json.loads(asked["input"]))
            answer = {"executionArn": asked["stateMachineArn"] + asked["name"], "startDate": 0}
        kind = {"Content-Type": "application/x-amz-json-1.0"}
        self._reply(200, json.dumps(answer).encode(), kind)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.stored.append(self.path)
        self._reply(200, b"")

    def _reply(self, status: int, body: bytes, headers: Any = ()) -> None:
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def function(handler: str, bus: str) -> Iterator[Runtime]:
    """Start a function as Lambda does and hand over the runtime that drives it."""
    with Runtime() as runtime:
        threading.Thread(target=runtime.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{runtime.server_port}"
        environment = {
            "PATH": os.defpath, "PYTHONPATH": f"{CLIENT}{os.pathsep}{ROOT}",
            "AWS_LAMBDA_RUNTIME_API": address, "_HANDLER": handler,
            "LAMBDA_TASK_ROOT": str(ROOT), "AWS_LAMBDA_FUNCTION_NAME": "f",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512", "AWS_LAMBDA_FUNCTION_VERSION": "1",
            "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x",
            "AWS_ENDPOINT_URL_EVENTBRIDGE": bus, "AWS_ENDPOINT_URL": f"http://{address}",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "POWERTOOLS_METRICS_NAMESPACE": "rootrank", "POWERTOOLS_SERVICE_NAME": "rootrank",
            "BUCKET_NAME": "b", "TABLE_NAME": "t", "TOPIC_ARN": "arn:aws:sns:us-east-1:1:t",
            "STATE_MACHINE_ARN": "arn:aws:states:us-east-1:1:stateMachine:m",
        }  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", handler], env=environment, cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            yield runtime
        finally:
            process.kill()
            process.wait()
            runtime.shutdown()


def call(runtime: Runtime, event: Any) -> Any:
    runtime.events.put(event)
    kind, answer = runtime.answers.get(timeout=60)
    assert kind == "response", answer
    return answer


def test_the_forwarder_puts_what_pcs_completed() -> None:
    events: list[Any] = []
    with (
        open_gateway(events.append) as bus,
        function("functions.forward.handler.forward", bus.endpoint) as runtime,
    ):
        told = call(runtime, json.loads((EVENTS / "pcs-subscription.json").read_bytes()))
        none = call(runtime, json.loads((EVENTS / "malformed/pcs-no-job.json").read_bytes()))
        check = call(runtime, json.loads((EVENTS / "pcs-control.json").read_bytes()))
    assert told == {"forwarded": 1, "skipped": 1}
    assert none == {"forwarded": 0, "skipped": 1}
    assert check == {"forwarded": 0, "skipped": 0}
    assert events[0]["detail"]["workload"]["job_id"] == "77"


def test_admission_keeps_context_and_sends_back_what_is_broken() -> None:
    bodies = [path.read_text() for path in sorted(EVENTS.glob("context-*.json"))]
    broken = (EVENTS / "malformed/no-job-id.json").read_text()
    with (
        open_gateway(lambda _event: None) as bus,
        function("functions.scope.admit_handler.admit", bus.endpoint) as runtime,
    ):
        answer = call(runtime, queued(*bodies, broken))
        stored = list(runtime.stored)
    assert answer == {"batchItemFailures": [{"itemIdentifier": f"m-{len(bodies)}"}]}
    assert len(stored) == len(bodies)
    assert all("/context/123456789012/2026-01-31T12/" in path for path in stored)


WHOLE = sorted(
    path for path in EVENTS.glob("*.json")
    if not path.name.startswith(("pcs-", "context-"))
)  # fmt: skip
LIGHT = ("slurm-completed.json",)
ENDS_NOTHING = ("batch-array-parent.json",)
DROPPED = ("batch-no-status.json", "context-no-instance.json", "pcs-no-job.json")
"""No end of a job as far as one can tell, or another function's."""
BROKEN = sorted(
    path for path in (EVENTS / "malformed").glob("*.json") if path.name not in DROPPED
)  # fmt: skip


def test_every_sources_payload_is_admitted_and_every_broken_one_goes_back_alone() -> None:
    bodies = [path.read_text() for path in (*WHOLE, *BROKEN)]
    with (
        open_gateway(lambda _event: None) as bus,
        function("functions.scope.admit_handler.admit", bus.endpoint) as runtime,
    ):
        answer = call(runtime, queued(*bodies))
        started = [each["attempt_key"] for each in runtime.started]
    failed = [int(each["itemIdentifier"][2:]) for each in answer["batchItemFailures"]]
    assert failed == list(range(len(WHOLE), len(bodies)))
    # A completed job gets no workflow, and an array's parent ends nothing of its own.
    assert len(started) == len(WHOLE) - len(LIGHT) - len(ENDS_NOTHING)
    assert {key.split("/")[2] for key in started} == {
        "batch", "kubernetes", "kueue", "sagemaker", "slurm",
    }  # fmt: skip
