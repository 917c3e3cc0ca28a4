"""Reading over HTTP, against a real server on loopback that behaves badly."""

import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest

from connectors.allowance import Allowance
from connectors.http_source import AnswerTooLargeError, HttpSource
from connectors.protocol import (
    BudgetSpentError,
    CursorExpiredError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from engine.model.plan import Budget


class Server(BaseHTTPRequestHandler):
    """Answers by path; `/busy-then-ok` is busy twice."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[str]] = []

    def do_GET(self):
        Server.seen.append(self.path)
        kind = self.path.strip("/").split("?")[0]
        if kind.isdigit():
            return self.reply(int(kind), b'{"message": "as asked"}')
        if kind == "busy-then-ok" and Server.seen.count(self.path) < 3:
            return self.reply(429, b"", {"Retry-After": "2"})
        if kind == "busy-until-a-date":
            return self.reply(503, b"", {"Retry-After": "Thu, 01 Jan 2026 00:00:09 GMT"})
        if kind == "truncated":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return None
        if kind == "slow":
            threading.Event().wait(0.5)
        if kind == "huge":
            return self.reply(200, b"x" * 300_000)
        if kind == "no-json":
            return self.reply(200, b"<html>")
        return self.reply(200, b'{"ok": true, "bad": "\xff"}')

    def reply(self, status, body, headers=()):
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def make(address):
    Server.seen.clear()
    clients = []

    def make(*, pauses=None, budget=None, **settings):
        client = httpx.Client(base_url=address, timeout=0.3, trust_env=False)
        clients.append(client)
        allowance = Allowance(budget or Budget(), lambda: 0.0)
        pause = (pauses if pauses is not None else []).append
        now = lambda: datetime(2026, 1, 1, tzinfo=UTC)  # noqa: E731
        return HttpSource(client, "service", allowance, pause, now, **settings)

    yield make
    for client in clients:
        client.close()


def test_an_answer_is_read_and_bad_text_replaced(make):
    assert make().get_json("/ok") == {"ok": True, "bad": "\ufffd"}


def test_a_busy_service_is_asked_again_after_the_time_it_names(make):
    pauses = []
    assert make(pauses=pauses).get_json("/busy-then-ok")["ok"]
    assert pauses == [2.0, 2.0]


def test_a_service_that_stays_busy_is_a_transient_error_that_says_how_long(make):
    pauses = []
    with pytest.raises(SourceBusyError, match="HTTP 503") as caught:
        make(pauses=pauses).get("/busy-until-a-date")
    assert caught.value.retry_after_s == 9.0
    assert pauses == [9.0, 9.0]


def test_no_wait_is_begun_that_the_budget_does_not_hold(make):
    pauses = []
    with pytest.raises(SourceBusyError):
        make(pauses=pauses, budget=Budget(seconds=5)).get("/busy-until-a-date")
    assert pauses == []


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, MalformedAnswerError),
        (401, SourceRefusedError),
        (403, SourceRefusedError),
        (404, SourceAbsentError),
        (410, CursorExpiredError),
        (302, MalformedAnswerError),
    ],
)
def test_what_no_retry_cures_is_asked_once(make, status, error):
    with pytest.raises(error, match=f"service /{status}: HTTP {status}"):
        make().get(f"/{status}")
    assert Server.seen == [f"/{status}"]


def test_a_server_error_is_asked_three_times(make):
    with pytest.raises(SourceBusyError, match="as asked"):
        make().get("/500")
    assert Server.seen == ["/500"] * 3


@pytest.mark.parametrize("path", ["/truncated", "/slow"])
def test_an_answer_that_breaks_off_or_does_not_come_is_transient(make, path):
    with pytest.raises(SourceUnreachableError, match=f"service {path}"):
        make().get(path)
    assert Server.seen == [path] * 3


def test_a_huge_answer_is_cut_off(make):
    with pytest.raises(AnswerTooLargeError, match="shorter window"):
        make(max_bytes=100_000).get("/huge")


def test_an_answer_that_is_no_json_is_malformed(make):
    with pytest.raises(MalformedAnswerError, match="no JSON"):
        make().get_json("/no-json")


def test_retries_count_as_requests(make):
    source = make(budget=Budget(requests=2))
    with pytest.raises(BudgetSpentError, match="all 2 requests"):
        source.get("/500")


def test_bytes_are_counted_and_end_the_reading(make):
    source = make(budget=Budget(bytes=20))
    source.get("/ok")
    assert source.allowance.bytes_left == 0
    with pytest.raises(BudgetSpentError, match="bytes"):
        source.get("/ok")
