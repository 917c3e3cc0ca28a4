"""docs/benchmarks.md from the figures of one run."""

from math import log10
from pathlib import Path
from statistics import median
from typing import Any

BARS = {"train_rare": 1.9, "train_storm": 1.4, "syslog": 1.5}
COMPRESSED_BAR = 0.45
MEMORY_BAR_MIB = 160
TYPICAL_BAR_MS = 150
MILLION_BAR_S = 10
EXPONENT_BAR = 1.15
REASONING_BAR_MIB = 1024


def write_report(found: dict[str, Any], output: Path) -> None:
    """Write the page; figures stand as measured, missed bars say so."""
    parts = [
        "# Benchmarks\n\nWritten by `make bench` (`scripts/bench.py`), not by hand.\n",
        _machine(found["machine"]),
    ]
    if "extract" in found:
        parts += [_extract(found["extract"]), _compressed(found["compressed"])]
    if "memory" in found:
        parts.append(_memory(found["memory"]))
    parts += [_start(found["start"]), _typical(found["typical"]), _growth(found["growth"])]
    output.write_text("\n".join(parts), encoding="utf-8")


def _machine(machine: dict[str, str]) -> str:
    return "## Machine\n\n" + _table(["", ""], [[key, value] for key, value in machine.items()])


def _extract(rows: list[dict[str, Any]]) -> str:
    lines = []
    for row in rows:
        ours = median(row["ours"])
        cells = [row["log"], f"{row['mb']:.0f}", f"{row['hits']:,}", f"{row['observations']:,}",
                 f"{row['mb'] / ours:.0f}"]  # fmt: skip
        for tool in ("ripgrep", "grep"):
            runs = row["tools"].get(tool)
            cells.append(f"{row['mb'] / median(runs):.0f}" if runs else "-")
        ripgrep = row["tools"].get("ripgrep")
        ratio = median(ripgrep) / ours if ripgrep else None
        bar = BARS[row["log"]]
        cells.append("-" if ratio is None else f"{ratio:.2f} (bar {bar}, {_met(ratio >= bar)})")
        shipped = median(row["shipped"])
        cells += [f"{row['mb'] / shipped:.0f}", str(row["peak_mib"])]
        lines.append(cells)
    return (
        "## Extraction against ripgrep and grep\n\nThe whole pipeline (scan, confirm, fold, "
        "redact) with the peer benchmark's 200 signatures, against `rg -j1 -c -f` and `grep -c -E "
        "-f`, which only count lines. MB per CPU second (user and system), median; all files in "
        "the page cache. The shipped rules stand beside it.\n\n"
        + _table(
            ["log", "MB", "hits", "observations", "ours", "ripgrep", "grep", "ours / ripgrep",
             "ours, shipped rules", "peak MiB"], lines,
        )
        + _hit_cost(rows)
    )  # fmt: skip


def _hit_cost(rows: list[dict[str, Any]]) -> str:
    """What a hit costs: the storm beside the same bytes at the speed of rare hits."""
    found = {row["log"]: row for row in rows}
    rare, storm = found.get("train_rare"), found.get("train_storm")
    if rare is None or storm is None:
        return ""
    plain = median(rare["ours"]) / rare["mb"] * storm["mb"]
    whole = median(storm["ours"])
    us = (whole - plain) / storm["hits"] * 1e6
    text = (
        f"\nIn the storm {storm['hits']:,} hits are {storm['observations']:,} facts: a signature "
        "on a rank each, counted exactly and kept with its first and last lines, dated and "
        f"redacted. That takes {whole:.1f} s where the same bytes without hits take {plain:.1f}: "
        f"{us:.0f} us a hit, in Python."
    )
    if ripgrep := storm["tools"].get("ripgrep"):
        left = (median(ripgrep) / BARS["train_storm"] - plain) / storm["hits"] * 1e6
        text += f" The bar would leave {left:.1f}."
    return text + (
        " The shipped rules hit each rank's placement and checkpoint lines in both training logs, "
        "and in the third every line of a link that came up, for the same price.\n"
    )


def _compressed(rows: list[dict[str, Any]]) -> str:
    lines = [
        [row["form"], f"{row['cpu_s']:.2f}",
         f"{row['of_plain']:.2f}" + ("" if row["form"].endswith(".log") else
                                     f" (bar {COMPRESSED_BAR}, "
                                     f"{_met(row['of_plain'] >= COMPRESSED_BAR)})")]
        for row in rows
    ]  # fmt: skip
    return "## Compressed input\n\nOne thread, gzip -6 and zstd -3.\n\n" + _table(
        ["form", "CPU s", "of the plain speed"], lines
    )


def _memory(rows: list[dict[str, Any]]) -> str:
    lines = [
        [row["stream"], f"{row['gib']:.1f}", f"{row['observations']:,}",
         f"{row['peak_mib']} (bar {MEMORY_BAR_MIB}, {_met(row['peak_mib'] <= MEMORY_BAR_MIB)})",
         f"{row['bytes'] / row['cpu_s'] / 1e6:.0f}"]
        for row in rows
    ]  # fmt: skip
    return (
        "## Memory of a collector\n\nA stream made on the fly; peak resident memory of the whole "
        "process.\n\n"
        + _table(["stream", "GiB", "observations", "peak MiB", "MB per CPU second"], lines)
    )


def _start(rows: list[dict[str, Any]]) -> str:
    lines = [[row["what"], f"{row['cpu_ms']:.0f}"] for row in rows]
    return (
        "## Start-up\n\nA fresh process with a warm page cache, interpreter included, CPU "
        "milliseconds, median. The command loads its rulebook and databases from the machine's "
        "cache.\n\n" + _table(["", "CPU ms"], lines)
    )


def _typical(row: dict[str, Any]) -> str:
    ms = row["cpu_s"] * 1000
    return (
        "## Reasoning, a typical job\n\n64 ranks, 1,000 observations: "
        f"{ms:.0f} ms of CPU (bar {TYPICAL_BAR_MS} ms, {_met(ms <= TYPICAL_BAR_MS)}).\n"
    )


def _growth(rows: list[dict[str, Any]]) -> str:
    lines = [
        [f"{row['observations']:,}", f"{row['ranks']:,}", f"{row['cpu_s']:.2f}",
         str(row["case_mib"]), str(row["peak_mib"]), row["failure_class"]]
        for row in rows
    ]  # fmt: skip
    notes = []
    for ranks in sorted({row["ranks"] for row in rows}):
        own = sorted((row["observations"], row["cpu_s"]) for row in rows if row["ranks"] == ranks)
        if len(own) > 1:
            (few, fast), (many, slow) = own[0], own[-1]
            exponent = log10(slow / fast) / log10(many / few)
            notes.append(
                f"- {ranks:,} ranks: exponent {exponent:.2f} from {few:,} to {many:,} "
                f"(bar {EXPONENT_BAR}, {_met(exponent <= EXPONENT_BAR)})"
            )
    for row in rows:
        if row["observations"] == 10**6 and row["ranks"] == 10_240:
            notes.append(
                f"- one million from 10,240 ranks: {row['cpu_s']:.1f} s (bar {MILLION_BAR_S} s, "
                f"{_met(row['cpu_s'] <= MILLION_BAR_S)}), {row['peak_mib']} MiB with the case "
                f"(bar {REASONING_BAR_MIB}, {_met(row['peak_mib'] <= REASONING_BAR_MIB)})"
            )
    return (
        "## Reasoning, how it grows\n\n`engine.pipeline.attribute` on synthetic cases "
        "(`scripts/bench_reasoning.py`): all phases and the sealed document. `case` is the peak "
        "before it starts.\n\n"
        + _table(["observations", "ranks", "CPU s", "case MiB", "peak MiB", "failure class"], lines)
        + "\n"
        + "\n".join(notes)
        + "\n"
    )


def _met(holds: bool) -> str:
    return "met" if holds else "missed"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines) + "\n"
