"""Entries of a log store as one stream of bytes, fetched while they are read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from connectors.protocol import BudgetSpentError, ConnectorError, TransientError
from engine.model.stream import StreamLabel


@dataclass(slots=True)
class EntryStream:
    """A stream of entries as bytes; it ends early where the budget or the server does."""

    label: StreamLabel
    lines: Iterator[bytes]
    on_cut: Callable[[ConnectorError], None]
    _held: bytearray = field(default_factory=bytearray)

    def begin(self) -> bool:
        """Fetch the first page; False where there is no entry."""
        first = next(self.lines, b"")
        self._held += first
        return bool(first)

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end."""
        while len(self._held) < size:
            try:
                line = next(self.lines, None)
            except (BudgetSpentError, TransientError) as error:
                # What came so far is evidence; what is missing is told and can be gone on with.
                self.on_cut(error)
                self.lines = iter(())
                line = None
            if line is None:
                break
            self._held += line
        part = bytes(self._held[:size])
        del self._held[:size]
        return part

    def close(self) -> None:
        """Forget what was not read."""
        self.lines = iter(())
        self._held.clear()
