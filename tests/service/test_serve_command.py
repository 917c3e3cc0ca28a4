"""`rootrank serve` as a newcomer uses it: the page's own lines, against the real command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from service_api import ROOT

PAGE = (ROOT / "docs/rest.md").read_text(encoding="utf-8")


def tried_lines() -> str:
    """Return the block of docs/rest.md that is marked as tried."""
    match = re.search(r"<!-- tried -->\n```sh\n(.*?)```", PAGE, re.DOTALL)
    assert match is not None
    return match[1]


@contextmanager
def served(state: Path) -> Iterator[int]:
    """Run the command until the block ends; a TERM ends it well."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "rootrank",
        "serve",
        "--port",
        str(port),
        "--state",
        str(state),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("starting the emulated AWS")
        assert process.stderr.readline().startswith(f"ready: http://127.0.0.1:{port}/v1")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=120)[1]
    assert process.returncode == 0, told
    assert f"kept in {state}" in told


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
        return json.loads(answer.read())


@pytest.mark.system("curl")
def test_the_lines_of_the_page_work_and_what_they_made_is_kept(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with served(state) as port:
        lines = tried_lines().replace(":8080", f":{port}")
        told = subprocess.run(
            ["bash", "-eu", "-c", lines], cwd=tmp_path, capture_output=True, text=True,
            check=False, env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        assert '"where": "query.clutser"' in told.stdout
        assert '"waiting_for"' in told.stdout
        session = json.loads((tmp_path / "session.json").read_text())["session_id"]
        before = get(port, f"/v1/sessions/{session}/verdict")
        assert before["verdict"]["failure_class"] == "cuda_oom"
        deadline = time.monotonic() + 120
        listed: list[dict[str, Any]] = []
        while time.monotonic() < deadline and [e["status"] for e in listed] != ["final"]:
            time.sleep(0.2)
            listed = get(port, "/v1/results")["results"]
        assert [(each["job_id"], each["status"]) for each in listed] == [("812", "final")]
    with served(state) as port:
        assert get(port, f"/v1/sessions/{session}/verdict") == before
        assert get(port, "/v1/results")["results"] == listed
