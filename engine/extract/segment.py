"""A stream as line-aligned segments of some 256 KiB, and walking its lines both ways.

Segments are cut by content alone, so that the same stream gives the same segments however its
reads come. Three are held at a time: the one at work and its neighbours.
"""

import codecs
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import stringzilla

from engine.extract.decode import DecodedStream
from engine.extract.unwrap import Unwrapper

SEGMENT_BYTES: Final = 1 << 18
MAX_LINE_BYTES: Final = 1 << 20
TEXT_BYTES: Final = 8192  # of one line that walking, blocks and stamps look at

_UTF16: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_UTF8_MARK: Final = b"\xef\xbb\xbf"


class Segment:
    """`data[:end]` is what matching sees; the table maps its lines back where they differ."""

    __slots__ = (
        "_counted", "_number", "_origins", "_starts", "data", "end", "following", "hits", "line",
        "lines", "offset", "previous", "read_bytes",
    )  # fmt: skip

    def __init__(self, data: bytes, end: int, *, offset: int, line: int) -> None:
        self.data = data
        self.end = end
        self.offset = offset
        self.line = line
        self.lines = 0
        self.read_bytes = end
        self.hits: list[tuple[int, int]] = []
        self.previous: Segment | None = None
        self.following: Segment | None = None
        self._starts: list[int] | None = None
        self._origins: list[tuple[int, int, int]] = []
        self._counted = 0
        self._number = line

    def replace_text(
        self, data: bytes, starts: list[int], origins: list[tuple[int, int, int]]
    ) -> None:
        """Let matching see `data` instead, whose lines came from `origins`."""
        self.data = data
        self.end = len(data)
        self._starts = starts
        self._origins = origins

    def locate(self, start: int, end: int) -> tuple[int, int, int]:
        """Return (line number, byte offset, byte length) in the stream of the line at `start`."""
        if self._starts is not None:
            offset, length, number = self._origins[bisect_right(self._starts, start) - 1]
            return number, offset, length
        if start < self._counted:
            self._counted, self._number = 0, self.line
        if start - self._counted > 4096:
            part = memoryview(self.data)[self._counted : start]
            self._number += stringzilla.count(part, b"\n")
        else:
            self._number += self.data.count(b"\n", self._counted, start)
        self._counted = start
        return self._number, self.offset + start, end - start


class Line:
    """One logical line of a segment: its bounds there and its decoded text."""

    __slots__ = ("_text", "end", "segment", "start")

    def __init__(self, segment: Segment, start: int, end: int) -> None:
        self.segment = segment
        self.start = start
        self.end = end
        self._text: str | None = None

    @property
    def text(self) -> str:
        """The decoded line, its first 8 KiB."""
        if self._text is None:
            stop = min(self.end, self.start + TEXT_BYTES)
            self._text = decode_line(self.segment.data[self.start : stop])
        return self._text

    @property
    def place(self) -> tuple[int, int, int]:
        """(line number, byte offset, byte length) in the stream."""
        return self.segment.locate(self.start, self.end)

    @property
    def key(self) -> tuple[int, int]:
        """What tells this line from every other of the stream."""
        return self.segment.offset, self.start


def decode_line(data: bytes) -> str:
    """UTF-8, or Latin-1 where it is not: no byte of a line is ever lost."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text[:-1] if text.endswith("\r") else text


def line_at(segment: Segment, place: int) -> Line:
    """The line that holds position `place`."""
    start = segment.data.rfind(b"\n", 0, place) + 1
    end = segment.data.find(b"\n", place, segment.end)
    return Line(segment, start, segment.end if end < 0 else end)


def line_after(line: Line) -> Line | None:
    """The next line, in the following segment if need be."""
    segment: Segment | None = line.segment
    start = line.end + 1
    while segment is not None and start >= segment.end:
        segment, start = segment.following, 0
        if segment is not None and segment.end:
            break
    if segment is None:
        return None
    end = segment.data.find(b"\n", start, segment.end)
    return Line(segment, start, segment.end if end < 0 else end)


def line_before(line: Line) -> Line | None:
    """The line before, in the previous segment if need be."""
    if line.start > 0:
        return line_at(line.segment, line.start - 1)
    segment = line.segment.previous
    while segment is not None and segment.end == 0:
        segment = segment.previous
    if segment is None:
        return None
    closed = segment.data[segment.end - 1 : segment.end] == b"\n"
    return line_at(segment, segment.end - 1 if closed else segment.end)


def line_after_like(line: Line, lead: bytes, look_bytes: int) -> tuple[Line | None, int]:
    """The next line that starts with `lead`, at most `look_bytes` on, and the bytes searched."""
    segment: Segment | None = line.segment
    start, searched = line.end, 0
    while segment is not None and searched < look_bytes:
        if start < 0 and segment.data.startswith(lead):
            return line_at(segment, 0), searched + len(lead)
        start = max(start, 0)
        stop = min(segment.end, start + look_bytes - searched)
        found = segment.data.find(b"\n" + lead, start, stop)
        if found >= 0:
            return line_at(segment, found + 1), searched + found + 1 - start
        searched += max(stop - start, 1)
        if stop < segment.end:
            break
        segment, start = segment.following, -1
    return None, searched


def line_before_like(line: Line, lead: bytes, look_bytes: int) -> tuple[Line | None, int]:
    """The nearest line before that starts with `lead`; see `line_after_like`."""
    segment: Segment | None = line.segment
    end, searched = line.start, 0
    while segment is not None and searched < look_bytes:
        start = max(0, end - (look_bytes - searched))
        found = segment.data.rfind(b"\n" + lead, start, end)
        if found >= 0:
            return line_at(segment, found + 1), searched + end - found
        searched += max(end - start, 1)
        if start == 0 and end > 0 and segment.data.startswith(lead):
            return line_at(segment, 0), searched
        if start > 0:
            break
        segment = segment.previous
        end = segment.end if segment else 0
    return None, searched


class SegmentReader:
    """Cuts a decoded stream into segments; `truncated` says that the byte budget ended it."""

    def __init__(self, stream: DecodedStream, max_bytes: int | None) -> None:
        self._stream = stream
        self._left = max_bytes
        self.bytes = 0
        self.lines = 0
        self.truncated = False
        self._carry = b""
        self._ended = False
        self._transcoder: Transcoder | None = None

    def __iter__(self) -> Iterator[Segment]:
        offset, unwrapper = 0, None
        line = 1
        while (found := self._next()) is not None:
            data, cut = found
            if unwrapper is None:
                skip = self._skipped_mark
                unwrapper = self._make_unwrapper(data[:cut], skip)
                offset += skip
            last = self._ended and not self._carry
            segment = Segment(data, cut, offset=offset, line=line)
            segment.lines = stringzilla.count(memoryview(data)[:cut], b"\n")
            derived = unwrapper.derive(data, cut, offset=offset, first_line=line, last=last)
            if derived:
                segment.replace_text(*derived)
            offset += cut
            line += segment.lines
            self.lines = line - 1 + (not data.endswith(b"\n", 0, cut))
            yield segment

    _skipped_mark = 0

    def _make_unwrapper(self, head: bytes, skip: int) -> Unwrapper:
        encoding = self._transcoder.encoding if self._transcoder else None
        return Unwrapper(head, utf16=encoding, raw_offset=skip)

    def _next(self) -> tuple[bytes, int] | None:
        """The next bytes and where their last line ends; None at the end."""
        data = self._filled(SEGMENT_BYTES)
        if not data:
            return None
        cut = len(data) if self._ended else data.rfind(b"\n") + 1
        if cut == 0:
            self._carry = data
            data = self._filled(MAX_LINE_BYTES)
            cut = len(data) if self._ended else data.rfind(b"\n") + 1
            cut = cut or len(data)
        self._carry = data[cut:]
        if not self._carry and not self._ended:
            self._carry = self._read(1)  # tells whether this segment is the last one
        return data, cut

    def _filled(self, size: int) -> bytes:
        pieces = [self._carry]
        missing = size - len(self._carry)
        while missing > 0 and not self._ended:
            piece = self._read(missing)
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        self._carry = b""
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    def _read(self, size: int) -> bytes:
        at_start = self.bytes == 0
        piece = self._raw(size)
        if at_start and piece:
            piece = self._without_mark(piece, size)
        if self._transcoder and piece is not None:
            while True:
                text = self._transcoder.feed(piece, final=self._ended)
                if text or self._ended:
                    return text
                piece = self._raw(size)
        return piece

    def _raw(self, size: int) -> bytes:
        if self._left is not None and self._left <= 0:
            self.truncated = bool(self._stream.next_piece(1))
            self._ended = True
            return b""
        asked = size if self._left is None else min(size, self._left)
        piece = self._stream.next_piece(asked)
        if not piece:
            self._ended = True
        self.bytes += len(piece)
        if self._left is not None:
            self._left -= len(piece)
        return piece

    def _without_mark(self, piece: bytes, size: int) -> bytes:
        while len(piece) < 3 and (more := self._raw(size)):
            piece += more
        if piece.startswith(_UTF8_MARK):
            self._skipped_mark = 3
            return piece[3:] or self._raw(size)
        if encoding := _UTF16.get(piece[:2]):
            self._skipped_mark = 2
            self._transcoder = Transcoder(encoding)
            return piece[2:]
        return piece


class Transcoder:
    """UTF-16 to UTF-8, piece by piece."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def feed(self, data: bytes, *, final: bool) -> bytes:
        """Return what `data` completes, as UTF-8."""
        return self._decoder.decode(data, final).encode("utf-8", "replace")
