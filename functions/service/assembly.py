"""Chunks of a stream put together: any order, any number of times, gaps and contradictions told.

Pure but for reading ranges where two chunks overlap. The result depends on the set of chunks
alone: they are taken by offset, then the longest, then by content.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from engine.model.canonical import short_id
from engine.model.workload import EvidenceSource

COMPARED_BYTES: Final = 16 * 1024**2
"""Of one overlap; more is a caller that sends everything again at odd offsets."""
_PIECE: Final = 1 << 20


@dataclass(slots=True, frozen=True)
class Chunk:
    """Some bytes of a stream; `stream` describes it and `stream.path` names it."""

    chunk_id: str
    stream: EvidenceSource
    offset: int
    size: int
    sha256: str

    @property
    def end(self) -> int:
        """Where in the stream the bytes end."""
        return self.offset + self.size


@dataclass(slots=True, frozen=True)
class Piece:
    """A stretch of one chunk."""

    chunk: Chunk
    start: int
    size: int


@dataclass(slots=True)
class Run:
    """Bytes of a stream without a gap, from `start` of the stream on."""

    uri: str
    stream: EvidenceSource
    start: int
    pieces: list[Piece] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many bytes the run holds."""
        return sum(piece.size for piece in self.pieces)

    @property
    def end(self) -> int:
        """Where in the stream the run ends."""
        return self.start + self.size


@dataclass(slots=True, frozen=True)
class SetAside:
    """A chunk that is not read, and why."""

    chunk_id: str
    reason: str


@dataclass(slots=True)
class Assembled:
    """Every run in the order of its name, and the chunks that none holds."""

    runs: list[Run] = field(default_factory=list)
    set_aside: list[SetAside] = field(default_factory=list)


ReadRange = Callable[[Chunk, int, int], bytes]
"""Returns `size` bytes of a chunk from `start` of the chunk on."""


def assemble(chunks: Iterable[Chunk], read_range: ReadRange) -> Assembled:
    """Put chunks together to runs."""
    streams: dict[str, dict[str, list[Chunk]]] = {}
    for chunk in chunks:
        described = streams.setdefault(chunk.stream.path, {})
        described.setdefault(chunk.stream.model_dump_json(), []).append(chunk)
    assembled = Assembled()
    for path in sorted(streams):
        for description in sorted(streams[path]):
            uri = path
            if len(streams[path]) > 1:
                uri = f"{path}~{short_id('d', description)[2:]}"
            runs = _stream(streams[path][description], uri, read_range, assembled.set_aside)
            if len(streams[path]) > 1:
                told = f"described in {len(streams[path])} ways, read as so many streams"
                runs[0].troubles.append(told)
            assembled.runs += runs
    assembled.set_aside.sort(key=lambda each: (each.chunk_id, each.reason))
    return assembled


def _stream(
    chunks: list[Chunk], uri: str, read_range: ReadRange, set_aside: list[SetAside]
) -> list[Run]:
    runs: list[Run] = []
    for chunk in sorted(chunks, key=lambda each: (each.offset, -each.size, each.sha256)):
        run = runs[-1] if runs else None
        if run is None or chunk.offset > run.end:
            gap = chunk.offset - (run.end if run else 0)
            started = Run(
                uri if not gap else f"{uri}#bytes={chunk.offset}-", chunk.stream, chunk.offset
            )
            if gap:
                started.troubles.append(f"{gap} bytes before byte {chunk.offset} did not come")
            started.pieces.append(Piece(chunk, 0, chunk.size))
            runs.append(started)
            continue
        overlap = min(run.end, chunk.end) - chunk.offset
        reason = _contradiction(run, chunk, overlap, read_range)
        if reason:
            set_aside.append(SetAside(chunk.chunk_id, reason))
            run.troubles.append(f"chunk {chunk.chunk_id} {reason}")
        elif chunk.end > run.end:
            run.pieces.append(Piece(chunk, overlap, chunk.size - overlap))
    return runs


def _contradiction(run: Run, chunk: Chunk, overlap: int, read_range: ReadRange) -> str:
    """Return why a chunk cannot be joined to what came before it, "" where it can."""
    if overlap > COMPARED_BYTES:
        return f"repeats {overlap} bytes at another offset, too many to compare"
    done = 0
    while done < overlap:
        size = min(_PIECE, overlap - done)
        place = chunk.offset + done
        held = _held(run, place, size, read_range)
        if held != read_range(chunk, done, len(held)):
            return f"contradicts what another chunk says of bytes {chunk.offset} and after"
        done += len(held)
    return ""


def _held(run: Run, place: int, size: int, read_range: ReadRange) -> bytes:
    """Return up to `size` bytes of a run from `place` of the stream on, of one piece of it."""
    at = run.start
    for piece in run.pieces:
        if at <= place < at + piece.size:
            inside = place - at
            return read_range(piece.chunk, piece.start + inside, min(size, piece.size - inside))
        at += piece.size
    raise ValueError(f"{run.uri}: byte {place} is in no piece")
