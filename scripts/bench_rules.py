"""What the rules cost: loading them, and reading hostile lines.

    python scripts/bench_rules.py [RULES_FOLDER]

Prints one line a figure, best of several runs, with the bar where there is one.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from engine.extract.recognise import SignatureReader
from engine.rulebook.artifact import decode_artifact, encode_artifact
from engine.rulebook.book import Rulebook
from engine.rulebook.load import load_rules
from engine.rulebook.shipped import read_rulebook

RULES = Path(__file__).parents[1] / "rules"
SIZES = (2_000, 4_000, 8_000, 16_000)
SLOWEST = 5


def best(work: Callable[[], Any], times: int = 5) -> float:
    """Return the least processor seconds of several runs."""
    found = []
    for _ in range(times):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def samples(folder: Path) -> dict[tuple[str, str], str]:
    """Return each signature's first sample."""
    return {
        (rule.document.id, signature.name): signature.samples[0]
        for rule in load_rules(folder)
        for signature in getattr(rule.document, "signatures", ())
    }


def growth(book: Rulebook, shown: dict[tuple[str, str], str]) -> list[tuple[float, str, float]]:
    """Return (ratio, signature, seconds at the largest size), the steepest first.

    The ratio is the time of the largest line over that of one half as long: 2 is linear.
    """
    rows = []
    for signature in book.signatures:
        reader = SignatureReader(signature)
        head = shown[signature.rule, signature.name].replace("\n", " ")
        lines = [((head + " ") * (size // len(head) + 1))[:size] for size in SIZES]
        seconds = [best(partial(reader.read, line), 3) for line in lines]
        ratio = seconds[-1] / seconds[-2] if seconds[-2] > 1e-4 else 1.0
        rows.append((ratio, f"{signature.rule}#{signature.name}", seconds[-1]))
    return sorted(rows, reverse=True)


def main() -> None:
    """Print the figures."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RULES
    nowhere = folder / "no-artifact.json"
    book = read_rulebook(folder, nowhere)
    artifact = encode_artifact(book, "sha256:0")
    print(f"rules      {len(book.signatures)} signatures, {len(book.symptoms)} symptoms, "
          f"{len(book.causes)} causes, {len(book.metrics)} metrics")  # fmt: skip
    print(f"artifact   {len(artifact) / 1024:.0f} KiB")
    print(f"artifact   {best(lambda: decode_artifact(artifact)) * 1000:.1f} ms to load (bar 50)")
    print(f"yaml       {best(lambda: read_rulebook(folder, nowhere), 3):.2f} s to load (bar 1.5)")
    rows = growth(book, samples(folder))
    total = sum(row[2] for row in rows) * 1000
    print(f"hostile    {total:.0f} ms for all signatures on {SIZES[-1]} bytes each")
    print(f"growth     from {SIZES[-2]} to {SIZES[-1]} bytes (2 is linear), the steepest:")
    for ratio, name, seconds in rows[:SLOWEST]:
        print(f"           {ratio:.2f}  {seconds * 1000:.2f} ms  {name}")


if __name__ == "__main__":
    main()
