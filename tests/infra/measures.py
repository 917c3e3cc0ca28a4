"""What functions took in the deployed run: a table for docs/functions.md."""

import json
import platform
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from rootrank.embedded.lambda_process import FunctionSpec, LambdaProcess

STARTS = 7
MEGABYTE = 1_000_000
BARS = {"ScopeAdmitFunction": "400", "CollectFunction": "800", "AttributeFunction": "800"}
"""CPU milliseconds to the first line of the handler."""
PAGE = """# Functions as built

Written by `make bench-functions`: `sam build`, `sam deploy` on an emulator on loopback, one job's
evidence from event to verdict, with the handlers under AWS's own runtime client and Python 3.13
({machine}). A cold start is the time to the first `next` request: interpreter, runtime client,
imports; the median of {starts} starts one after another, files in the page cache. On Lambda a
function has a share of a processor that goes with its memory (1,769 MiB is one), so a cold start
there takes at least the CPU milliseconds divided by that share. The peak of memory is that of the
calls in the run.

| function | cold start, CPU ms | bar | cold start, ms here | peak MiB | of MiB |
| --- | --- | --- | --- | --- | --- |
{rows}

| shipped | MB | bar |
| --- | --- | --- |
{sizes}
"""


def table(log: Path, built: Path, specs: Iterable[FunctionSpec]) -> str:
    """Return the page: cold start and memory of each function, and sizes of what is shipped."""
    peaks = _peaks(log)
    rows = []
    for spec in sorted(specs, key=lambda each: each.name):
        cpu, wall = _cold_start(spec)
        peak = f"{peaks[spec.name]:.0f}" if spec.name in peaks else "not called"
        bar = BARS.get(spec.name, "")
        rows.append(
            f"| {spec.name} | {cpu:.0f} | {bar} | {wall:.0f} | {peak} | {spec.memory_mib} |"
        )
    sizes = "\n".join(f"| {name} | {size:.2f} | {bar} |" for name, size, bar in _sizes(built))
    return PAGE.format(machine=platform.machine(), starts=STARTS, rows="\n".join(rows), sizes=sizes)


def _cold_start(spec: FunctionSpec) -> tuple[float, float]:
    """Return the medians of CPU and elapsed milliseconds; the first start only fills the cache."""
    told = []
    with LambdaProcess(spec) as process:
        for _ in range(STARTS + 1):
            process.start()
            told.append((process.init_cpu_milliseconds, process.init_milliseconds))
    return median(cpu for cpu, _ in told[1:]), median(wall for _, wall in told[1:])


def _peaks(log: Path) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in log.read_text().splitlines():
        if line.startswith('{"measured"'):
            told: dict[str, Any] = json.loads(line)
            name = told["measured"].split("-")[1]
            found[name] = max(found.get(name, 0.0), told["peak_mib"])
    return found


def _sizes(built: Path) -> Iterator[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        archive = shutil.make_archive(f"{folder}/code", "zip", built / "CollectFunction")
        yield "code, zipped", Path(archive).stat().st_size / MEGABYTE, "1"
    for name in ("ArmLayer", "IntelLayer"):
        files = [path for path in (built / name).rglob("*") if path.is_file()]
        yield f"{name}, unzipped", sum(path.stat().st_size for path in files) / MEGABYTE, "90"
