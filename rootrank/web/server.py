"""An HTTP server on loopback for people's browsers: it reads, and only for this machine.

Nobody is authenticated, so nobody but this machine is answered: the socket listens on loopback,
and `Host` must name it, or a page of another site could read verdicts by DNS rebinding.
"""

import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from functions.query.pages import HEADERS
from rootrank.service.events import HttpAnswer, RequestLineError, http_answer, proxy_event

IDLE_SECONDS: Final = 20.0
MAX_CONNECTIONS: Final = 64
_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
_LONGEST_TARGET: Final = 8_000

Answer = Callable[[dict[str, Any]], Mapping[str, Any]]
"""The pages: a proxy event in, a proxy response out."""


class WebServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1; asks `answer` for one page at a time, as Lambda does."""

    daemon_threads = True

    def __init__(self, answer: Answer, port: int = 0):
        super().__init__(("127.0.0.1", port), _Handler)
        self._answer = answer
        self._lock = threading.Lock()
        self.places = threading.BoundedSemaphore(MAX_CONNECTIONS)

    @property
    def address(self) -> str:
        """Where the pages are."""
        return f"http://127.0.0.1:{self.server_port}/"

    def answer(self, event: dict[str, Any]) -> HttpAnswer:
        """Return a page."""
        with self._lock:
            return http_answer(self._answer(event))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a connection that broke."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "rootrank"
    sys_version = ""
    timeout = IDLE_SECONDS
    server: WebServer

    def handle_one_request(self) -> None:
        """Take one request, or hang up where too many are at work."""
        if not self.server.places.acquire(blocking=False):
            self.close_connection = True
            return
        try:
            super().handle_one_request()
        finally:
            self.server.places.release()

    def do_GET(self) -> None:
        """Answer with a page."""
        host = (self.headers.get("Host") or "").strip().lower()
        if (host if host.endswith("]") else host.rsplit(":", 1)[0]) not in _HOSTS:
            self._refuse(421, f"This is not {host[:100]}: ask for {self.server.address}")
            return
        if len(self.path) > _LONGEST_TARGET:
            self._refuse(414, "This address is too long.")
            return
        try:
            event = proxy_event("GET", self.path, self.headers.items(), None)
        except RequestLineError as error:
            self._refuse(400, f"This address cannot be read: {error}")
            return
        self._send(self.server.answer(event))

    def do_HEAD(self) -> None:
        """Answer with a page's headers."""
        self.do_GET()

    def _refuse(self, status: int, text: str) -> None:
        headers = {**HEADERS, "Content-Type": "text/plain; charset=utf-8"}
        self.close_connection = True
        self._send(HttpAnswer(status, headers, (text + "\n").encode()))

    def _send(self, answer: HttpAnswer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal for what matters."""
