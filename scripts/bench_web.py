"""The web view and the queries behind it, measured.

    python scripts/bench_web.py [page] [queries] [--results 100000] [--write docs/web-benchmarks.md]

`page` renders a verdict of 10,000 nodes on the loopback server and in Chromium (npm packages as
in .ci/run). `queries` asks DynamoDB Local the same questions over a thousand results and over
many; it needs Java 17, unshare and `npm install --prefix build/dynamodb
amplify-dynamodb-simulator@2.9.30` (Amazon's licence: use, not redistribution). Both run without.
"""

import argparse
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

import boto3

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests/web"), str(ROOT / "tests/queries")]

from test_reading_results import items_of  # noqa: E402
from web_samples import Shelf, huge  # noqa: E402

from functions.adapters.object_store import ObjectStore  # noqa: E402
from functions.adapters.results import Results, Selection  # noqa: E402
from functions.adapters.results_query import ResultsQuery  # noqa: E402
from functions.adapters.results_table import to_wire  # noqa: E402
from functions.query.app import View, build_app  # noqa: E402
from rootrank.embedded import state  # noqa: E402
from rootrank.embedded.stack import open_empty_storage  # noqa: E402
from rootrank.embedded.template import read_template  # noqa: E402
from rootrank.web.local_results import LocalResults  # noqa: E402
from rootrank.web.server import WebServer  # noqa: E402

DYNAMODB = ROOT / "build/dynamodb/node_modules/amplify-dynamodb-simulator/emulator"
MODULES = ROOT / "build/web/node_modules"
PORT = 8123
ROUNDS = 15
PAGE_BAR = (2.0, 2_000_000)
SMALL = 1_000
KINDS = ("answered", "loaded")


def measure_page() -> list[str]:
    """Render the verdict of 10,000 nodes, on the server and in a browser."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with open_empty_storage(folder) as names:
            shelf = Shelf(boto3.client("dynamodb"), boto3.client("s3"), names.table, names.bucket)
            key = shelf.put(huge())
            state.save_objects(folder, names.bucket)
            state.save_items(folder, names.table)
        app = build_app(View(results=LocalResults(folder).current))
        context: Any = None
        spent: list[float] = []

        def answer(event: dict[str, Any]) -> Any:
            before = time.process_time()
            told = app.resolve(event, context)
            spent.append(time.process_time() - before)
            return told

        server = WebServer(answer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        loads = _in_browser(f"{server.address}/attempts/{key}")
        body = app.resolve(_event(f"/attempts/{key}"), context)["body"].encode()
        server.shutdown()
    answered, loaded = (median(each[kind] for each in loads) / 1000 for kind in KINDS)
    cpu = median(each for each in spent if each > 0.05)
    # On a busy machine the wait for a processor is in the clock but not in the work.
    work = cpu + loaded - answered
    is_met = work < PAGE_BAR[0] and len(body) < PAGE_BAR[1]
    return [
        "## A verdict of 10,000 nodes",
        "",
        f"10,070 symptoms, 1,493 pieces of evidence; median of {len(loads)} loads in "
        f"{_version('chromium', '--version')}.",
        "",
        "| bytes of the page | CPU s of the server | s in the browser after the answer | both "
        "| by the clock, all in all |",
        "| --- | --- | --- | --- | --- |",
        f"| {len(body):,} | {cpu:.2f} | {loaded - answered:.2f} | {work:.2f} | {loaded:.2f} |",
        "",
        f"Bar: 2 s of work and 2 MB, {'met' if is_met else 'missed'}.",
    ]


def _in_browser(address: str) -> list[dict[str, float]]:
    done = subprocess.run(
        ["node", str(ROOT / "tests/web/page_speed.mjs"), str(MODULES),
         str(shutil.which("chromium")), address, "7"],
        check=True, capture_output=True,
    )  # fmt: skip
    told: list[dict[str, float]] = json.loads(done.stdout)
    return told


def _event(path: str) -> dict[str, Any]:
    return {
        "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": {},
        "requestContext": {"stage": "$default", "http": {"method": "GET", "path": path}},
        "isBase64Encoded": False,
    }  # fmt: skip


def measure_queries(count: int) -> list[str]:
    """Ask over a thousand and over many results, in a network namespace of DynamoDB Local's own."""
    command = [sys.executable, __file__, "inside", "--results", str(count)]
    inside = f"ip link set lo up; exec {' '.join(command)}"
    done = subprocess.run(["unshare", "--net", "bash", "-c", inside], check=True,
                          stdout=subprocess.PIPE)  # fmt: skip
    told = json.loads(done.stdout)
    lines = [
        "## Queries on DynamoDB Local",
        "",
        f"Results of {told['days']} days at 250 a day on three clusters; the same questions over "
        f"{SMALL:,} and over {count:,} results. Milliseconds are medians of {ROUNDS}, "
        "client and server on this machine; requests and capacity units are what the service told.",
        "",
        "| question | requests | read units | ms | requests | read units | ms |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, few in told["few"].items():
        cells = [f"{each[0]} | {each[1]:g} | {each[2]:.1f}" for each in (few, told["many"][name])]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"The first three columns of numbers are of {SMALL:,} results, the others of {count:,}. "
        "Requests and units, which AWS bills and throttles by, do not grow. The milliseconds are "
        "those of a busy machine; not measured on AWS.",
    ]


def _inside(count: int) -> dict[str, Any]:
    with _dynamodb_local():
        client = boto3.client(
            "dynamodb", endpoint_url=f"http://127.0.0.1:{PORT}", region_name="eu-west-1",
            aws_access_key_id="local", aws_secret_access_key="local",
        )  # fmt: skip
        client.create_table(TableName="results", **_table())
        items = (to_wire(item) for item in items_of(count, a_day=250))
        _load(client, items, until=lambda item: item["pk"]["S"].endswith(f"/{SMALL}/r0"))
        few = _ask(client)
        _load(client, items, until=lambda _item: False)
        return {"few": few, "many": _ask(client), "days": count // 250}


@contextmanager
def _dynamodb_local() -> Iterator[None]:
    command = ["java", f"-Djava.library.path={DYNAMODB}/DynamoDBLocal_lib", "-Xmx4g", "-jar",
               str(DYNAMODB / "DynamoDBLocal.jar"), "-inMemory", "-sharedDb", "-port",
               str(PORT)]  # fmt: skip
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, cwd=DYNAMODB)
    try:
        _wait_for_port()
        yield
    finally:
        process.terminate()
        process.wait(20)


def _wait_for_port() -> None:
    deadline = time.monotonic() + 120
    while True:
        try:
            socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _table() -> dict[str, Any]:
    """The table's keys and indexes as the template has them."""
    told = read_template()["Resources"]["Table"]["Properties"]
    names = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes", "BillingMode")
    return {name: told[name] for name in names}


def _load(client: Any, items: Iterator[Any], *, until: Callable[[Any], bool]) -> None:
    def put(batch: list[Any]) -> None:
        left: Any = {"results": [{"PutRequest": {"Item": item}} for item in batch]}
        while left:
            left = client.batch_write_item(RequestItems=left).get("UnprocessedItems")

    def batches() -> Iterator[list[Any]]:
        while batch := list(islice(items, 25)):
            yield batch
            if any(until(item) for item in batch):
                return

    source = batches()
    with ThreadPoolExecutor(4) as pool:
        while group := list(islice(source, 200)):
            list(pool.map(put, group))


class _Counting:
    """A client that asks what each request cost and adds it up."""

    def __init__(self, client: Any):
        self._client = client
        self.requests, self.units = 0, 0.0

    def _call(self, name: str, request: dict[str, Any]) -> Any:
        answer = getattr(self._client, name)(**request, ReturnConsumedCapacity="TOTAL")
        self.requests += 1
        self.units += answer["ConsumedCapacity"]["CapacityUnits"]
        return answer

    def query(self, **request: Any) -> Any:
        return self._call("query", request)

    def get_item(self, **request: Any) -> Any:
        return self._call("get_item", request)


def _ask(client: Any) -> dict[str, tuple[int, float, float]]:

    questions: dict[str, Callable[[Results], Any]] = {
        "newest 50": lambda r: r.page(Selection()),
        "newest 50 of a cluster": lambda r: r.page(Selection(cluster="team-a/west")),
        "newest 50 of a class": lambda r: r.page(Selection(failure_class="link_down")),
        "newest 50 of a tenant": lambda r: Results(r.query, r.store, "team-b").page(Selection()),
        "newest 50 of a domain": lambda r: r.page(Selection(domain="gpu")),
        "a node's parts": lambda r: r.page(Selection(node="lone")),
        "a GPU's parts": lambda r: r.page(Selection(gpu="serial-0")),
        "a job's attempts": lambda r: r.page(Selection(job_id="17")),
        "an attempt": lambda r: r.current("team-a/west/slurm/1/r0"),
        "its revisions": lambda r: r.revisions("team-a/west/slurm/1/r0"),
        "clusters": lambda r: r.clusters(),
        "all of a day": lambda r: list(
            r.walk(Selection(since="2026-01-30T12:00:00Z"), at_most=500)
        ),
    }
    told = {}
    for ask in questions.values():
        ask(Results(ResultsQuery(client, "results"), ObjectStore(client, "none")))  # Java warms up
    for name, ask in questions.items():
        spent = []
        for _ in range(ROUNDS):
            counting: Any = _Counting(client)
            results = Results(ResultsQuery(counting, "results"), ObjectStore(counting, "none"))
            before = time.perf_counter()
            ask(results)
            spent.append((time.perf_counter() - before) * 1000)
        told[name] = (counting.requests, counting.units, median(spent))
    return told


def _version(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip().split(" built on")[0]


def main() -> None:
    """Measure and print, or write, a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("parts", nargs="*", metavar="page|queries")
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--write", type=Path)
    chosen = parser.parse_args()
    if chosen.parts == ["inside"]:
        print(json.dumps(_inside(chosen.results)))
        return
    parts = chosen.parts or ["page", "queries"]
    load = os.getloadavg()[0]
    lines = ["# Web view and queries, measured", "",
             "Written by `scripts/bench_web.py`, not by hand.", "",
             f"{os.cpu_count()} cores, Linux {platform.release()}, Python "
             f"{platform.python_version()}, load {load:.1f} at the start.", ""]  # fmt: skip
    if "page" in parts:
        lines += [*measure_page(), ""]
    if "queries" in parts:
        lines += [*measure_queries(chosen.results), ""]
    text = "\n".join(lines).rstrip() + "\n"
    if chosen.write:
        chosen.write.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
