"""Whole extraction in a process of its own, timed after set-up; prints one JSON object.

    python scripts/bench_extract.py file LOG --signatures DIR [--source syslog] [--engine re2]
    python scripts/bench_extract.py stream LOG --gib 10 [--gzip]

DIR holds the benchmark's `signatures.py`; without it the shipped rules are used. `stream` repeats
LOG's first 16 MiB to a stream that no disk holds.
"""

# ruff: noqa: PLC0415 - a child process imports what it times
import argparse
import gc
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BLOCK_BYTES = 16 << 20
COUNT = 200


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


def context_of(options: argparse.Namespace) -> Any:
    """An extraction context that is compiled and warm."""
    from engine.extract.keeping import STREAM_BYTES
    from engine.extract.redact import Redactor
    from engine.extract.scanner import build_scanner
    from engine.extract.session import ExtractContext
    from engine.model.workload import Workload
    from rootrank.local_case import load_book

    book = (
        book_of(options.signatures, options.count, options.source)
        if options.signatures
        else load_book()
    )
    workload = Workload(scheduler="none", job_id="bench", start="2026-11-03T12:00:00Z",
                        end="2026-11-04T12:00:00Z")  # fmt: skip
    scanner = build_scanner(book, options.engine)
    with open(options.log, "rb", buffering=0) as stream:
        data = stream.read(1 << 20)
    scanner.scan(data, len(data), options.source)
    for signature in book.signatures:
        if options.source in signature.sources:
            scanner.reader(signature.index)
    return ExtractContext(
        book, scanner, workload, "bench", "sha256:bench", Redactor(), capsule_bytes=STREAM_BYTES
    )


def repeated(block: bytes, size: int) -> Callable[[int], bytes]:
    """A `read` of `size` bytes that repeats `block`."""

    def pieces() -> Iterator[bytes]:
        left = size
        while left > 0:
            for start in range(0, min(len(block), left), 1 << 18):
                yield block[start : start + (1 << 18)]
            left -= len(block)

    source = pieces()
    rest = b""

    def read(limit: int) -> bytes:
        nonlocal rest
        piece = rest or next(source, b"")
        rest = piece[limit:]
        return piece[:limit]

    return read


def source_of(options: argparse.Namespace) -> Callable[[int], bytes]:
    """Where the bytes come from."""
    if options.mode == "file":
        return open(options.log, "rb", buffering=0).read
    with open(options.log, "rb") as stream:
        block = stream.read(BLOCK_BYTES)
    block = block[: block.rfind(b"\n") + 1]
    times = options.gib * (1 << 30) // len(block)
    if options.gzip:
        block = gzip.compress(block, 6)
    return repeated(block, times * len(block))


def main() -> None:
    """Run one extraction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=["file", "stream"])
    parser.add_argument("log")
    parser.add_argument("--signatures")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--engine", default="hyperscan")
    parser.add_argument("--source", default="applog")
    parser.add_argument("--gib", type=int, default=10)
    parser.add_argument("--gzip", action="store_true")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from engine.extract.session import extract_stream
    from engine.model.stream import StreamLabel
    from functions.collect.pace import collect_rarely

    context = context_of(options)
    read = source_of(options)
    collect_rarely()
    gc.collect()
    begun, cpu = time.perf_counter(), time.process_time()
    found = extract_stream(read, StreamLabel("log", options.source, "workload"), context)
    wall, cpu = time.perf_counter() - begun, time.process_time() - cpu
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM"))
    print(json.dumps({
        "cpu_s": round(cpu, 3), "wall_s": round(wall, 3), "bytes": found.bytes,
        "lines": found.lines, "hits": sum(item.count for item in found.observations),
        "observations": len(found.observations), "peak_mib": peak // 1024,
    }))  # fmt: skip


if __name__ == "__main__":
    main()
