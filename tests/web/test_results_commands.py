"""`list`, `nodes`, `trends` and `dashboard` as somebody types them."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from web_samples import Shelf, bare, full, hostile, rivals

from engine.model.verdict import seal
from functions.adapters.results import Results
from rootrank.cli import main
from rootrank.commands import results as commands
from rootrank.commands import tallies


@pytest.fixture(scope="module")
def state(aws: Shelf) -> Shelf:
    """Eight results of three weeks."""
    for number in range(5):
        fields = full(str(410_050 + number)).model_dump(mode="json")
        fields["workload"]["end"] = f"2026-01-{10 + 5 * number:02d}T12:00:00Z"
        aws.put(seal(fields))
    for verdict in (rivals("500"), bare("77"), hostile()):
        aws.put(verdict)
    return aws


@pytest.fixture(autouse=True)
def opened(state: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standing the emulated AWS up takes a second; these tests share one that stands."""

    @contextmanager
    def shared(*_place: Any, **_more: Any) -> Iterator[Results]:
        yield state.results()

    for module in (commands, tallies):
        monkeypatch.setattr(module, "open_results", shared)


def run(_state: Shelf, *words: str, expect: int = 0) -> Any:
    told = CliRunner().invoke(main, [*words])
    assert told.exit_code == expect, told.output
    return told


def rows(state: Shelf, *words: str) -> Any:
    return json.loads(run(state, *words, "--format", "json").stdout)


def test_list_filters_by_whatever_a_verdict_has(state: Shelf) -> None:
    assert len(rows(state, "list")) == 8
    assert len(rows(state, "list", "--quality", "ambiguous")) == 1
    assert len(rows(state, "list", "--terminal-state", "unknown")) == 1
    found = rows(state, "list", "--cluster", "team-a/research", "--domain", "gpu")
    assert [each["job_id"] for each in found] == ["410054", "410053", "410052", "410051", "410050"]
    found = rows(
        state, "list", "--since", "2026-01-15T12:00:00Z", "--until", "2026-01-25T12:00:00Z"
    )
    assert {each["job_id"] for each in found} == {"410051", "410052"}
    found = rows(state, "list", "--node", "node-005", "--cluster", "team-a/research")
    assert {each["role"] for each in found} == {"victim", "suspect"}
    found = rows(state, "list", "--gpu", "1650222", "--limit", "2")
    assert [each["gpu"]["index"] for each in found] == [2, 2]
    assert [each["job_id"] for each in rows(state, "list", "--job", "410052")] == ["410052"]


def test_list_goes_on_with_a_cursor(state: Shelf) -> None:
    seen: list[str] = []
    page = {"cursor": None}
    while True:
        more = ["--cursor", page["cursor"]] if page["cursor"] else []
        page = rows(state, "list", "--limit", "3", "--paged", *more)
        seen += [each["attempt_key"] for each in page["results"]]
        if page["cursor"] is None:
            break
    assert len(seen) == len(set(seen)) == 8
    told = run(state, "list", "--limit", "3", "--format", "jsonl")
    assert len(told.stdout.splitlines()) == 3
    assert "there are more: --cursor " in told.stderr
    assert "begin" in run(state, "list", "--cursor", "nonsense", expect=2).stderr


def test_a_table_on_a_terminal_cannot_be_moved_by_what_jobs_print(state: Shelf) -> None:
    for words in (("list",), ("nodes", "--since", "900w"), ("trends", "--since", "900w")):
        shown = run(state, *words, "--format", "text").stdout
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    header = run(state, "list", "--format", "text").stdout.splitlines()[0]
    assert header.split() == [
        "ENDED", "CLUSTER", "JOB", "STATE", "DOMAIN", "CLASS", "QUALITY", "NODES",
    ]  # fmt: skip


def test_nodes_counts_how_often_each_was_named(state: Shelf) -> None:
    first, *_ = rows(state, "nodes", "--since", "2026-01-01T00:00:00Z")
    assert (first["node"], first["culprit"], first["suspect"]) == ("node-003", 5, 1)
    assert first["classes"] == {"gpu_fallen_off_bus": 5}
    assert first["last"] == "2026-01-31T12:00:00Z"
    assert rows(state, "nodes", "--since", "2027-01-01T00:00:00Z") == []


def test_trends_counts_by_period_without_holes(state: Shelf) -> None:
    asked = ("trends", "--since", "2026-01-01T00:00:00Z", "--cluster", "team-a/research")
    told = rows(state, *asked, "--by", "week")
    assert [(each["start"], each["counts"]) for each in told["periods"]] == [
        ("2026-01-05", {"gpu": 1}),
        ("2026-01-12", {"gpu": 1}),
        ("2026-01-19", {"gpu": 2}),
        ("2026-01-26", {"gpu": 1, "unknown": 1}),
    ]
    days = rows(state, *asked, "--by", "day")
    assert len(days["periods"]) == 22
    assert sum(each["total"] for each in days["periods"]) == told["counted"] == 6
    months = rows(state, *asked, "--by", "month", "--of", "quality")
    assert months["periods"] == [
        {"start": "2026-01-01", "total": 6, "counts": {"definitive": 5, "ambiguous": 1}}
    ]


def test_a_table_of_an_account_needs_its_bucket(tmp_path: Path) -> None:
    for words in (["show", "1", "--table", "t"], ["dashboard", "--table", "t"]):
        told = CliRunner().invoke(main, words)
        assert told.exit_code == 2
        assert "--table needs --bucket" in told.stderr


def test_dashboard_serves_an_empty_folder_until_it_is_told_to_stop(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "rootrank", "dashboard", "--port", "0", "--state", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stderr is not None
        first = process.stderr.readline()
        address = first.split()[3]
        assert address.startswith("http://127.0.0.1:")
        assert "holds no results yet" in process.stderr.readline()
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert "No verdicts yet" in answer.read().decode()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
