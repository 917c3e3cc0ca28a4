"""One file read in order through several requests at a time, in bounded memory."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from connectors.protocol import TransientError
from engine.model.stream import StreamLabel

_TRIES: Final = 3

FetchRange = Callable[[int, int], bytes]
"""Bytes from an offset; up to the given length, fewer only at the end of the file."""


@dataclass(slots=True)
class RangedStream:
    """The first `size` bytes of a file: what it held when it was listed.

    Never more than `parallel` pieces of `piece_bytes` are held. A piece that fails for a passing
    reason is asked for again. `on_end` hears how many bytes came in all.
    """

    label: StreamLabel
    fetch: FetchRange
    size: int
    piece_bytes: int
    parallel: int
    pause: Callable[[float], None]
    on_end: Callable[[int], None] = lambda count: None
    _pool: ThreadPoolExecutor | None = None
    _ahead: deque[tuple[int, Future[bytes]]] = field(default_factory=deque)
    _asked: int = 0
    _given: int = 0
    _piece: memoryview = field(default_factory=lambda: memoryview(b""))
    _ended: bool = False

    def begin(self) -> None:
        """Fetch the first piece, so that what cannot be opened is told before it is read."""
        self._piece = memoryview(self._next())

    def read(self, size: int, /) -> bytes:
        """Return up to `size` stored bytes, empty at the end; raises `TransientError`."""
        if not self._piece and not self._ended:
            self._piece = memoryview(self._next())
            if not self._piece:
                self._end()
        part = bytes(self._piece[:size])
        self._piece = self._piece[len(part) :]
        self._given += len(part)
        return part

    def close(self) -> None:
        """Stop what is still on its way."""
        self._end()
        self._piece = memoryview(b"")

    def _next(self) -> bytes:
        while self._asked < self.size and len(self._ahead) < max(1, self.parallel):
            length = min(self.piece_bytes, self.size - self._asked)
            self._ahead.append((length, self._submit(self._asked, length)))
            self._asked += length
        if not self._ahead:
            return b""
        length, piece = self._ahead.popleft()
        body = piece.result()
        if len(body) < length:
            # It shrank (copytruncate): what is behind this place belongs to another content.
            self._drop()
            self._asked = self.size
        return body

    def _submit(self, start: int, length: int) -> Future[bytes]:
        if self.parallel == 1 or self.size <= self.piece_bytes:
            done: Future[bytes] = Future()
            done.set_result(self._patiently(start, length))
            return done
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.parallel, thread_name_prefix="ranges")
        return self._pool.submit(self._patiently, start, length)

    def _patiently(self, start: int, length: int) -> bytes:
        for number in range(1, _TRIES):
            try:
                return self.fetch(start, length)
            except TransientError as error:
                self.pause(getattr(error, "retry_after_s", None) or 0.5 * number)
        return self.fetch(start, length)

    def _drop(self) -> None:
        for _, each in self._ahead:
            each.cancel()
        self._ahead.clear()

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        self._drop()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        self.on_end(self._given)
