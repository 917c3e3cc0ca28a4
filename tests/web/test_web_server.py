"""The loopback server and the state folder behind it."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_web_browser import served
from web_samples import Shelf, full, rivals

from rootrank.embedded import state
from rootrank.embedded.stack import open_empty_storage
from rootrank.web.local_results import LocalResults


def ask(address: str, path: str = "/", *, host: str | None = None, method: str = "GET") -> Any:
    name = address.removeprefix("http://")
    connection = http.client.HTTPConnection(name, timeout=10)
    connection.putrequest(method, path, skip_host=True)
    if host != "":
        connection.putheader("Host", host or name)
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), body.decode()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8600", 200),
        ("[::1]:80", 200),
        ("[::1]", 200),
        ("rebound.example", 421),
        ("127.0.0.1.rebound.example:8600", 421),
        ("localhost.rebound.example", 421),
        ("", 421),
    ],
)
def test_only_this_machines_own_names_are_answered(host: str, status: int) -> None:
    with served(lambda: None) as address:
        told, headers, body = ask(address, host=host)
    assert told == status
    assert "Content-Security-Policy" in headers
    assert ("No verdicts yet" in body) is (status == 200)


def test_nothing_but_reading_is_possible() -> None:
    with served(lambda: None) as address:
        assert ask(address, method="HEAD")[2] == ""
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert ask(address, method=method)[0] == 501
        assert ask(address, "/" + "a" * 9_000)[0] == 414
        assert ask(address, "/static/style.css")[1]["Content-Type"] == "text/css; charset=utf-8"


def test_it_listens_on_loopback_only() -> None:
    with served(lambda: None) as address:
        port = int(address.rsplit(":", 1)[1])
        own = socket.gethostbyname(socket.gethostname())
        if own.startswith("127."):
            pytest.skip("this machine has no other address to try")
        with pytest.raises(OSError, match=r"refused|unreachable"):
            socket.create_connection((own, port), timeout=5)


@contextmanager
def kept(folder: Path) -> Iterator[Shelf]:
    """A table and bucket that are saved into a state folder in the end, as `run` does."""
    import boto3

    with open_empty_storage(folder) as names:
        state.load_objects(folder, names.bucket)
        state.load_items(folder, names.table)
        yield Shelf(boto3.client("dynamodb"), boto3.client("s3"), names.table, names.bucket)
        state.save_objects(folder, names.bucket)
        state.save_items(folder, names.table)


def test_the_view_follows_a_state_folder_as_runs_add_to_it(tmp_path: Path) -> None:
    other = tmp_path / "kept"
    with kept(other) as shelf:
        shelf.put(rivals("1"), status="provisional")
    lines = (other / "table.jsonl").read_text()
    with kept(other) as shelf:
        shelf.put(full("1"), revision=2)
        shelf.put(full("2"))
    folder = tmp_path / "seen"
    folder.mkdir()
    local = LocalResults(folder)
    assert local.current() is None
    (folder / "s3").symlink_to(other / "s3")
    (folder / "table.jsonl").write_text(lines)
    first = local.current()
    assert first is not None
    (only,) = first.page(_everything()).results
    assert (only.job_id, only.revision) == ("1", 1)
    (folder / "table.jsonl").write_bytes((other / "table.jsonl").read_bytes())
    second = local.current()
    assert second is not None
    assert {(r.job_id, r.revision) for r in second.page(_everything()).results} == {
        ("1", 2), ("2", 1),
    }  # fmt: skip
    parts = second.page(_parts("node-005")).results
    assert {(part.job_id, part.role) for part in parts} == {("1", "victim"), ("2", "victim")}


def test_a_damaged_state_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "table.jsonl").write_text(json.dumps({"pk": {"S": "a"}, "sk": {"S": "b"}}) + "\n{")
    with pytest.raises(state.StateError, match=r"table\.jsonl:2: not JSON"):
        LocalResults(tmp_path).current()


def _everything() -> Any:
    from functions.adapters.results import Selection

    return Selection()


def _parts(node: str) -> Any:
    from functions.adapters.results import Selection

    return Selection(node=node)
