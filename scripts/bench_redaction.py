"""What redaction costs of a scan: the same log with the redactor and with one that does nothing."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from engine.extract.redact import Redactor
from engine.extract.session import ExtractContext, extract_stream
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source
from engine.model.workload import Workload
from functions.adapters.rulebook import shipped_rulebook, shipped_scanner

ROUNDS = 5
FAULTS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. token=abc",
    "[rank3]: RuntimeError: NCCL error: unhandled system error https://u:pw@host/x",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
)


class Silent(Redactor):
    """Masks nothing."""

    def text(self, text: str) -> str:
        """Return the text as it is."""
        return text


def shares(path: Path, source: Source) -> dict[str, Any]:
    """Return CPU seconds with and without masking, of a quiet log and one with many faults."""
    lines = path.read_bytes().splitlines()
    quiet = b"\n".join(lines) + b"\n"
    loud = []
    for number, line in enumerate(lines):
        loud.append(line)
        if number % 200 == 0:
            stamp = line.split(b" ", 1)[0]
            fault = FAULTS[number // 200 % len(FAULTS)].replace("79", str(number % 150))
            loud.append(stamp + b" " + fault.encode())
    rows = {}
    for name, data in (("quiet", quiet), ("loud", b"\n".join(loud) + b"\n")):
        with_it, without = [], []
        for _ in range(ROUNDS):
            without.append(scan(data, source, Silent()))
            with_it.append(scan(data, source, Redactor()))
        rows[name] = {"with_s": median(with_it), "without_s": median(without)}
    return rows


def scan(data: bytes, source: Source, redactor: Redactor) -> float:
    """Return the CPU seconds of one scan."""
    book = shipped_rulebook()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    job = Workload(scheduler="none", job_id="bench", start=start, end=start + timedelta(hours=6))
    context = ExtractContext(
        book=book, scanner=shipped_scanner(), workload=job, connector="bench",
        extraction_digest=book.extraction_digest, redactor=redactor,
    )  # fmt: skip
    view = memoryview(data)
    place = 0

    def read(size: int) -> bytes:
        nonlocal place
        part = bytes(view[place : place + size])
        place += len(part)
        return part

    begun = time.process_time()
    extract_stream(read, StreamLabel("log", source, "node"), context)
    return time.process_time() - begun
