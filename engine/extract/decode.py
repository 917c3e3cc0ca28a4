"""Stored bytes to log bytes: gzip, zstd or plain, told apart by magic bytes, never by name.

Memory stays bounded whatever the input: at most one output piece is held. A truncated stream
keeps what it held; both are said in `warnings`.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from backports.zstd import ZstdDecompressor, ZstdError
from isal import isal_zlib

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE: Final = bytes(range(0x50, 0x60))  # first byte of 0x184D2A5? little endian
PIECE_BYTES: Final = 1 << 18
INPUT_BYTES: Final = 1 << 16

_GZIP_ERROR: Final[Any] = isal_zlib.error

Read = Callable[[int], bytes]


class _Codec(Protocol):
    """What one compressed member or frame needs of a decompressor object."""

    def feed(self, data: bytes, limit: int) -> bytes: ...
    def starving(self) -> bool: ...
    def finished(self) -> bool: ...
    def rest(self) -> bytes: ...


class _GzipMember:
    def __init__(self) -> None:
        self._object: Any = isal_zlib.decompressobj(wbits=31)
        self._tail = b""

    def feed(self, data: bytes, limit: int) -> bytes:
        piece: bytes = self._object.decompress(self._tail + data, limit)
        self._tail = self._object.unconsumed_tail
        return piece

    def starving(self) -> bool:
        return not self._tail

    def finished(self) -> bool:
        return bool(self._object.eof)

    def rest(self) -> bytes:
        return self._object.unused_data or b""


class _ZstdFrame:
    def __init__(self) -> None:
        self._object = ZstdDecompressor()

    def feed(self, data: bytes, limit: int) -> bytes:
        return self._object.decompress(data, limit)

    def starving(self) -> bool:
        return self._object.needs_input

    def finished(self) -> bool:
        return self._object.eof

    def rest(self) -> bytes:
        return self._object.unused_data


class DecodedStream:
    """Decompressed bytes of a stored stream, piece by piece, in order.

    `read` asks the source in pieces of any size; the bytes that come out do not depend on how
    the source cuts them. `compressed_bytes` counts what was read.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._input = b""
        self._ended = False
        self._codec: _Codec | None = None
        self._kind = ""
        self._members = 0
        self.compressed_bytes = 0
        self.warnings: list[str] = []
        self.damaged = False

    def next_piece(self, limit: int = PIECE_BYTES) -> bytes:
        """Return the next decompressed bytes, at most `limit`; empty at the end."""
        if not self._kind:
            self._detect()
        if self._kind == "plain":
            return self._take_input(limit) or self._pull(limit)
        while True:
            piece, over = self._step(limit)
            if piece or over:
                return piece

    def _detect(self) -> None:
        while len(self._input) < 4 and self._fill():
            pass
        if self._input.startswith(GZIP_MAGIC):
            self._kind = "gzip"
        elif self._input.startswith(ZSTD_MAGIC):
            self._kind = "zstd"
        else:
            self._kind = "plain"

    def _pull(self, size: int) -> bytes:
        if self._ended:
            return b""
        data = self._read(size)
        self.compressed_bytes += len(data)
        self._ended = not data
        return data

    def _fill(self) -> bool:
        data = self._pull(INPUT_BYTES)
        self._input += data
        return bool(data)

    def _take_input(self, limit: int) -> bytes:
        data, self._input = self._input[:limit], self._input[limit:]
        return data

    def _step(self, limit: int) -> tuple[bytes, bool]:
        """One decompression call: a piece, and whether the stream is over."""
        if self._codec is None and not self._open_member():
            return b"", True
        codec = self._codec
        if codec is None:
            return b"", True
        data = b""
        if codec.starving():
            while len(self._input) < INPUT_BYTES and self._fill():
                pass  # equal pieces, so that damage costs the same however the source cuts
            if not self._input:
                self._damage(f"{self._kind} data end early; what came before the cut was kept")
                return b"", True
            data = self._take_input(INPUT_BYTES)
        try:
            piece = codec.feed(data, limit)
        except (_GZIP_ERROR, ZstdError, EOFError, ValueError) as error:
            self._damage(f"{self._kind} data are damaged ({error}); the rest was not read")
            self._ended = True
            return b"", True
        if codec.finished():
            self._input = codec.rest() + self._input
            self._members += 1
            self._codec = None
        return piece, False

    def _open_member(self) -> bool:
        """Start the next member or frame; padding and garbage after the last one end the data."""
        while True:
            if self._members:
                self._input = self._input.lstrip(b"\0")
            if len(self._input) >= 4 or not self._fill():
                break
        if not self._input:
            return False
        if self._input.startswith(GZIP_MAGIC) and self._kind == "gzip":
            self._codec = _GzipMember()
        elif self._kind == "zstd" and self._is_zstd_frame():
            self._codec = _ZstdFrame()
        else:
            self.warnings.append(f"bytes after the {self._kind} data were ignored")
            self._ended = True
            self._input = b""
            return False
        return True

    def _is_zstd_frame(self) -> bool:
        head = self._input[:4]
        return head == ZSTD_MAGIC or (head[:1] in ZSTD_SKIPPABLE and head[1:] == b"\x2a\x4d\x18")

    def _damage(self, what: str) -> None:
        self.damaged = True
        self.warnings.append(what)


def read_whole(stream: DecodedStream, limit: int) -> tuple[bytes, bool]:
    """Return up to `limit` decompressed bytes and whether more was left."""
    pieces: list[bytes] = []
    size = 0
    while piece := stream.next_piece():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces)[:limit], True
    return b"".join(pieces), False
