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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from engine.extract.blocks import MAX_LINE_CHARS
from engine.extract.demux import Demultiplexer, Identity
from engine.extract.frames import UNDATED, Frame, FrameReader, Shape, stamp_text
from engine.extract.recognise import Reading, SignatureReader
from engine.extract.scanner import Hits
from engine.extract.segment import Segment
from engine.extract.subject import (
    ENTITY_FIELDS,
    POINTERS,
    entity_of,
    flags_of,
    pointers_of,
    stream_of,
)
from engine.extract.tally import Entry, Key, Sighting, Tally, Unread
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


@dataclass(slots=True)
class _Writer:
    """Who writes the lines of one frame, and how his sightings are labelled."""

    identity: Identity
    entity: Entity
    stream: str
    pointers: dict[str, str]


class _Kind:
    """What a signature says with the same captures, whoever wrote the line."""

    __slots__ = (
        "fields",
        "flags",
        "names_entity",
        "reader",
        "reads_pointers",
        "signature",
        "symptom",
        "values",
    )

    def __init__(
        self,
        reader: SignatureReader,
        reading: Reading,
        label: StreamLabel,
        *,
        flags: tuple[str, ...],
    ) -> None:
        fields, signature = reading.fields, reader.signature
        self.reader = reader
        self.signature = signature
        self.symptom = reading.symptom
        self.fields = fields
        self.flags = (*flags, *flags_of(signature, label))
        self.names_entity = not ENTITY_FIELDS.isdisjoint(fields)
        self.values = tuple([fields.get(name, "") for name in signature.identity])
        self.reads_pointers = not POINTERS.isdisjoint(signature.identity)


class _Known:
    """One kind of hit by one writer, and the entry that counts it."""

    __slots__ = ("at", "entry", "kind", "writer")

    def __init__(self, kind: _Kind, writer: _Writer, at: "Express", entry: Entry | None) -> None:
        self.kind = kind
        self.writer = writer
        self.at = at
        self.entry = entry or at.tally.entry(self._key())

    def _key(self) -> Key:
        kind, writer = self.kind, self.writer
        values = kind.values
        if kind.reads_pointers and writer.pointers:
            fields = {**self.writer.pointers, **kind.fields}
            values = tuple([fields.get(name, "") for name in kind.signature.identity])
        return kind.signature.index, kind.symptom, writer.stream, self._entity(), values

    def _entity(self) -> Entity:
        if self.kind.names_entity:
            return entity_of(self.at.label, self.writer.identity, self.kind.fields)
        return self.writer.entity

    def sighting(self, item: Unread) -> Sighting:
        """Read a line that was put off."""
        kind = self.kind
        signature, text = kind.signature, item[1].decode()
        reading = None if kind.reader.captures_nothing else kind.reader.read(text)
        fields = kind.fields if reading is None else reading.fields
        if self.writer.pointers:
            fields = {**self.writer.pointers, **fields}
        return Sighting(
            signature.index, signature.rule, signature.name, kind.symptom, "match",
            self._entity(), fields, signature.identity, self.at.when(item),
            (item[4], item[2], item[5]), text, 1, kind.flags,
        )  # fmt: skip


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
        self._kinds: dict[tuple[object, ...], _Kind | None] = {}
        self._writers: dict[bytes, _Writer | None] = {}
        self._shapes: set[Shape] = set()
        self._forms: set[bytes] = set()
        self._known: dict[tuple[object, bytes], _Known] = {}
        self._serial = 0
        self._knows_all = True
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
            known = self._find(index, raw, frame, alone=alone) if frame is not None else None
            if known is None or frame is None:
                left.append((start, stop, index, end))
                self._before[start] = before
            elif known is not _NOTHING:
                line, offset, length = place = place or segment.locate(start, stop)
                _, shape, stamp = frame
                self._serial = serial = self._serial + 1
                known.entry.take(shape, (stamp, raw, offset, serial, line, length, known, shape))
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

    def _find(self, index: int, raw: bytes, frame: Frame, *, alone: bool) -> "_Known | None":
        """What counts a hit: None where it has to be read in full, `_NOTHING` where it is none."""
        plan = self._plans.get(index)
        if plan is None:
            plan = self._plans[index] = self._plan(index)
        reader, how, reads_blocks = plan
        said: tuple[object, ...]
        flags: tuple[str, ...] = ()
        if reads_blocks:
            if frame[1] is not UNDATED:
                return None
            # nothing round the line can be looked at any more: the header stands for its block
            if _HEADER in raw:
                if not alone or b"\\n" in raw:
                    return None
                flags = ("truncated",)
            elif reader.signature.rule in self._generic and not alone:
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
        known = self._known.get((said, frame[0]))
        if known is None:
            writer = self._writer(raw, frame)
            if writer is None:
                return None
            kind = self._kind(said, reader, raw, flags=flags)
            if kind is None:
                return _NOTHING
            if self._knows_all and self.tally.is_full(index):
                return _Known(kind, writer, self, self.tally.overflow(index, kind.symptom))
            known = self._learn((said, frame[0]), kind, writer)
        return known

    def _kind(
        self,
        said: tuple[object, ...],
        reader: SignatureReader,
        raw: bytes,
        *,
        flags: tuple[str, ...],
    ) -> _Kind | None:
        """What the captures come to; None where the signature does not hold with them."""
        if said not in self._kinds:
            if len(self._kinds) >= _MAX_KNOWN:
                self._kinds.clear()
            reading = reader.read(raw.decode())
            self._kinds[said] = (
                None if reading is None else _Kind(reader, reading, self.label, flags=flags)
            )
        return self._kinds[said]

    def _learn(self, key: tuple[object, bytes], kind: _Kind, writer: _Writer) -> _Known:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
            self._knows_all = False
        known = self._known[key] = _Known(kind, writer, self, None)
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

    def _writer(self, raw: bytes, frame: Frame) -> _Writer | None:
        """Who writes lines of this frame; None where the line is not as plain as it looks."""
        key = frame[0]
        if key not in self._writers:
            if len(self._writers) >= _MAX_WRITERS:
                self._writers.clear()
            self._writers[key] = self._read_writer(raw, frame)
        return self._writers[key]

    def _read_writer(self, raw: bytes, frame: Frame) -> _Writer | None:
        text = raw.decode()
        identity = self._demultiplexer.read(text)
        # frames that differ in digits alone are cut alike
        form = frame[0].translate(_DIGITS)
        if form not in self._forms:
            if not self._is_dated_by(text, identity.body, frame):
                return None
            if len(self._forms) < _MAX_SHAPES:
                self._forms.add(form)
        entity = entity_of(self.label, identity, {})
        return _Writer(
            identity, entity, stream_of(self.label, identity), pointers_of(identity, entity.node)
        )

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
        for kept in (self._known, self._kinds, self._writers):
            kept.clear()

    def catch_up(self, start: int) -> None:
        """Show the stamp reader the last line put off before `start`: it anchors times of day."""
        raw = self._before.get(start)
        if raw is not None and raw is not self._shown:
            self._shown = raw
            text = raw.decode()
            self.stamps.read(text, self._demultiplexer.read(text).body)


_NOTHING: Final = _Known.__new__(_Known)
"""For a hit that `extract` refuses."""
