"""An item's capsules: excerpts of its streams, stored beside what it collected.

They outlive the observations (`CapsuleDays`) and the logs themselves, so that later rules have
something to read. Nothing else names them: the key follows from attempt, collection and item.
"""

import json
from collections.abc import Iterable
from typing import Final

import msgspec
from backports import zstd

from connectors.protocol import ConnectorError, TransientError
from engine.extract.capsule import CapsuleStream
from engine.extract.keeping import STREAM_BYTES
from engine.model.canonical import canonical_json
from engine.model.plan import Report
from functions.adapters.object_store import ObjectConflictError, ObjectStore
from functions.collect.receipt import LEVEL, OBSERVATIONS_TYPE

ATTEMPT_BYTES: Final = 64 << 20
"""Of all items of a collection, before compression."""
ITEM_BYTES: Final = 8 << 20
_UNKNOWN: Final = 8
"""An item that does not say how many streams it has spends an eighth of what is left on each."""
_SUMMARY_BYTES: Final = 500
_INFLATED_BYTES: Final = 256 << 20
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(CapsuleStream)


def item_bytes(items: int) -> int:
    """Return what one of so many items of a plan may keep."""
    return min(ITEM_BYTES, max(STREAM_BYTES, ATTEMPT_BYTES // max(items, 1)))


class CapsulePacker:
    """Packs the capsules of an item as its streams are read, within `budget` bytes of text."""

    def __init__(self, budget: int, streams: int) -> None:
        self._left = budget
        self._expected = streams
        self._taken = 0
        self._compressor = zstd.ZstdCompressor(level=LEVEL)
        self._pieces: list[bytes] = []

    def share(self) -> int:
        """Return what the next stream may keep."""
        ahead = self._expected - self._taken if self._expected else _UNKNOWN
        return min(STREAM_BYTES, self._left // max(ahead, 1))

    def take(self, stream: CapsuleStream | None) -> None:
        """Add a stream's capsule, None where it has none."""
        self._taken += 1
        if stream is not None:
            self._left -= min(stream.size, self._left)
            ranks = len(stream.summaries) * _SUMMARY_BYTES
            if ranks > self._left:
                # Of each rank of a huge merged log; the first is the stream's own.
                stream = msgspec.structs.replace(
                    stream, summaries=stream.summaries[:1], is_whole=False
                )
                ranks = 0
            self._left -= ranks
            self._pieces.append(self._compressor.compress(_encoded(stream) + b"\n"))

    def body(self, report: Report) -> bytes:
        """Return the object to store, empty where no stream was kept; `report` is the last line."""
        if not self._pieces:
            return b""
        self._pieces.append(
            self._compressor.compress(canonical_json(report.model_dump(mode="json")))
        )
        return b"".join([*self._pieces, self._compressor.flush()])


def _encoded(stream: CapsuleStream) -> bytes:
    """Return a capsule as one line of JSON; halves of characters, as in `"\\ud800"`, become `?`."""
    try:
        return _encoder.encode(stream)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(stream), ensure_ascii=False)
        return text.encode("utf-8", "replace")


def read_capsules(body: bytes) -> tuple[list[CapsuleStream], Report]:
    """Return the streams and the item's report; raises `ValueError` where they cannot be read."""
    decompressor = zstd.ZstdDecompressor()
    try:
        text = decompressor.decompress(body, max_length=_INFLATED_BYTES)
        *lines, last = text.split(b"\n")
        streams = [_decoder.decode(line) for line in lines]
    except (zstd.ZstdError, EOFError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error
    if not decompressor.eof:
        raise ValueError("truncated, or larger than capsules can be")
    return streams, Report.model_validate_json(last)


def store_capsules(store: ObjectStore, key: str, body: bytes, *, is_patient: bool) -> str | None:
    """Write capsules once; the first writer stands. Returns why they could not be stored.

    A verdict does not wait for them: only where the workflow tries an item again anyway,
    `is_patient`, a busy store raises `TransientError`.
    """
    try:
        store.put_once(key, body, content_type=OBSERVATIONS_TYPE)
    except ObjectConflictError:
        return None
    except ConnectorError as error:
        if is_patient and isinstance(error, TransientError):
            raise
        return f"no capsules were stored: {error}"
    return None


def kept_lines(streams: Iterable[CapsuleStream]) -> tuple[int, int]:
    """Return how many lines of streams that are not whole are kept, and of how many.

    Pieces of one line, which is as long as a binary file's or a progress bar's, are one line.
    """
    cut = [each for each in streams if not each.is_whole]
    return sum(_lines_of(each) for each in cut), sum(each.lines for each in cut)


def _lines_of(stream: CapsuleStream) -> int:
    numbers = {number for run in stream.runs for number, *_ in run}
    return min(len(numbers) + len(stream.facts), stream.lines)
