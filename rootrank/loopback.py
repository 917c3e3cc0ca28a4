"""HTTP on loopback for a function behind an HTTP API: what the web view and the service share.

Nobody is authenticated, so nobody but this machine is answered: the socket listens on loopback,
and `Host` must name it, or a page of another site could get in by DNS rebinding.
"""

import signal
import sys
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from rootrank.service.events import HttpAnswer, http_answer

IDLE_SECONDS: Final = 20.0
MAX_CONNECTIONS: Final = 64
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]
"""The function: a proxy event in, a proxy response out."""


class LoopbackServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1 only; hands events to `answer` one at a time, as Lambda does."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer: Answer, handler: "type[LoopbackHandler]", *, port: int = 0):
        super().__init__(("127.0.0.1", port), handler)
        self._answer = answer
        self._lock = threading.Lock()
        self.places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    @property
    def address(self) -> str:
        """Where it is, without a last slash."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, event: dict[str, Any]) -> HttpAnswer:
        """Return the function's answer."""
        with self._lock:
            return http_answer(self._answer(event))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """One connection: bounded in number and idle time, silent on the terminal."""

    protocol_version = "HTTP/1.1"
    server_version = "rootrank"
    sys_version = ""
    timeout = IDLE_SECONDS
    server: LoopbackServer

    def handle_one_request(self) -> None:
        """Take one request, or hang up where too many are at work."""
        if not self.server.places.acquire(blocking=False):
            self.close_connection = True
            return
        try:
            super().handle_one_request()
        finally:
            self.server.places.release()

    def host(self) -> str:
        """Return the `Host` that was asked for, in lower case."""
        return (self.headers.get("Host") or "").strip().lower()

    def is_for_this_machine(self) -> bool:
        """Whether `Host` names loopback, and does not merely lead here."""
        host = self.host()
        return (host if host.endswith("]") else host.rsplit(":", 1)[0]) in _HOSTS

    def send_answer(self, answer: HttpAnswer) -> None:
        """Send an answer; a reader who went away is no error."""
        try:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Keep the terminal for what matters."""


def wait_until_told() -> None:
    """Wait for Ctrl-C or a TERM."""
    told = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: told.set())
    try:
        while not told.wait(1.0):
            pass
    except KeyboardInterrupt:
        sys.stderr.write("\n")
    finally:
        signal.signal(signal.SIGTERM, before)
