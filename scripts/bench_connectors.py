"""`make bench-connectors`: each connector on loopback against reading the same bytes from a file.

    python scripts/bench_connectors.py [--mib 16] [--gib 10] [--quick] [--output PAGE]

Writes docs/benchmarks-connectors.md. Servers (those of tests/telemetry) run in processes of their
own; every measured run is a fresh process and its CPU seconds (user and system) are its own alone.
"""

# ruff: noqa: PLC0415 - a child process imports what it times
import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "telemetry"
END = datetime(2026, 1, 1, 6, tzinfo=UTC)
KINDS = ("files", "s3", "pod_logs", "loki", "cloudwatch", "prometheus")
PIECE = 1 << 20
LINE = "{at} [rank{rank}]: step {step} | loss 2.{loss:04d} | grad norm 0.{loss:04d} | 3.1 s/it"


def lines_of(size: int) -> list[str]:
    """Return dated lines of a training log, about `size` bytes in all."""
    count = size // len(LINE.format(at="2026-01-01T00:00:00.000000Z", rank=0, step=1, loss=1))
    begin = END - timedelta(hours=5)
    step = timedelta(hours=4, minutes=55) / max(1, count)
    return [
        LINE.format(
            at=f"{begin + number * step:%Y-%m-%dT%H:%M:%S.%f}Z", rank=number % 8, step=number,
            loss=number % 10_000,
        )
        for number in range(count)
    ]  # fmt: skip


def server_of(kind: str, size: int) -> Any:
    """Return a running server that holds `size` bytes of log."""
    sys.path.insert(0, str(TESTS))
    if kind == "s3":
        from s3_server import Made, S3Server  # type: ignore[import-not-found]

        block = ("\n".join(lines_of(4 * PIECE)) + "\n").encode()

        def part(start: int, length: int) -> bytes:
            at = start % len(block)
            times = (at + length) // len(block) + 1
            return (block * times)[at : at + length]

        return S3Server({"7/all.log": Made(size, part)})
    lines = lines_of(size)
    ns = [round(datetime.fromisoformat(each[:27]).timestamp() * 1e9) for each in lines]
    if kind == "loki":
        from loki_server import LokiServer  # type: ignore[import-not-found]

        entries: list[Any] = [(at, line[28:], {}) for at, line in zip(ns, lines, strict=True)]
        return LokiServer([({"job": "7"}, entries)])
    if kind == "cloudwatch":
        from cloudwatch_server import CloudWatchServer  # type: ignore[import-not-found]

        events = [(at // 1_000_000, line[28:]) for at, line in zip(ns, lines, strict=True)]
        return CloudWatchServer({"/g": {"7/algo-1": events}}, page=10_000)
    from http_fake import FakeServer  # type: ignore[import-not-found]

    return FakeServer(answers_of(kind, lines))


def answers_of(kind: str, lines: Sequence[str]) -> Any:
    """Return what the Kubernetes API, or Prometheus, answers."""
    body = ("\n".join(lines) + "\n").encode()
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    pod = {
        "metadata": {"name": "sft-0", "namespace": "default"}, "spec": {"nodeName": "n1"},
        "status": {"containerStatuses": [{"name": "main", "restartCount": 0, "state": running}]},
    }  # fmt: skip
    listed = json.dumps({"apiVersion": "v1", "items": [pod]}).encode()
    end = int(END.timestamp())
    values = [[end - 15 * n, str(n % 97)] for n in range(1_400, 0, -1)]
    series = [
        {"metric": {"__name__": "m", "instance": "n1:9100", "device": f"d{n}"}, "values": values}
        for n in range(max(1, len(body) // 70_000))
    ]
    matrix = {"status": "success", "data": {"resultType": "matrix", "result": series}}
    metrics = json.dumps(matrix).encode()

    def answer(path: str, params: Any, headers: Any) -> tuple[int, dict[str, str], bytes]:
        if kind == "prometheus":
            return 200, {}, metrics
        return 200, {}, body if path.endswith("/log") else listed

    return answer


def connector_of(kind: str, url: str) -> tuple[Any, Any, Any]:
    """Return a connector, an item that reads all, and its workload."""
    import boto3
    from botocore.config import Config

    from connectors.registry import Outside, connector_for
    from connectors.site import read_site
    from connectors.telemetry.prometheus import METRICS
    from engine.model.plan import PlanItem
    from engine.model.workload import Workload
    from functions.adapters.cloudwatch_logs import CloudWatchLogs
    from functions.adapters.s3_files import BucketFiles
    from functions.scope.planning import windows_of

    def client(service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service, region_name="us-east-1", endpoint_url=url, aws_access_key_id="x",
            aws_secret_access_key="x", config=Config(s3={"addressing_style": "path"}),
        )  # fmt: skip

    budget = "budget: {bytes: 109951162777600, seconds: 100000, requests: 10000000}"
    sites = {
        "files": f"files: [{{root: '{url}', patterns: ['{{job_id}}/*.log'], {budget}}}]",
        "s3": f"files: [{{root: 's3://logs', patterns: ['{{job_id}}/*.log'], {budget}}}]",
        "pod_logs": f"kubernetes: {{kind: api, url: '{url}'}}\n    pod_logs: {{match: {{a: b}}}}",
        "loki": f"loki: {{url: '{url}', streams: [{{match: {{job: '{{job_id}}'}}}}], {budget}}}",
        "cloudwatch": "cloudwatch: {region: us-east-1, groups: "
        "[{name: g, group: /g, streams: ['{job_id}/*']}]}",
        "prometheus": f"prometheus: {{url: '{url}'}}",
    }
    site = read_site(f"version: 1\nclusters:\n  - name: a\n    {sites[kind]}\n".encode(), shown="s")
    outside = Outside(
        buckets=lambda root: BucketFiles(client("s3"), "logs", ""),
        logs=lambda region: CloudWatchLogs(client("logs")),
    )
    job = Workload(scheduler="slurm", cluster="a", job_id="7", nodes=("n1",),
                   start=END - timedelta(hours=6), end=END)  # fmt: skip
    name = "files" if kind == "s3" else kind
    query = {"cluster": "a", METRICS: '[{"metric": "m"}]'}
    windows = windows_of(job)
    settings = site.clusters[0]
    given = next(iter(settings.files), None) or getattr(settings, name)
    item = PlanItem(item_id="i", connector=name, shard="s", source="applog", windows=windows,
                    query=query, budget=given.budget)  # fmt: skip
    return connector_for(site, item, outside), item, job


def drain(kind: str, url: str) -> dict[str, Any]:
    """Read all that a connector gives, and do nothing with it."""
    from connectors.protocol import Collected

    connector, item, job = connector_of(kind, url)
    collected = Collected()

    def read() -> int:
        size = 0
        for stream in connector.open_streams(item, job, collected):
            while part := stream.read(PIECE):
                size += len(part)
            stream.close()
        return size

    return timed(read) | {"requests": collected.requests, "warnings": collected.warnings}


def plain(path: str) -> dict[str, Any]:
    """Read a file, and do nothing with it."""

    def read() -> int:
        size = 0
        with open(path, "rb", buffering=0) as stream:
            while part := stream.read(PIECE):
                size += len(part)
        return size

    return timed(read)


def whole(kind: str, url: str) -> dict[str, Any]:
    """Collect as the function does: fetch, decode, scan with the shipped rules, fold."""
    from functions.adapters.rulebook import shipped_rulebook, shipped_scanner
    from functions.collect.collection import Collecting, collect_item
    from functions.collect.pace import collect_rarely

    collect_rarely()
    connector, item, job = connector_of(kind, url)
    using = Collecting(book=shipped_rulebook(), scanner=shipped_scanner())
    reports: list[Any] = []

    def read() -> int:
        found = collect_item(item, workload=job, connector=connector, collecting=using)
        reports.append(found.report)
        return int(found.report.bytes)

    result = timed(read)
    told = reports[0]
    return result | {"status": told.status, "lines": told.lines, "reason": told.reason}


def timed(read: Callable[[], int]) -> dict[str, Any]:
    """Return bytes, seconds and the process's peak."""
    begun, cpu = time.perf_counter(), time.process_time()
    size = read()
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"bytes": size, "wall_s": round(wall, 3), "cpu_s": round(cpu, 3), "peak_mib": peak}


def masking(path: str, source: Any) -> dict[str, Any]:
    """Scan a log with the redactor and with one that does nothing, in turns; CPU seconds."""
    from bench_redaction import shares

    return shares(Path(path), source)


@contextmanager
def serving(kind: str, size: int) -> Iterator[str]:
    """Run a server in a process of its own; yields its address."""
    command = [sys.executable, __file__, "serve", kind, str(size)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


def child(*arguments: str) -> dict[str, Any]:
    """One measured run."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def middle(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the run with the median CPU time."""
    at = median([run["cpu_s"] for run in runs])
    return min(runs, key=lambda run: abs(run["cpu_s"] - at))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure everything, or the part that is asked for."""
    size = options.mib * PIECE
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        root = Path(folder)
        (root / "7").mkdir()
        log = root / "7" / "all.log"
        log.write_text("\n".join(lines_of(size)) + "\n")
        if options.only in (None, "large") and not options.quick:
            found["large"] = measure_large(root / "large", log, options.gib)
        if options.only == "large":
            return found
        found["file"] = middle([child("plain", str(log)) for _ in range(options.rounds)])
        found["ratios"] = measure_ratios(root, size, options.rounds)
        found["redaction"] = [
            {"log": source, **child("masking", str(log), source)} for source in ("applog", "syslog")
        ]
        found["small"] = measure_small(root / "small", 1_000 if options.quick else 10_000)
    return found


def measure_ratios(root: Path, size: int, rounds: int) -> list[dict[str, Any]]:
    """Drain each connector."""
    rows = []
    for kind in KINDS:
        with serving(kind, size) if kind != "files" else _given(str(root)) as url:
            run = middle([child("drain", kind, url) for _ in range(rounds)])
        rows.append({"kind": kind, **run})
    return rows


@contextmanager
def _given(value: str) -> Iterator[str]:
    yield value


def measure_small(root: Path, count: int) -> dict[str, Any]:
    """Collect a folder of many small files, a tenth of them rotated."""
    folder = root / "7"
    folder.mkdir(parents=True)
    text = "\n".join(lines_of(3_000)) + "\n"
    for number in range(count):
        (folder / f"rank-{number}.log").write_text(text)
    return {"files": count, **child("whole", "files", str(root))}


def measure_large(root: Path, log: Path, gib: int) -> list[dict[str, Any]]:
    """Collect `gib` GiB through files (ten of them) and through S3 (one object)."""
    folder = root / "7"
    folder.mkdir(parents=True)
    body = log.read_bytes()
    for number in range(10):
        with (folder / f"rank-{number}.log").open("wb") as stream:
            for _ in range(gib * (1 << 30) // 10 // len(body)):
                stream.write(body)
    rows = [{"through": "files, 10 of them", **child("whole", "files", str(root))}]
    for each in folder.iterdir():
        each.unlink()
    with serving("s3", gib * (1 << 30)) as url:
        rows.append({"through": "S3, one object", **child("whole", "s3", url)})
    return rows


def main() -> None:
    """Measure and write the page, or run as one of its children."""
    sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        run_child(*sys.argv[1:])
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="no 10 GiB, 1,000 small files")
    parser.add_argument("--only", choices=["large", "rest"], help="one part; others are kept")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "bench" / "connectors.json",
                        help="what was measured, by part")  # fmt: skip
    parser.add_argument("--scratch", type=Path, help="where the logs are made (a temporary folder)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks-connectors.md")
    options = parser.parse_args()
    from bench import machine
    from bench_connectors_report import write_page

    kept = json.loads(options.kept.read_text()) if options.only and options.kept.is_file() else {}
    found = {"large": [], "ratios": [], "redaction": []} | kept | {"machine": machine()}
    found |= measure(options)
    options.kept.parent.mkdir(parents=True, exist_ok=True)
    options.kept.write_text(json.dumps(found))
    write_page(found, options.output)
    print(json.dumps(found))


def run_child(what: str, *arguments: str) -> None:
    """Serve, or measure one thing and print it."""
    if what == "serve":
        server = server_of(arguments[0], int(arguments[1]))
        print(server.url, flush=True)
        sys.stdin.read()
        server.stop()
        return
    runs: dict[str, Any] = {"plain": plain, "drain": drain, "whole": whole, "masking": masking}
    print(json.dumps(runs[what](*arguments)))


if __name__ == "__main__":
    main()
