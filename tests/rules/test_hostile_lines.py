"""Every signature's reading of long lines made to hurt it ends soon, whatever the line."""

import time
from collections.abc import Iterator
from pathlib import Path

from engine.extract.recognise import LONG_LINE_BYTES, SignatureReader
from engine.rulebook.load import LoadedRule, load_rules
from engine.rulebook.shipped import load_shipped

RULES = Path(__file__).parents[2] / "rules"
# Measured: the slowest shipped signature takes 0.15 s on such a line on a busy machine.
MAX_SECONDS = 1.0
FILLINGS = (
    "0123456789",
    "aaaaaaaaaa",
    "a b c d e ",
    "[x] [x] [x] ",
    "a=b, c=d, ",
    ":0:0:0:0:0",
    " ",
)


def _hostile_lines(sample: str) -> Iterator[str]:
    """A line's beginnings, over and over, or filled up to the longest text that is read."""
    line = sample.replace("\n", " ")
    for eighths in (3, 6, 8):
        head = line[: len(line) * eighths // 8] or line
        yield (head + " ") * (LONG_LINE_BYTES // (len(head) + 1))
        for filling in FILLINGS:
            yield (head + filling * LONG_LINE_BYTES)[:LONG_LINE_BYTES]


def _samples(rules: list[LoadedRule]) -> dict[tuple[str, str], str]:
    return {
        (rule.document.id, signature.name): signature.samples[0]
        for rule in rules
        for signature in getattr(rule.document, "signatures", ())
    }


def test_no_signature_takes_long_on_a_hostile_line() -> None:
    samples = _samples(load_rules(RULES))
    slow: list[tuple[str, str, str]] = []
    for signature in load_shipped(RULES).signatures:
        reader = SignatureReader(signature)
        for line in _hostile_lines(samples[signature.rule, signature.name]):
            started = time.process_time()
            reader.read(line)
            if time.process_time() - started > MAX_SECONDS:
                slow.append((signature.rule, signature.name, line[:60]))
                break
    assert slow == []


def test_twice_the_line_takes_about_twice_the_time() -> None:
    """A quadratic expression among them would show as four times."""
    samples = _samples(load_rules(RULES))
    seconds = dict.fromkeys((LONG_LINE_BYTES // 2, LONG_LINE_BYTES), 0.0)
    for signature in load_shipped(RULES).signatures:
        reader = SignatureReader(signature)
        head = samples[signature.rule, signature.name].replace("\n", " ") + " "
        for size in seconds:
            line = (head * (size // len(head) + 1))[:size]
            started = time.process_time()
            reader.read(line)
            seconds[size] += time.process_time() - started
    half, whole = seconds.values()
    assert whole < 3 * half
