"""docs/benchmarks-connectors.md from what scripts/bench_connectors.py measured."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

NAMES = {"files": "files, local", "s3": "files, S3", "pod_logs": "pod logs", "loki": "Loki",
         "cloudwatch": "CloudWatch Logs", "prometheus": "Prometheus"}  # fmt: skip
MEMORY_MIB = 160
REDACTION = 0.10


def write_page(found: dict[str, Any], path: Path) -> None:
    """Write the page."""
    path.write_text("\n".join(page(found)) + "\n", encoding="utf-8")


def page(found: dict[str, Any]) -> Iterator[str]:
    """Yield the page's lines."""
    yield "# Benchmarks of connectors\n"
    yield "Written by `make bench-connectors` (`scripts/bench_connectors.py`), not by hand.\n"
    yield from table(["", ""], [[key, value] for key, value in found["machine"].items()])
    if "file" in found:
        yield from _rest(found)
    if found["large"]:
        yield from _large(found["large"])


def _rest(found: dict[str, Any]) -> Iterator[str]:
    yield "\n## Reading through a connector\n"
    yield (
        "Each connector on loopback, its server in another process, against reading the bytes that "
        "it gave from a file in the page cache. MB per CPU second of the reading process; nothing "
        "is scanned. Loki, CloudWatch Logs and Prometheus answer in JSON, which has to be read.\n"
    )
    base = speed(found["file"])
    rows = [["a file", f"{base:,.0f}", "1", "", found["file"]["peak_mib"]]]
    for row in found["ratios"]:
        rows.append([NAMES[row["kind"]], f"{speed(row):,.0f}", f"{speed(row) / base:.3f}",
                     row["requests"], row["peak_mib"]])  # fmt: skip
    yield from table(["", "MB per CPU second", "of a file", "requests", "peak MiB"], rows)
    yield "\n## What redaction costs\n"
    yield (
        "A scan with the shipped rules, with masking and without, CPU seconds. `quiet` is a "
        "training log, `loud` has a line that a rule matches after every 200.\n"
    )
    rows = []
    for row in found["redaction"]:
        for form in ("quiet", "loud"):
            cost = row[form]["with_s"] / row[form]["without_s"] - 1
            rows.append([f"{row['log']}, {form}", f"{row[form]['without_s']:.2f}",
                         f"{row[form]['with_s']:.2f}", f"{max(0.0, cost):.1%}",
                         bar(cost < REDACTION)])  # fmt: skip
    yield from table(["log", "without", "with", "cost", f"bar {REDACTION:.0%}"], rows)
    small = found["small"]
    yield "\n## Many small files\n"
    yield (
        f"{small['files']:,} files of {small['bytes'] // small['files']:,} bytes, collected as the "
        f"function does: {small['cpu_s']:.1f} CPU seconds ({small['wall_s']:.1f} s), "
        f"{1000 * small['cpu_s'] / small['files']:.2f} ms a file, {small['peak_mib']} MiB, "
        f"status {small['status']}."
    )


def _large(large: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "\n## Ten GiB\n"
    yield (
        "Fetched, scanned with the shipped rules and folded. A quiet training log of a few MiB "
        "over and over; no disk holds the object.\n"
    )
    rows = [
        [row["through"], f"{row['bytes'] / (1 << 30):.1f}", f"{speed(row):,.0f}",
         f"{row['wall_s']:.0f}", row["status"], row["peak_mib"],
         bar(row["peak_mib"] < MEMORY_MIB)]
        for row in large
    ]  # fmt: skip
    yield from table(["through", "GiB", "MB per CPU second", "seconds", "status", "peak MiB",
                      f"bar {MEMORY_MIB} MiB"], rows)  # fmt: skip


def speed(row: dict[str, Any]) -> float:
    """Return MB per CPU second."""
    return float(row["bytes"]) / 1e6 / max(0.001, float(row["cpu_s"]))


def bar(is_met: bool) -> str:
    """Return how a bar was met."""
    return "met" if is_met else "missed"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a table's lines."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + " --- |" * len(head)
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"
