"""What functions took in the deployed run: a table for docs/functions.md."""

import json
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = """# Functions as built

Written by `make bench-functions`: `sam build`, `sam deploy` on an emulator on loopback, one job's
evidence from event to verdict, with the handlers under AWS's own runtime client and Python 3.13
({machine}). A cold start is the time to the first `next` request: interpreter, runtime client,
imports. On Lambda a function has a share of a processor that goes with its memory (1,769 MiB is
one), so a cold start there takes at least the CPU milliseconds divided by that share.

| function | cold start, CPU ms | cold start, ms here | peak MiB | of MiB |
| --- | --- | --- | --- | --- |
{rows}

| shipped | MiB |
| --- | --- |
{sizes}
"""


def table(log: Path, built: Path) -> str:
    """Return the page: cold start and memory of each function, and sizes of what is shipped."""
    rows = []
    for name, measured in sorted(_by_function(log).items()):
        cpu = sorted(each["init_cpu_ms"] for each in measured)
        wall = sorted(each["init_ms"] for each in measured)
        peak = max(each["peak_mib"] for each in measured)
        middle = len(measured) // 2
        rows.append(
            f"| {name} | {cpu[middle]} | {wall[middle]} | {peak} | {measured[0]['memory_mib']} |"
        )
    sizes = "\n".join(f"| {name} | {size:.1f} |" for name, size in _sizes(built))
    return PAGE.format(machine=platform.machine(), rows="\n".join(rows), sizes=sizes)


def _by_function(log: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for line in log.read_text().splitlines():
        if line.startswith('{"measured"'):
            told = json.loads(line)
            name = told["measured"].split("-")[1]
            # One process tells after each call; the last line of a process has its peak.
            found.setdefault(name, {})[str(told["process"])] = told
    return {name: list(processes.values()) for name, processes in found.items()}


def _sizes(built: Path) -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        archive = shutil.make_archive(f"{folder}/code", "zip", built / "CollectFunction")
        yield "code, zipped (bar 1)", Path(archive).stat().st_size / 2**20
    for name in ("ArmLayer", "IntelLayer"):
        files = [path for path in (built / name).rglob("*") if path.is_file()]
        yield f"{name}, unzipped (bar 90)", sum(path.stat().st_size for path in files) / 2**20
