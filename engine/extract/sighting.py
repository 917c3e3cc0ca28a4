"""Segments to sightings: scan, confirm, take blocks and claims into account, count."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import stringzilla

from engine.extract.blocks import MAX_LINE_CHARS, Block, assemble, joined
from engine.extract.demux import Demultiplexer, Identity
from engine.extract.elastic import Failure
from engine.extract.express import Express
from engine.extract.fold import fold
from engine.extract.recognise import Reading, SignatureReader, reading_window
from engine.extract.segment import Line, Segment, decode_line, line_at
from engine.extract.stamps import StampReader
from engine.extract.subject import entity_of, flags_of, pointers_of, stream_of
from engine.extract.summary import Summariser
from engine.extract.tally import Sighting, Tally, Writer
from engine.extract.traceback import HEADER
from engine.extract.window import Window
from engine.model.observation import Observation, StreamSummary, When
from engine.model.stream import StreamLabel

if TYPE_CHECKING:
    from engine.extract.session import ExtractContext

_GSP_HISTORY: Final = b"RPC history (CPU -> GSP)"
_HEAD_CHARS: Final = 65_536
_MUTE_ROLES: Final = frozenset({"noise", "marker", "teardown"})  # these claim no traceback
_TIMED_OUT_TEXT: Final = 1500
_REMEMBERED: Final = 4096  # readings of short lines: floods repeat them
_REMEMBERED_BYTES: Final = 512

HitLines = dict[int, list[tuple[int, int]]]  # line start -> (signature, end of match)


class SegmentScan:
    """The scan of one stream, segment by segment, with one segment of look-ahead."""

    def __init__(self, label: StreamLabel, context: "ExtractContext") -> None:
        self._label = label
        self._context = context
        self._scanner = context.scanner
        self._stamps = StampReader(label, context.workload)
        self._tally = Tally(label)
        demultiplexer = Demultiplexer(label, "")
        self._window = Window(demultiplexer, self._stamps)
        self._summariser = Summariser(label, self._window)
        self._hit_lines: dict[int, HitLines] = {}
        self._seen_blocks: dict[tuple[int, int], set[tuple[object, ...]]] = {}
        self._blocks: dict[tuple[str, tuple[int, int]], Block | None] = {}
        self._readings: dict[tuple[int, str], Reading | None] = {}
        self._has_reports = label.source in self._scanner.report_sources
        self._generic = self._scanner.generic
        self._express = self._expressway(demultiplexer)

    def _expressway(self, demultiplexer: Demultiplexer) -> Express:
        return Express(
            self._label, self._context, self._window, demultiplexer,
            tally=self._tally, generic=self._generic, is_in_block=self._is_in_block,
        )  # fmt: skip

    def run(self, segments: Iterator[Segment]) -> None:
        """Scan all segments; three are held at a time."""
        current: Segment | None = None
        for segment in segments:
            if current is None:
                self._begin(segment)
            segment.hits = self._scanner.scan(segment.data, segment.end, self._label.source)
            if current is not None:
                current.following, segment.previous = segment, current
                self._process(current)
                if current.previous is not None:
                    self._summariser.middle(current.previous)
                    self._release(current.previous)
                    current.previous = None
            current = segment
        if current is not None:
            self._process(current)
            self._summariser.tail(current)

    def _is_in_block(self, segment: Segment, start: int) -> bool:
        return ("python_traceback", (segment.offset, start)) in self._blocks

    def _begin(self, segment: Segment) -> None:
        head = decode_line(segment.data[: min(segment.end, _HEAD_CHARS)])
        demultiplexer = Demultiplexer(self._label, head)
        self._window = Window(demultiplexer, self._stamps)
        self._express = self._expressway(demultiplexer)
        self._summariser = Summariser(self._label, self._window)
        self._summariser.head(segment)

    def finish(
        self, lines: int, size: int, *, truncated: bool
    ) -> tuple[list[Observation], list[StreamSummary], list[str]]:
        """Return what was found, with times as far as the whole stream allows."""
        self._express.close()
        warnings = [*self._stamps.settle(), *self._scanner.problems]
        context = self._context
        writer = Writer(
            context.connector, context.extraction_digest, context.redactor.text,
            self._stamps.resolve,
        )  # fmt: skip
        observations = self._tally.finish(writer)
        summaries = self._summariser.finish(writer, lines=lines, size=size, truncated=truncated)
        return fold(observations), summaries, warnings

    def _release(self, segment: Segment) -> None:
        self._hit_lines.pop(segment.offset, None)
        self._blocks = {
            key: block for key, block in self._blocks.items() if key[1][0] > segment.offset
        }
        self._seen_blocks = {
            key: seen for key, seen in self._seen_blocks.items() if key[0] >= segment.offset
        }

    def _lines_of(self, segment: Segment) -> HitLines:
        """The lines of a segment that the automaton named, each signature once a line."""
        found = self._hit_lines.get(segment.offset)
        if found is not None:
            return found
        found = self._hit_lines[segment.offset] = {}
        data, limit, stop, start = segment.data, segment.end, -1, 0
        for end, index in segment.hits:
            if end > stop:
                start = data.rfind(b"\n", 0, end) + 1
                stop = data.find(b"\n", end, limit)
                stop = limit if stop < 0 else stop
            listed = found.setdefault(start, [])
            if all(index != other for other, _ in listed):
                listed.append((index, end))
        return found

    def _learn_boot_time(self, segment: Segment) -> None:
        """Read the driver's GSP history for what it says of the boot time."""
        place = stringzilla.find(memoryview(segment.data)[: segment.end], _GSP_HISTORY)
        if place >= 0:
            header = line_at(segment, place)
            for line, _ in self._window.forward(header, self._window.identity(header), lines=4):
                self._stamps.learn_gsp(line.text)

    def _process(self, segment: Segment) -> None:
        if self._stamps.wants_boot_time:
            self._learn_boot_time(segment)
        left = self._express.take(segment) if segment.hits else []
        for start, grouped in groupby(left, key=itemgetter(0)):
            hits = [(index, end, stop) for _, stop, index, end in grouped]
            self._express.catch_up(start)
            line = Line(segment, start, hits[0][2])
            identity: Identity | None = None
            for index, end, _ in sorted(hits):
                reader = self._scanner.reader(index)
                reading, text = self._read(reader, line, end)
                if reading is None:
                    continue
                identity = identity or self._window.identity(line)
                self._see(reader, reading, (line, identity, text))

    def _read(self, reader: SignatureReader, line: Line, end: int) -> tuple[Reading | None, str]:
        start, stop = reading_window(line.start, line.end, end)
        if stop - start <= _REMEMBERED_BYTES:
            key = reader.signature.index, line.text
            if key not in self._readings:
                if len(self._readings) >= _REMEMBERED:
                    self._readings.clear()
                self._readings[key] = reader.read(line.text)
            return self._readings[key], line.text
        if start == line.start and stop == line.end:
            return reader.read(line.text), line.text
        text = decode_line(line.segment.data[start:stop])
        return reader.read(text), text

    def _see(
        self, reader: SignatureReader, reading: Reading, at: tuple[Line, Identity, str]
    ) -> None:
        line, identity, text = at
        kind = reader.signature.block
        block = self._block(kind, line) if kind else None
        if kind == "python_traceback" and self._is_swallowed(line, identity):
            return
        if not self._holds_in_block(reader, line):
            return
        if reader.signature.gives_way and self._is_read_otherwise(line, reader):
            return
        if (
            reader.signature.rule in self._generic
            and HEADER not in line.text
            and (block is not None or self._is_read_otherwise(line, reader))
        ):
            return
        if block is None:
            place = line.place
            self._count(reader, reading, identity, text=_excerpt(text, reading.start),
                        when=self._window.when(line, identity), place=place)  # fmt: skip
            return
        if block.is_ignored:
            return
        failures = _failures_told(block, line)
        seen = self._seen_blocks.setdefault(block.key, set())
        mark = (reader.signature.index, reading.symptom, *(each.lines[0].key for each in failures))
        if mark in seen and kind in ("python_traceback", "elastic_report", "oom_report"):
            return
        seen.add(mark)
        if kind == "python_traceback" and HEADER in line.text and self._is_claimed(block, reader):
            return
        if failures:
            for failure in failures:
                self._see_failure(reader, reading, identity, failure)
            return
        fields = {**block.fields, **reading.fields}
        own = self._stamps.read(line.text, identity.body)
        self._count(
            reader,
            replace(reading, fields=fields),
            identity,
            text=block.text,
            when=own or self._when_of(block, line, identity),
            place=block.place,
            lines=len(block.lines),
            flags=block.flags,
        )

    def _is_swallowed(self, line: Line, identity: Identity) -> bool:
        """Whether the line tells of an exception that the interpreter dropped on its way out."""
        above = next(self._window.backward(line, identity, lines=1), None)
        return above is not None and above[1].lstrip().startswith("Exception ignored ")

    def _when_of(self, block: Block, line: Line, identity: Identity) -> When:
        for item in block.lines:
            body = self._window.identity(item).body
            when = self._stamps.read(item.text, body)
            if when is not None:
                return when
        return self._window.between(line, identity)

    def _see_failure(
        self, reader: SignatureReader, reading: Reading, identity: Identity, failure: Failure
    ) -> None:
        lines = failure.lines
        number, offset, _ = lines[0].place
        _, last_offset, last_length = lines[-1].place
        when = self._stamps.read(failure.time) if failure.time else None
        self._count(
            reader,
            replace(reading, fields={**reading.fields, **failure.fields}),
            identity,
            text=joined([item.text for item in lines]),
            when=when or self._window.when(lines[0], identity),
            place=(number, offset, last_offset + last_length - offset),
            lines=len(lines),
        )

    def _block(self, kind: str, line: Line) -> Block | None:
        key = (kind, line.key)
        if key not in self._blocks:
            block = assemble(kind, self._window, line)
            self._blocks[key] = block
            if block is not None and kind == "python_traceback":
                for item in block.claimable:
                    self._blocks.setdefault((kind, item.key), block)
        return self._blocks[key]

    def _is_claimed(self, block: Block, generic: SignatureReader) -> bool:
        """Whether a more specific signature holds on a line of the block."""
        if block.ends_in_report and self._has_reports:
            return True
        return any(self._is_read_otherwise(line, generic) for line in block.claimable)

    def _is_read_otherwise(self, line: Line, broad: SignatureReader) -> bool:
        """Whether a signature of another rule, and no broader one, says something on this line."""
        own = broad.signature
        symptoms = self._context.book.symptoms
        for index, end in self._lines_of(line.segment).get(line.start, ()):
            reader = self._scanner.reader(index)
            other = reader.signature
            if other.rule == own.rule or other.rule in self._generic:
                continue
            if own.gives_way and other.gives_way:
                continue
            reading, _ = self._read(reader, line, end)
            if reading is None:
                continue
            meaning = symptoms.get(reading.symptom)
            is_mute = meaning is not None and meaning.role in _MUTE_ROLES
            if not is_mute and self._holds_in_block(reader, line):
                return True
        return False

    def _holds_in_block(self, reader: SignatureReader, line: Line) -> bool:
        if not reader.looks_at_block:
            return True
        kind = reader.signature.block
        block = self._block(kind, line) if kind else None
        return reader.holds_in([item.text for item in block.lines] if block else [])

    def _count(
        self,
        reader: SignatureReader,
        reading: Reading,
        identity: Identity,
        *,
        text: str,
        when: When,
        place: tuple[int, int, int],
        lines: int = 1,
        flags: tuple[str, ...] = (),
    ) -> None:
        signature = reader.signature
        fields = reading.fields
        entity = entity_of(self._label, identity, fields)
        fields = {**pointers_of(identity, entity.node), **fields}
        flags = (*flags, *flags_of(signature, self._label))
        stream = stream_of(self._label, identity)
        self._tally.add(
            Sighting(
                signature=signature.index,
                rule=signature.rule,
                name=signature.name,
                symptom=reading.symptom,
                kind="block" if signature.block and lines > 1 else "match",
                entity=entity,
                fields=fields,
                identity=signature.identity,
                when=when,
                place=place,
                text=text,
                lines=lines,
                flags=flags,
            ),
            stream,
        )


def _failures_told(block: Block, line: Line) -> list[Failure]:
    """The rows of a failure table that a hit speaks of: its own row, or all from the heading."""
    own = [each for each in block.failures if any(item.key == line.key for item in each.lines)]
    return own or block.failures


def _excerpt(text: str, start: int) -> str:
    """The part of a line to keep: its start, or round the match where that is far behind it."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    if start < _TIMED_OUT_TEXT:
        return text[:MAX_LINE_CHARS]
    begin = start - 500
    return text[begin : begin + MAX_LINE_CHARS]
