"""The short way for a storm: hits of a kind that was seen before are counted, not read again.

A log of one million equal errors needs the first, the last and a few of them in full; of the
others only what decides their fold key: the identity fields and who wrote the line. Who wrote it
follows from the bytes before and behind the stamp, so it is read once for each such frame. Lines
are put off with their stamp, and read when the stream's end shows that they are to be kept.

Only plain cases go this way: signatures without a block, ASCII lines that start with a dated
stamp (behind a rank or NCCL prefix perhaps). The rest is read in full by `SegmentScan`, and both
ways come to the same observations.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from engine.extract.blocks import MAX_LINE_CHARS
from engine.extract.demux import Demultiplexer
from engine.extract.frames import UNDATED, Frame, FrameReader, Shape, stamp_text
from engine.extract.kinds import Kind, Known, Late, Speaker
from engine.extract.recognise import Reading, SignatureReader
from engine.extract.scanner import Hits
from engine.extract.segment import Segment
from engine.extract.subject import entity_of, pointers_of, stream_of
from engine.extract.tally import Entry, Tally, Unread
from engine.extract.traceback import HEADER
from engine.extract.window import Window
from engine.model.observation import Entity, When
from engine.model.stream import StreamLabel

if TYPE_CHECKING:
    from engine.extract.session import ExtractContext

_MAX_KNOWN: Final = 65_536
_MAX_WRITERS: Final = 32_768
_MAX_SHAPES: Final = 4096
_HEADER: Final = HEADER.encode()
_DIGITS: Final = bytes.maketrans(b"123456789", b"000000000")

Left = list[tuple[int, int, int, int]]  # line start, line end, signature, end of the match


class Express:
    """Counts the plain hits of a stream; what it leaves has to be read in full."""

    def __init__(
        self,
        label: StreamLabel,
        context: "ExtractContext",
        window: Window,
        demultiplexer: Demultiplexer,
        *,
        tally: Tally,
        generic: frozenset[str],
        is_in_block: Callable[[Segment, int], bool],
    ) -> None:
        self.label = label
        self.stamps = window.stamps
        self._window = window
        self._is_in_block = is_in_block
        self.tally = tally
        self._scanner = context.scanner
        self._generic = generic
        self._demultiplexer = demultiplexer
        self._frames = FrameReader(label, has_srun=demultiplexer.has_srun)
        # Without an attempt's window a bare time of day may lie on any day that the stream names,
        # so there every line is read.
        has_window = context.workload.start is not None or context.workload.end is not None
        self._is_open = has_window and not demultiplexer.has_hosts
        self._plans: dict[int, tuple[SignatureReader, str, bool]] = {}
        self._kinds: dict[tuple[object, ...], Kind | None] = {}
        self._writers: dict[bytes, Speaker | None] = {}
        self._numbers: dict[tuple[str, Entity], int] = {}
        self._shapes: set[Shape] = set()
        self._forms: set[bytes] = set()
        self._known: dict[tuple[object, int], Known] = {}
        self._serial = self._next = 0
        self._knows_all = True
        self._overflows: dict[int, Entry] = {}
        self._last: bytes | None = None
        self._shown: bytes | None = None
        self._before: dict[int, bytes | None] = {}

    def take(self, segment: Segment) -> Left:
        """Count the plain hits of a segment; return the others, each signature once a line."""
        data, limit = segment.data, segment.end
        left: Left = []
        start, stop = 0, -1
        seen: list[int] = []
        frame: Frame | None = None
        raw = b""
        before: bytes | None = None
        place: tuple[int, int, int] | None = None
        alone = False
        hits = segment.hits
        self._before = {}
        for number, (end, index) in enumerate(hits):
            if end > stop:
                start = data.rfind(b"\n", 0, end) + 1
                stop = data.find(b"\n", end, limit)
                if stop < 0:
                    stop = limit
                seen = [index]
                raw = data[start:stop]
                before = self._last
                frame = self._frame(raw)
                place = None
                if frame is not None and frame[1] is UNDATED:
                    if self._is_in_block(segment, start):
                        frame = None
                    alone = self._is_alone(hits, number, stop)
            elif index in seen:
                continue
            else:
                seen.append(index)
            found = self._find(index, raw, frame, alone=alone) if frame is not None else None
            if found is None or frame is None:
                left.append((start, stop, index, end))
                self._before[start] = before
            elif found is not _NOTHING:
                known, writer = found
                line, offset, length = place = place or segment.locate(start, stop)
                _, shape, stamp = frame
                self._serial = serial = self._serial + 1
                known.entry.take(
                    shape, (stamp, raw, offset, serial, line, length, known, shape, writer.pointers)
                )
        return left

    def _is_alone(self, hits: Hits, number: int, stop: int) -> bool:
        """Whether no signature of another than the generic rules hits the line."""
        while number < len(hits) and hits[number][0] <= stop:
            if self._scanner.reader(hits[number][1]).signature.rule not in self._generic:
                return False
            number += 1
        return True

    def _frame(self, raw: bytes) -> Frame | None:
        """The frame of a line that is plain and dated as it looks; else None."""
        if not raw.isascii() or len(raw) > MAX_LINE_CHARS or not self._is_open or raw[-1:] == b"\r":
            return None
        frame = self._frames.read(raw)
        if frame is None and self._window.is_spent:
            return self._frames.read_undated(raw)
        if frame is None or (frame[1] not in self._shapes and not self._check(raw, frame)):
            return None
        self._last = raw
        return frame

    def _find(
        self, index: int, raw: bytes, frame: Frame, *, alone: bool
    ) -> "tuple[Known | Late, Speaker] | None":
        """What counts a hit: None where it has to be read in full, `_NOTHING` where it is none."""
        plan = self._plans.get(index)
        if plan is None:
            plan = self._plans[index] = self._plan(index)
        reader, how, reads_blocks = plan
        said: tuple[object, ...]
        reading: Reading | None = None
        flags: tuple[str, ...] = ()
        if reads_blocks:
            if frame[1] is not UNDATED:
                return None
            # nothing round the line can be looked at any more: the header stands for its block
            if _HEADER in raw:
                if not alone or b"\\n" in raw:
                    return None
                flags = ("truncated",)
            elif reader.signature.gives_way or (
                reader.signature.rule in self._generic and not alone
            ):
                return None
        if how == "constant":
            said = (index, flags)
        elif how == "groups":
            decisive = reader.decisive(raw.decode())
            if decisive is None:
                return _NOTHING
            said = (index, flags, decisive)
        elif how == "text":
            reading = reader.read(raw.decode())
            if reading is None:
                return _NOTHING
            decisive = tuple([reading.fields.get(name) for name in reader.decisive_names])
            said = (index, flags, reading.symptom, decisive)
        else:
            return None
        writer = self._writer(raw, frame)
        if writer is None:
            return None
        key = said, writer.number
        known = self._known.get(key)
        if known is None:
            is_full = self._knows_all and self.tally.is_full(index)
            if is_full and how != "text" and reader.says_one_thing:
                entry = self._overflows.get(index)
                if entry is None:
                    symptom = reader.signature.symptom
                    entry = self._overflows[index] = self.tally.overflow(index, symptom)
                return Late(entry, reader, flags, writer, self), writer
            kind = self._kind(said, reader, reading or raw, flags=flags)
            if kind is None:
                return _NOTHING
            if kind.reads_pointers and writer.pointers:
                # what tells these hits apart is not in the key
                return Known(kind, writer, self, in_full=False), writer
            if is_full:
                return Known(kind, writer, self, in_full=True), writer
            known = self._learn(key, kind, writer)
        return known, writer

    def _kind(
        self,
        said: tuple[object, ...],
        reader: SignatureReader,
        line: bytes | Reading,
        *,
        flags: tuple[str, ...],
    ) -> Kind | None:
        """What the captures come to; None where the signature does not hold with them."""
        if said not in self._kinds:
            if len(self._kinds) >= _MAX_KNOWN:
                self._kinds.clear()
            reading = reader.read(line.decode()) if isinstance(line, bytes) else line
            self._kinds[said] = (
                None
                if reading is None
                else Kind(reader, reading, self.label, flags=flags, serial=self._serial + 1)
            )
        return self._kinds[said]

    def _learn(self, key: tuple[object, int], kind: Kind, writer: Speaker) -> Known:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._knows_all = False
        known = self._known[key] = Known(kind, writer, self, in_full=False)
        return known

    def when(self, item: Unread) -> When:
        """The time of a line that was put off."""
        stamp, shape = item[0], item[7]
        if shape is UNDATED:
            return self.stamps.attempt
        return self.stamps.read(stamp_text(shape, stamp)) or self.stamps.attempt

    def _plan(self, index: int) -> tuple[SignatureReader, str, bool]:
        """How a signature is read here: its symptom and fields from its groups, or from the text.

        Where it captures nothing and the automaton decides as `extract` does, a hit says all.
        """
        reader = self._scanner.reader(index)
        signature = reader.signature
        reads_blocks = signature.block is not None
        if signature.block not in (None, "python_traceback") or reader.looks_at_block:
            return reader, "in full", False
        if not reader.reads_groups_alone:
            return reader, "text", reads_blocks
        if reader.captures_nothing and self._scanner.decides(index, self.label.source):
            return reader, "constant", reads_blocks
        return reader, "groups", reads_blocks

    def _writer(self, raw: bytes, frame: Frame) -> Speaker | None:
        """Who writes lines of this frame; None where the line is not as plain as it looks."""
        key = frame[0]
        if key not in self._writers:
            if len(self._writers) >= _MAX_WRITERS:
                self._writers.clear()
            self._writers[key] = self._read_writer(raw, frame)
        return self._writers[key]

    def _read_writer(self, raw: bytes, frame: Frame) -> Speaker | None:
        text = raw.decode()
        identity = self._demultiplexer.read(text)
        # frames that differ in digits alone are cut alike
        form = frame[0].translate(_DIGITS)
        if form not in self._forms:
            if not self._is_dated_by(text, identity.body, frame):
                return None
            if len(self._forms) < _MAX_SHAPES:
                self._forms.add(form)
        entity, stream = entity_of(self.label, identity, {}), stream_of(self.label, identity)
        if len(self._numbers) >= _MAX_WRITERS:
            self._numbers.clear()
            self._knows_all = False
        self._next += 1
        number = self._numbers.setdefault((stream, entity), self._next)
        return Speaker(identity, entity, stream, pointers_of(identity, entity.node), number)

    def _check(self, raw: bytes, frame: Frame) -> bool:
        """Whether stamps of this date are read as the frame cuts them out."""
        if len(self._shapes) >= _MAX_SHAPES:
            self._shapes.clear()
        text = raw.decode()
        if self._is_dated_by(text, self._demultiplexer.read(text).body, frame):
            self._shapes.add(frame[1])
            return True
        return False

    def _is_dated_by(self, text: str, body: int, frame: Frame) -> bool:
        whole = self.stamps.read(text, body)
        if frame[1] is UNDATED:
            return whole is None
        return whole is not None and whole == self.stamps.read(stamp_text(frame[1], frame[2]))

    def close(self) -> None:
        """Show the stamp reader how far the lines put off reach; nothing is counted after this."""
        for shape, clocks in self.tally.spans().items():
            for clock in clocks if shape is not UNDATED else ():
                self.stamps.read(stamp_text(shape, clock))
        for kept in (self._known, self._kinds, self._writers, self._numbers, self._overflows):
            kept.clear()

    def catch_up(self, start: int) -> None:
        """Show the stamp reader the last line put off before `start`: it anchors times of day."""
        raw = self._before.get(start)
        if raw is not None and raw is not self._shown:
            self._shown = raw
            text = raw.decode()
            self.stamps.read(text, self._demultiplexer.read(text).body)


_NOTHING: Final = (Known.__new__(Known), Speaker.__new__(Speaker))
"""For a hit that `extract` refuses."""
