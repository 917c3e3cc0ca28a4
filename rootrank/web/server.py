"""The web view on loopback: it reads, and only for this machine."""

from typing import Any, Final

from functions.query.pages import HEADERS
from rootrank.loopback import Answer, LoopbackHandler, LoopbackServer
from rootrank.service.events import HttpAnswer, RequestLineError, proxy_event

_LONGEST_TARGET: Final = 8_000


class WebServer(LoopbackServer):
    """Serves pages; `answer` makes one of a proxy event."""

    def __init__(self, answer: Answer, port: int = 0):
        super().__init__(answer, _Handler, port=port)


class _Handler(LoopbackHandler):
    def do_GET(self) -> None:  # noqa: N802
        """Answer with a page."""
        if not self.is_for_this_machine():
            self._refuse(421, f"This is not {self.host()[:100]}: ask for {self.server.address}/")
            return
        if len(self.path) > _LONGEST_TARGET:
            self._refuse(414, "This address is too long.")
            return
        try:
            event: dict[str, Any] = proxy_event("GET", self.path, self.headers.items(), None)
        except RequestLineError as error:
            self._refuse(400, f"This address cannot be read: {error}")
            return
        self.send_answer(self.server.answer(event))

    def do_HEAD(self) -> None:  # noqa: N802
        """Answer with a page's headers."""
        self.do_GET()

    def _refuse(self, status: int, text: str) -> None:
        headers = {**HEADERS, "Content-Type": "text/plain; charset=utf-8"}
        self.close_connection = True
        self.send_answer(HttpAnswer(status, headers, (text + "\n").encode()))
