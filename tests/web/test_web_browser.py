"""Every page in a real browser: light and dark, wide and narrow, empty, full and hostile."""

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from web_asking import at_noon
from web_samples import Shelf, bare, full, hostile, rivals

from functions.adapters.results import Results, Selection
from functions.query.app import View, build_app
from rootrank.embedded.emulator import LambdaContext
from rootrank.web.server import WebServer

HERE = Path(__file__).parent
MODULES = HERE.parents[1] / "build/web/node_modules"
SEEN = "/attempts/team-a/research/slurm/410050/r0"

pytestmark = [pytest.mark.system("chromium"), pytest.mark.system("axe-core")]


@contextmanager
def served(results: Callable[[], Results | None]) -> Iterator[str]:
    """The pages on loopback; the address without its last slash."""
    app = build_app(View(results=results, now=at_noon, local=".rootrank"))
    context: Any = LambdaContext("query", 1024, "arn:aws:lambda:local")
    server = WebServer(lambda event: app.resolve(event, context))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()


def visit(address: str, pages: list[dict[str, Any]], keyboard: Any = None) -> dict[str, Any]:
    chromium = shutil.which("chromium")
    told = subprocess.run(
        ["node", str(HERE / "page_check.mjs"), str(MODULES), str(chromium), address],
        input=json.dumps({"pages": pages, "keyboard": keyboard}),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def everywhere(paths: dict[str, str]) -> list[dict[str, Any]]:
    """Each page light and wide, and dark and narrow; scripts may look at both at once."""
    looks = (("light", 1280), ("dark", 390))
    return [
        {"name": f"{name}-{scheme}-{width}", "path": path, "width": width, "scheme": scheme}
        for name, path in paths.items()
        for scheme, width in looks
    ]


def require_clean(pages: list[dict[str, Any]]) -> None:
    """Nothing ran, nothing was fetched elsewhere, nothing sticks out, and axe finds nothing."""
    for page in pages:
        name = page["name"]
        assert page["status"] == 200, name
        assert page["hacked"] is None, name
        assert page["scripts"] == 0, name
        assert (page["dialogs"], page["console"], page["elsewhere"]) == ([], [], []), name
        assert page["width"][0] <= page["width"][1], (name, page["width"])
        assert page["rules"] > 20, name
        assert page["violations"] == [], (name, json.dumps(page["violations"], indent=1))


@pytest.fixture(scope="module")
def shelf(aws: Shelf) -> Shelf:
    """Every kind of verdict, one of them in two revisions."""
    aws.put(rivals("410050"), status="provisional")
    aws.put(full(), revision=2)
    for verdict in (rivals(), bare(), hostile()):
        aws.put(verdict)
    return aws


def test_full_pages_are_clean_and_the_keyboard_reaches_everything(shelf: Shelf) -> None:
    paths = {
        "verdicts": "/",
        "verdict": SEEN,
        "old": f"{SEEN}/revisions/1",
        "diff": f"{SEEN}/revisions/2/diff",
        "evidence": f"{SEEN}/revisions/2/evidence/ev-000000000001",
        "bare": "/attempts/default/default/none/410052/r0",
        "nodes": "/nodes",
        "node": "/node?cluster=team-a%2Fresearch&name=node-003",
        "gpu": "/gpu?name=1650222",
        "trends": "/trends?of=failure_class",
        "nothing": "/?domain=data",
    }
    with served(shelf.results) as address:
        told = visit(address, everywhere(paths), {"job": "410050"})
    require_clean(told["pages"])
    keys = told["keyboard"]
    assert [stop["text"] for stop in keys["stops"][:6]] == [
        "Skip to content", "rootrank", "Verdicts", "Nodes", "Trends", "Job, node or GPU serial",
    ]  # fmt: skip
    assert all(stop["visible"] and stop["ring"] for stop in keys["stops"]), keys["stops"]
    assert keys["skipped"] == "main"
    assert keys["found"] == SEEN
    assert keys["jumped"] == "#evidence"
    assert keys["opened"] is True
    assert keys["scrollable"] == "Timeline picture"
    assert keys["filtered"] == 2


def test_hostile_pages_run_nothing_and_stay_readable(shelf: Shelf) -> None:
    chosen = Selection(job_id="666")
    (result,) = shelf.results().page(chosen).results
    base = "/attempts/" + result.attempt_key.replace("%", "%25")
    with served(shelf.results) as address:
        told = visit(
            address,
            everywhere({"hostile": base, "more": f"{base}/revisions/1/evidence/ev-000000000003"}),
        )
    require_clean(told["pages"])


def test_an_empty_folder_has_a_page_that_helps() -> None:
    with served(lambda: None) as address:
        told = visit(address, everywhere({"empty": "/"}))
    require_clean(told["pages"])
