r"""Physical lines to the text that matching sees, with a map back to the bytes they came from.

Terminal colours may sit inside the very text that a signature looks for, a progress bar hides a
megabyte behind bare ``\r``, and log shippers wrap each line in JSON. Streams without any of that
(nearly all bytes) pass through untouched; see `Unwrapper.derive`.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

import stringzilla

from engine.extract.envelope import JournalExport, read_json_line

_SPECIAL: Final = b"\x1b\r\0"
_HEAD_LINES: Final = 60
_MAX_PIECES: Final = 4096  # of one physical line split at bare CR

# CSI and OSC sequences (ECMA-48); then the forms that syslog and terminals write for ESC itself.
_COLOUR: Final = re.compile(
    rb"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]"
    rb"|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)?"
    rb"|\x1b[@-Z\\^_=>()]"
    rb"|[\x1b\0]"
)
_BARE_COLOUR: Final = re.compile(rb"(?:#033|\^\[|\xe2\x90\x9b|\xef\xbf\xbd)?\[[0-9;]{0,20}m")

Derived = tuple[bytes, list[int], list[tuple[int, int, int]]]


class Unwrapper:
    """Decides from a stream's head how its lines are wrapped, then unwraps segment by segment."""

    def __init__(self, head: bytes, *, utf16: str | None = None, raw_offset: int = 0) -> None:
        lines = [line for line in head.split(b"\n", _HEAD_LINES)[:_HEAD_LINES] if line.strip()]
        self._json = _mostly(lines, lambda line: bool(read_json_line(line)))
        self._journal = JournalExport() if JournalExport.fits(lines) else None
        self._bare_colour = b"\x1b" not in head and bool(
            re.search(rb"(?:#033|\^\[|\xe2\x90\x9b|\xef\xbf\xbd)?\[[0-9;]{1,20}m", head)
            and b"[0m" in head
        )
        self._utf16 = utf16
        self._raw = raw_offset

    def derive(
        self, data: bytes, end: int, *, offset: int, first_line: int, last: bool
    ) -> Derived | None:
        """Return the text to match with its line starts and (offset, length, line) of each.

        None where `data[:end]` can be matched as it is. `last` says that the stream ends here.
        """
        wrapped = self._json or self._journal or self._bare_colour or self._utf16
        if not wrapped and stringzilla.find_first_of(memoryview(data)[:end], _SPECIAL) < 0:
            return None
        out: list[bytes] = []
        starts: list[int] = []
        origins: list[tuple[int, int, int]] = []
        place = 0
        for text, origin in self._pieces(data[:end], offset, first_line, last):
            starts.append(place)
            origins.append(origin)
            out.append(text)
            place += len(text) + 1
        if not out:
            out, starts, origins = [b""], [0], [(offset, 0, first_line)]
        return b"\n".join(out) + b"\n", starts, origins

    def _pieces(
        self, data: bytes, offset: int, line_number: int, last: bool
    ) -> Iterator[tuple[bytes, tuple[int, int, int]]]:
        lines = data.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        for number, line in enumerate(lines, start=line_number):
            length = len(line)
            if self._utf16:
                offset = self._raw
                text = line.decode("utf-8", "replace")
                length = len(text.encode("utf-16-le", "surrogatepass"))
                self._raw += length + 2
            if self._journal:
                yield from self._journal.feed(line, (offset, length, number))
            else:
                yield from self._split(line, (offset, length, number))
            offset += length + 1
        if self._journal and last:
            yield from self._journal.finish()

    def _split(
        self, line: bytes, origin: tuple[int, int, int]
    ) -> Iterator[tuple[bytes, tuple[int, int, int]]]:
        unwrapped = read_json_line(line) if self._json else None
        if unwrapped:
            for text in unwrapped:
                yield self._plain(text), origin
            return
        body = line.rstrip(b"\r")
        if b"\r" not in body or self._utf16:
            yield self._plain(body.replace(b"\r", b" ")), origin
            return
        place = 0
        for count, part in enumerate(body.split(b"\r", _MAX_PIECES)):
            text = self._plain(part.replace(b"\r", b" "))
            if text.strip() or not count:
                yield text, (origin[0] + place, len(part), origin[2])
            place += len(part) + 1

    def _plain(self, text: bytes) -> bytes:
        if b"\0" in text:  # of its own: a hole in a sparse file is a gigabyte of them
            text = text.translate(None, b"\0")
        if b"\x1b" in text:
            text = _COLOUR.sub(b"", text)
        if self._bare_colour and b"[" in text:
            text = _BARE_COLOUR.sub(b"", text)
        return text


def _mostly(lines: list[bytes], fits: Callable[[bytes], bool]) -> bool:
    """Whether four fifths of the first lines fit: a few foreign lines are normal."""
    if not lines:
        return False
    return sum(1 for line in lines if fits(line)) * 5 >= len(lines) * 4
