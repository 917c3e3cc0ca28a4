"""A small HTTP server on loopback for hostile callers too: sizes, slow bodies, other sites' pages.

It authenticates nobody, so it answers only what comes from this machine and was meant for it: the
`Host` must be loopback, and a page of another origin is refused.
"""

import json
import time
from collections.abc import Callable
from typing import Any, Final

from rootrank.loopback import Answer, LoopbackHandler, LoopbackServer
from rootrank.service.events import HttpAnswer, RequestLineError, proxy_event
from rootrank.service.uploads import LocalUploads, UploadError

MAX_BODY_BYTES: Final = 6 * 1024**2 + 1024
BODY_SECONDS: Final = 60.0
DISCARDED_BYTES: Final = 64 * 1024**2
DISCARD_SECONDS: Final = 2.0
_PIECE: Final = 1 << 16
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class RefusedError(Exception):
    """A request that does not reach the handler."""

    def __init__(self, status: int, detail: str, todo: str):
        super().__init__(detail)
        self.status = status
        self.problem = {
            "type": "about:blank",
            "title": "The request cannot be taken",
            "status": status,
            "detail": detail,
            "todo": todo,
        }


class LocalServer(LoopbackServer):
    """The service's server, and the uploads that it takes in place of S3."""

    def __init__(self, answer: Answer, uploads: LocalUploads, port: int = 0):
        super().__init__(answer, _Handler, port=port)
        self.uploads = uploads
        uploads.address = self.address


class _Handler(LoopbackHandler):
    server: LocalServer

    def handle_request(self) -> None:
        """Answer one request whatever its method."""
        try:
            self._require_local()
            if self.path.startswith(LocalUploads.PATH):
                self.send_answer(self._upload())
                return
            body = self._read_body() if self.command in _WITH_BODY else None
            event = proxy_event(self.command, self.path, self.headers.items(), body)
            self.send_answer(self.server.answer(event))
        except RefusedError as error:
            self.close_connection = True
            self.send_answer(_refusal(error))
        except RequestLineError as error:
            refused = RefusedError(400, f"the query cannot be read ({error})", "encode it")
            self.send_answer(_refusal(refused))

    def __getattr__(self, name: str) -> Any:
        """Take every method: which ones a resource has is the handler's to say."""
        if name.startswith("do_"):
            return self.handle_request
        raise AttributeError(name)

    def _require_local(self) -> None:
        """Refuse names that only look like this machine, and pages of other sites."""
        host = self.host()
        if not self.is_for_this_machine():
            raise RefusedError(421, f"this is not {host[:100]!r}", f"ask {self.server.address}")
        origin = self.headers.get("Origin")
        site = self.headers.get("Sec-Fetch-Site", "none")
        if (origin is not None and origin != f"http://{host}") or site not in (
            "none",
            "same-origin",
        ):
            raise RefusedError(403, "the request comes from another site's page", "use a program")

    def _length(self, most: int) -> int:
        if self.headers.get("Transfer-Encoding"):
            raise RefusedError(411, "the body has no length", "send Content-Length")
        text = self.headers.get("Content-Length", "0")
        if not (text.isascii() and text.isdigit()) or len(text) > 15:
            raise RefusedError(400, "Content-Length is no number", "send it right")
        if int(text) > most:
            self._discard(int(text))
            raise RefusedError(
                413,
                f"the body has {int(text)} bytes, {most} are taken",
                "announce large chunks at /uploads and send them to the URL that comes back",
            )
        return int(text)

    def _discard(self, left: int) -> None:
        """Take a body that is refused, within bounds: who still writes reads no answer."""
        if self.headers.get("Expect", "").lower() == "100-continue":
            return
        left = min(left, DISCARDED_BYTES)
        deadline = time.monotonic() + DISCARD_SECONDS
        patience = self.connection.gettimeout()
        self.connection.settimeout(DISCARD_SECONDS / 2)
        try:
            while left > 0 and time.monotonic() < deadline:
                piece = self.rfile.read1(min(left, _PIECE))
                if not piece:
                    return
                left -= len(piece)
        except TimeoutError:
            return
        finally:
            self.connection.settimeout(patience)

    def _read_body(self) -> bytes:
        pieces: list[bytes] = []
        self._pump(self._length(MAX_BODY_BYTES), pieces.append)
        return b"".join(pieces)

    def _pump(self, left: int, write: Callable[[bytes], object]) -> None:
        deadline = time.monotonic() + BODY_SECONDS
        if self.headers.get("Expect", "").lower() == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while left > 0:
            piece = self.rfile.read1(min(left, _PIECE))
            if not piece:
                raise RefusedError(400, "the body ended early", "send all of it")
            if time.monotonic() > deadline:
                raise RefusedError(408, f"no whole body within {BODY_SECONDS:.0f} s", "send again")
            write(piece)
            left -= len(piece)

    def _upload(self) -> HttpAnswer:
        if self.command != "PUT":
            raise RefusedError(405, "an upload's URL takes PUT", "send the bytes with PUT")
        try:
            grant = self.server.uploads.grant(self.path)
            size = self._length(grant.size)

            self.server.uploads.put(grant, size, lambda write: self._pump(size, write))
        except UploadError as error:
            raise RefusedError(error.status, str(error), error.todo) from error
        return HttpAnswer(200, {}, b"")


def _refusal(error: RefusedError) -> HttpAnswer:
    headers = {"Content-Type": "application/problem+json", "Cache-Control": "no-store"}
    return HttpAnswer(error.status, headers, json.dumps(error.problem).encode())
