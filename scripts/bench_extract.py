"""Whole extraction against ripgrep with the same patterns, in one interleaved run.

    python scripts/bench_extract.py LOG --signatures DIR [--rounds 3] [--engine re2]

DIR holds the benchmark's `signatures.py`; LOG is a file of its generator. Each run is a fresh
process; set-up (compiling the automaton) is timed apart. Prints one JSON object.
"""

# ruff: noqa: PLC0415 - a child process imports what it times
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def book_of(directory: str, count: int, source: str) -> Any:
    """A rulebook of the benchmark's signatures."""
    from engine.rulebook.book import Rulebook, SignatureDef
    from engine.rulebook.pattern import automaton_form

    sys.path.insert(0, directory)
    import signatures  # type: ignore[import-not-found]

    made = []
    for index, (name, expression) in enumerate(signatures.load(count)):
        ignore_case = expression.startswith("(?i)")
        bare = expression.removeprefix("(?i)")
        made.append(
            SignatureDef(
                index=index, rule=f"bench/{name}", name="main", symptom=name, sources=(source,),
                proves_from=(), scan=automaton_form(bare), extract=bare, ignore_case=ignore_case,
                identity=(), when={}, unless=(), block=None, set={}, onset=None,
            )
        )  # fmt: skip
    return Rulebook("0", "d", "r", tuple(made), {}, (), ())


def run_once(log: str, directory: str, engine: str, count: int, source: str) -> dict[str, Any]:
    """One timed extraction in this process."""
    sys.path.insert(0, str(ROOT))
    from engine.extract.redact import Redactor
    from engine.extract.scanner import build_scanner
    from engine.extract.session import ExtractContext, extract_stream
    from engine.model.stream import StreamLabel
    from engine.model.workload import Workload

    book = book_of(directory, count, source)
    workload = Workload(scheduler="none", job_id="bench", start="2026-11-03T12:00:00Z",
                        end="2026-11-04T12:00:00Z")  # fmt: skip
    context = ExtractContext(
        book, build_scanner(book, engine), workload, "bench", "sha256:bench", Redactor()
    )
    label = StreamLabel("log", source, "workload")
    begun = time.perf_counter()
    with open(log, "rb", buffering=0) as stream:
        context.scanner.scan(stream.read(1 << 20), 1 << 20, source)
    for signature in book.signatures:
        context.scanner.reader(signature.index)
    ready = time.perf_counter()
    with open(log, "rb", buffering=0) as stream:
        found = extract_stream(stream.read, label, context)
    wall = time.perf_counter() - ready
    peak = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return {
        "mb_per_s": round(found.bytes / wall / 1e6, 1), "setup_s": round(ready - begun, 2),
        "lines": found.lines, "hits": sum(item.count for item in found.observations),
        "observations": len(found.observations), "peak_mib": peak // 1024,
    }  # fmt: skip


def run_ripgrep(log: str, directory: str, count: int) -> float:
    """MB/s of ripgrep counting the lines that any signature matches."""
    sys.path.insert(0, directory)
    import signatures

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as patterns:
        # as the automaton: no class may cross a line
        patterns.write("\n".join(re.sub(r"\[\^(?!\\n)", r"[^\\n", e)
                                 for _, e in signatures.load(count)))  # fmt: skip
        patterns.flush()
        begun = time.perf_counter()
        subprocess.run(["rg", "-j1", "-c", "--no-config", "-a", "-f", patterns.name, log],
                       check=False, stdout=subprocess.DEVNULL)  # fmt: skip
        wall = time.perf_counter() - begun
    return Path(log).stat().st_size / wall / 1e6


def main() -> None:
    """Run the interleaved comparison, or one child run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--signatures", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--engine", default="hyperscan")
    parser.add_argument("--source", default="applog")
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run_once(options.log, options.signatures, options.engine, options.count,
                                  options.source)))  # fmt: skip
        return
    ours: list[dict[str, Any]] = []
    theirs: list[float] = []
    for _ in range(options.rounds):
        theirs.append(run_ripgrep(options.log, options.signatures, options.count))
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:], "--child"], check=True,
                              capture_output=True)  # fmt: skip
        ours.append(json.loads(done.stdout))
    speed, ripgrep = median(run["mb_per_s"] for run in ours), median(theirs)
    print(json.dumps({**ours[-1], "mb_per_s": speed, "ripgrep_mb_per_s": round(ripgrep, 1),
                      "ratio": round(speed / ripgrep, 2)}))  # fmt: skip


if __name__ == "__main__":
    main()
