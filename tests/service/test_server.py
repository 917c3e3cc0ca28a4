"""The local server against callers that mean no good, and the same answers as the handler's own."""

import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from contract_checks import TOKEN, listening
from service_api import WORKLOAD, Api

from rootrank.service import server as server_module
from rootrank.service.events import RequestLineError, proxy_event


@pytest.fixture(scope="module")
def port(api: Api) -> Iterator[int]:
    with listening(api) as address:
        yield int(address.rsplit(":", 1)[1])


def ask(
    port: int, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(
            method, path, body,
            {"Authorization": TOKEN, "Content-Type": "application/json", **named},
        )  # fmt: skip
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def raw(port: int, text: bytes, *, closes: bool = False) -> bytes:
    """Send bytes as they are and return the first line of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(text)
        if closes:
            connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").readline()


def test_a_session_by_http_is_a_session(port: int) -> None:
    body = json.dumps({"workload": WORKLOAD}).encode()
    status, headers, answer = ask(port, "POST", "/v1/sessions", body)
    assert status == 201
    assert headers["Content-Type"] == "application/json"
    assert headers["Cache-Control"] == "no-store"
    session = json.loads(answer)["session_id"]
    status, _, answer = ask(port, "GET", f"/v1/sessions/{session}")
    assert (status, json.loads(answer)["job_id"]) == (200, "30911")


def test_an_upload_takes_exactly_the_announced_bytes(port: int) -> None:
    body = json.dumps({"workload": WORKLOAD}).encode()
    session = json.loads(ask(port, "POST", "/v1/sessions", body)[2])["session_id"]
    data = b"step 1\n" * 300_000
    announced = {
        "stream": {"path": "train.log", "source": "applog"},
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    place = f"/v1/sessions/{session}/uploads"
    told = json.loads(ask(port, "POST", place, json.dumps(announced).encode())[2])
    path = told["url"].split(f":{port}", 1)[1]
    assert ask(port, "PUT", path, b"x")[0] == 400
    assert ask(port, "PUT", path, data[:-1] + b"x")[0] == 400
    assert ask(port, "PUT", "/uploads/guessed", b"x")[0] == 403
    assert ask(port, "GET", path)[0] == 405
    assert ask(port, "PUT", path, data)[0] == 200
    status, _, answer = ask(port, "GET", f"/v1/sessions/{session}/verdict")
    covers = json.loads(answer)["covers"]
    assert (status, covers["is_complete"], covers["streams"][0]["lines"]) == (200, True, 300_000)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"{", 400), (b"[]", 400), (b"null", 400), (b'"x"', 400), (b"{}", 400),
        (b'{"workload": NaN}', 400), (b'{"workload": 1e999}', 400), (b"\xff\xfe{}", 400),
        (b'{"a": "\\ud800"}', 400), (b"[" * 100_000, 400),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400),
        (b'[{"workload": {"scheduler": "slurm", "job_id": "1"}}]', 400),
        (b'{"workload": {"scheduler": "slurm", "job_id": "1", "attempt": 1.5}}', 400),
        (b'{"workload": {"scheduler": "slurm", "job_id": "1", "attempt": true}}', 400),
        (b'{"workload": {"scheduler": "s", "job_id": "1", "start": "2023-02-30T00:00:00Z"}}', 422),
    ],
)  # fmt: skip
def test_a_body_that_is_no_request_is_told_what_is_wrong(
    port: int, body: bytes, status: int
) -> None:
    told, headers, answer = ask(port, "POST", "/v1/sessions", body)
    assert told == status, answer
    assert headers["Content-Type"] == "application/problem+json"
    problem = json.loads(answer)
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["todo"]
    assert problem["instance"] == "/v1/sessions"


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
             "application/json; charset=utf-16", "application/jsonx"],
)  # fmt: skip
def test_only_json_is_taken(port: int, kind: str) -> None:
    assert ask(port, "POST", "/v1/sessions", b"{}", Content_Type=kind)[0] == 415


def test_a_large_body_is_refused_before_it_is_read(port: int) -> None:
    head = (
        b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in raw(port, head)


def test_a_body_without_or_with_a_strange_length_is_refused(port: int) -> None:
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    assert b" 411 " in raw(port, head + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    for length in (b"-1", b"1e3", b"\xb2", b"0x10", b"9" * 30):
        assert b" 400 " in raw(port, head + b"Content-Length: " + length + b"\r\n\r\n"), length


def test_a_body_that_ends_early_is_refused(port: int) -> None:
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
    assert b" 400 " in raw(port, head, closes=True)


def test_a_slow_body_ends_and_holds_nobody_else_up(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "BODY_SECONDS", 0.2)
    head = b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as slow:
        slow.sendall(head + b"{")
        assert ask(port, "GET", "/v1/results")[0] == 200
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.05):
                try:
                    slow.sendall(b" ")
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert b" 408 " in slow.makefile("rb").readline()
        finally:
            stop.set()
            thread.join()


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "rootrank.example"}, 421), ({"Host": ""}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Sec_Fetch_Site": "cross-site"}, 403), ({"Host": "localhost:1"}, 200),
    ],
)  # fmt: skip
def test_pages_of_other_sites_and_other_names_are_refused(
    port: int, headers: dict[str, str], status: int
) -> None:
    assert ask(port, "GET", "/v1/results", **headers)[0] == status


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "PUT", "OPTIONS", "TRACE", "MADEUP"])
def test_other_methods_are_told_which_there_are(port: int, method: str) -> None:
    status, headers, answer = ask(port, method, "/v1/results", b"{}")
    assert (status, headers["Allow"]) == (405, "GET")
    assert json.loads(answer)["todo"] == "use GET"


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/", "/v1/results/", "/v1/../v1/results", "/v1/%00",
     "/v1/sessions/%2e%2e/verdict", "/v1/sessions/ses_" + "0" * 3000, "/v1/sessions/ÿ/verdict"],
)  # fmt: skip
def test_paths_that_lead_nowhere_are_not_found(port: int, path: str) -> None:
    from urllib.parse import quote

    told, headers, _ = ask(port, "GET", quote(path, safe="/%"))
    assert (told, headers["Content-Type"]) == (404, "application/problem+json")


def test_a_parameter_that_nothing_takes_is_refused(port: int) -> None:
    status, _, answer = ask(port, "GET", "/v1/results?clutser=a")
    assert status == 400
    assert json.loads(answer)["errors"] == [{"where": "query.clutser", "why": "unknown"}]


def test_too_many_parameters_are_refused(port: int) -> None:
    assert ask(port, "GET", "/v1/results?" + "a=1&" * 60)[0] == 400


def test_an_event_is_what_api_gateway_would_send() -> None:
    headers = [("X-A", "1"), ("x-a", "2")]
    event: Any = proxy_event("GET", "/v1/a%20b?x=1&x=2&y=", headers, None)
    assert event["rawPath"] == "/v1/a b"
    assert event["queryStringParameters"] == {"x": "1,2", "y": ""}
    assert event["headers"] == {"x-a": "1,2"}
    assert proxy_event("POST", "/", [], b"\xff")["isBase64Encoded"] is True
    with pytest.raises(RequestLineError):
        proxy_event("GET", "http://[", [], None)


def test_who_sends_too_much_reads_why(port: int) -> None:
    status, _, answer = ask(port, "POST", "/v1/sessions", b" " * (server_module.MAX_BODY_BYTES + 1))
    assert status == 413
    assert "/uploads" in answer.decode()
