"""EventBridge's PutEvents on loopback, for programs that are no part of this process.

Slurm's and Kubernetes' emitters sign and post as to AWS; nothing checks the signature here.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_MAX_BYTES: Final = 1024 * 1024
_TARGET: Final = "AWSEvents.PutEvents"

PutEvent = Callable[[Mapping[str, Any]], None]


class Gateway(ThreadingHTTPServer):
    """Listens on loopback; `put` takes an event, one at a time."""

    daemon_threads = True

    def __init__(self, put: PutEvent, port: int = 0):
        super().__init__(("127.0.0.1", port), _Handler)
        self._put = put
        self._lock = threading.Lock()
        self.accepted = 0

    @property
    def endpoint(self) -> str:
        """The address that emitters are given."""
        return f"http://127.0.0.1:{self.server_port}/"

    def accept(self, entries: list[Any]) -> list[dict[str, str]]:
        """Put each entry on the bus and return what PutEvents says of it."""
        told = []
        for entry in entries:
            try:
                event = {
                    "source": entry["Source"],
                    "detail-type": entry["DetailType"],
                    "detail": json.loads(entry["Detail"]),
                }
            except (KeyError, TypeError, ValueError) as error:
                told.append({"ErrorCode": "MalformedDetail", "ErrorMessage": str(error)})
                continue
            with self._lock:
                self._put(event)
                self.accepted += 1
                told.append({"EventId": f"embedded-{self.accepted}"})
        return told


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 30
    server: Gateway

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _MAX_BYTES:
            self.close_connection = True
            self._reply(413, {"__type": "RequestEntityTooLargeException"})
            return
        body = self.rfile.read(int(length))
        if self.headers.get("X-Amz-Target") != _TARGET:
            self._reply(400, {"__type": "UnknownOperationException"})
            return
        try:
            entries = json.loads(body)["Entries"]
            told = self.server.accept(entries if isinstance(entries, list) else [])
        except (KeyError, TypeError, ValueError) as error:
            self._reply(400, {"__type": "ValidationException", "message": str(error)})
            return
        failed = sum("ErrorCode" in each for each in told)
        self._reply(200, {"FailedEntryCount": failed, "Entries": told})

    def _reply(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: stdout is the verdict's."""


@contextmanager
def open_gateway(put: PutEvent, port: int = 0) -> Iterator[Gateway]:
    """Serve for as long as the body runs."""
    with Gateway(put, port) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
