"""`make bench`: speed against ripgrep and grep, memory, start-up and reasoning, in one run.

    python scripts/bench.py [--peer DIR] [--data DIR] [--mib 1024] [--rounds 5] [--quick]

Writes docs/benchmarks.md. DIR holds the peer benchmark's `signatures.py` and `gen_logs.py`
(`../shared/bench` beside a checkout); its logs are made once below `--data`. Every run is a fresh
process; ours and the command-line tools take turns, and the ratios compare CPU seconds (user and
system), which other work on the machine disturbs least.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench_report import write_report

ROOT = Path(__file__).resolve().parent.parent
EXTRACT = ROOT / "scripts" / "bench_extract.py"
REASONING = ROOT / "scripts" / "bench_reasoning.py"
LOGS = {"train_rare": "applog", "train_storm": "applog", "syslog": "syslog"}
TINY = ROOT / "tests" / "corpus" / "043-node-failure-only"
IMPORTS = {
    "scope, admit": "functions.scope.admit_handler",
    "scope, plan": "functions.scope.handler",
    "collect": "functions.collect.handler",
    "attribute": "functions.attribute.handler",
}
GROWTH = [(count, ranks) for ranks in (64, 1024, 10_240) for count in (10**4, 10**5, 10**6)]


def child(*arguments: str) -> dict[str, Any]:
    """One run in a process of its own: its JSON."""
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def tool_seconds(command: Sequence[str]) -> float:
    """CPU seconds of a command-line tool."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # through a pipe: grep stops at its first match when its output is the null device
    subprocess.run(command, check=False, stdout=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def tools(peer: Path, folder: Path) -> dict[str, list[str]]:
    """The peers' commands with the same patterns; each still lacks the file."""
    sys.path.insert(0, str(peer))
    import signatures  # type: ignore[import-not-found]  # noqa: PLC0415

    expressions = [each for _, each in signatures.load(200)]
    found: dict[str, list[str]] = {}
    if shutil.which("rg"):
        patterns = folder / "ripgrep.txt"
        # as the automaton: no class may cross a line
        patterns.write_text("\n".join(each.replace("[^", r"[^\n") for each in expressions))
        found["ripgrep"] = ["rg", "-j1", "-c", "--no-config", "-a", "-f", str(patterns)]
    if shutil.which("grep"):
        patterns = folder / "grep.txt"
        patterns.write_text("\n".join(signatures.to_ere(each) for each in expressions))
        found["grep"] = ["env", "LC_ALL=C", "grep", "-c", "-a", "-E", "-f", str(patterns)]
    return found


def make_logs(peer: Path, data: Path, mib: int) -> None:
    """Write the three logs and the compressed copies of the first, where they are missing."""
    data.mkdir(parents=True, exist_ok=True)
    missing = [name for name in LOGS if not (data / f"{name}.log").is_file()]
    if missing:
        kinds = ",".join(name.removeprefix("train_") for name in missing)
        subprocess.run(
            [sys.executable, "gen_logs.py", str(data), "--mib", str(mib), "--only", kinds],
            cwd=peer, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    plain = data / "train_rare.log"
    for suffix, command in (("gz", ["gzip", "-6", "-k"]), ("zst", ["zstd", "-3", "-q", "-k"])):
        if not (data / f"train_rare.log.{suffix}").is_file() and shutil.which(command[0]):
            subprocess.run([*command, str(plain)], check=True)


def measure_extract(peer: Path, data: Path, rounds: int) -> list[dict[str, Any]]:
    """Ours with the peer's signatures, ours with the shipped rules, and the tools, in turns."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        commands = tools(peer, Path(folder))
        for name, source in LOGS.items():
            log = str(data / f"{name}.log")
            ours: list[dict[str, Any]] = []
            shipped: list[dict[str, Any]] = []
            theirs: dict[str, list[float]] = {tool: [] for tool in commands}
            for _ in range(rounds):
                for tool, command in commands.items():
                    theirs[tool].append(tool_seconds([*command, log]))
                ours.append(child(str(EXTRACT), "file", log, "--source", source,
                                  "--signatures", str(peer)))  # fmt: skip
                shipped.append(child(str(EXTRACT), "file", log, "--source", source))
            rows.append({
                "log": name, "mb": ours[0]["bytes"] / 1e6, "hits": ours[0]["hits"],
                "observations": ours[0]["observations"],
                "ours": [run["cpu_s"] for run in ours],
                "shipped": [run["cpu_s"] for run in shipped],
                "peak_mib": max(run["peak_mib"] for run in ours), "tools": theirs,
            })  # fmt: skip
    return rows


def measure_compressed(peer: Path, data: Path, rounds: int) -> list[dict[str, Any]]:
    """Plain, gzip and zstd of the same log, in turns."""
    names = [name for name in ("train_rare.log", "train_rare.log.gz", "train_rare.log.zst")
             if (data / name).is_file()]  # fmt: skip
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            run = child(str(EXTRACT), "file", str(data / name), "--signatures", str(peer))
            seconds[name].append(run["cpu_s"])
    plain = median(seconds["train_rare.log"])
    return [
        {"form": name, "cpu_s": median(runs), "of_plain": plain / median(runs)}
        for name, runs in seconds.items()
    ]


def measure_memory(peer: Path, data: Path, gib: int) -> list[dict[str, Any]]:
    """Peak memory of a collector on a stream that no disk holds."""
    rows = []
    for name in ("train_rare", "train_storm"):
        for form in ("plain", "gzip"):
            more = ["--gzip"] if form == "gzip" else []
            run = child(str(EXTRACT), "stream", str(data / f"{name}.log"), "--gib", str(gib),
                        "--signatures", str(peer), *more)  # fmt: skip
            rows.append({"stream": f"{name}, {form}", "gib": run["bytes"] / (1 << 30), **run})
    return rows


def measure_start(rounds: int) -> list[dict[str, Any]]:
    """CPU seconds to import each handler, and of the whole command on a tiny bundle."""
    rows = []
    commands = {what: [sys.executable, "-c", f"import {module}"] for what, module in
                IMPORTS.items()}  # fmt: skip
    commands["rootrank attribute, a bundle of 3 files"] = [
        sys.executable, "-m", "rootrank", "attribute", str(TINY), "--format", "json",
    ]  # fmt: skip
    environment = ("env", "-C", str(ROOT), "AWS_DEFAULT_REGION=eu-west-1", f"PYTHONPATH={ROOT}")
    for what, command in commands.items():
        tool_seconds([*environment, *command])
        rows.append({"what": what, "cpu_ms": 1000 * median(
            tool_seconds([*environment, *command]) for _ in range(rounds))})  # fmt: skip
    return rows


def machine() -> dict[str, str]:
    """What this ran on."""
    model = next(
        (line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
         if line.startswith("model name")), platform.processor(),
    )  # fmt: skip
    memory = Path("/proc/meminfo").read_text().splitlines()[0].split()[1]
    versions = {}
    for tool in ("rg", "grep"):
        if shutil.which(tool):
            done = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True)
            versions[tool] = done.stdout.splitlines()[0]
    return {
        "processor": f"{model}, {os.cpu_count()} cores", "memory": f"{int(memory) >> 20} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f} at the start",
        **versions,
    }  # fmt: skip


def main() -> None:
    """Measure everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", type=Path, default=ROOT.parent / "shared" / "bench")
    parser.add_argument("--data", type=Path, default=ROOT / "build" / "bench")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="no 10 GiB streams, no million")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine()}
    if (options.peer / "signatures.py").is_file():
        make_logs(options.peer, options.data, options.mib)
        found["extract"] = measure_extract(options.peer, options.data, options.rounds)
        found["compressed"] = measure_compressed(options.peer, options.data, options.rounds)
        if not options.quick:
            found["memory"] = measure_memory(options.peer, options.data, options.gib)
    else:
        print(f"bench: no peer benchmark in {options.peer}; extraction is left out",
              file=sys.stderr)  # fmt: skip
    found["start"] = measure_start(options.rounds)
    found["typical"] = child(str(REASONING), "1000", "64", "--warm")
    sizes = [(count, ranks) for count, ranks in GROWTH if not options.quick or count < 10**6]
    found["growth"] = [child(str(REASONING), str(count), str(ranks)) for count, ranks in sizes]
    write_report(found, options.output)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
