"""What a stream's silence means: first and last line, progress, gaps, per stream and per rank.

Every line of the head and of the tail is looked at, between them one line a megabyte, of long
streams one in four; a summary of more than that is flagged `sampled`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from engine.extract.demux import Identity
from engine.extract.segment import Line, Segment, line_after, line_at, line_before
from engine.extract.tally import Writer
from engine.extract.window import Window
from engine.model.observation import StreamSummary, When
from engine.model.stream import StreamLabel

HEAD_BYTES: Final = 64 << 10
TAIL_BYTES: Final = 64 << 10
TAIL_LIMIT_BYTES: Final = 256 << 10  # as far back as the tail goes for ranks not seen in it yet
MAX_RANKS: Final = 16_384
_EVERY: Final = 4  # segments
_LONG: Final = 256  # segments, 64 MiB: after these ...
_EVERY_OF_LONG: Final = 16  # ... one line in 4 MiB is looked at
_TEXT_CHARS: Final = 500

# step 123, iteration 2400/500000, [epoch: 0, iter: 800, Epoch [7][650/1487], global_step=5
_STEP: Final = re.compile(
    r"(?i)\b(?:global[_ ]?)?(?:step|iter|iteration|train_iter|update|num_updates)s?\b[\"']?"
    r"\s{0,4}[:=#\[]?\s{0,10}(\d{1,12})(?![\w(]|\.\d)"
)
_BRACKETS: Final = re.compile(r"(?i)\bepoch:? ?\[\d{1,6}\]\[(\d{1,9})/\d{1,9}\]")
_BAR: Final = re.compile(r"\| {0,8}(\d{1,12})/(\d{1,12}) \[\d")  # tqdm: | 18540/20000 [5:41:00<
_LOSS: Final = re.compile(r"^\s*\{['\"](?:\w+['\"]: [^,]{1,40}, ['\"]){0,4}loss['\"]: ")
_WORDS: Final = ("step", "iter", "poch", "|", "loss", "update")


@dataclass(slots=True)
class _Part:
    """What was seen of one rank's lines, or of the lines without a rank."""

    lines: int = 0
    bytes: int = 0
    first: When | None = None
    last: When | None = None
    last_text: str = ""
    first_step: int | None = None
    last_step: int | None = None
    step_when: When | None = None
    saw_progress: bool = False
    step_until: When | None = None  # the stamp below a step line that has none itself
    is_step_open: bool = False  # no stamp followed that line yet
    first_step_when: When | None = None  # only where the line has a stamp itself
    step_offset: int | None = None

    def note_progress(self, when: When | None) -> None:
        """Remember when the last step was seen, between two stamps where it carries none."""
        self.saw_progress = True
        self.step_when, self.step_until = when or self.last, None
        self.is_step_open = when is None


class Summariser:
    """Looks at lines in stream order and says at the end what they came to."""

    def __init__(self, label: StreamLabel, window: Window) -> None:
        self._label = label
        self._window = window
        self._parts: dict[int | None, _Part] = {}
        self._stamps: dict[str, list[int]] = {"": [], "boot": []}
        self._seen_to: tuple[int, int] = (-1, -1)
        self._sampled = False
        self._passed = 0

    def head(self, segment: Segment) -> None:
        """Look at the first lines of the stream."""
        stop = min(segment.end, HEAD_BYTES)
        line: Line | None = line_at(segment, 0) if segment.end else None
        while line is not None and line.segment is segment and line.start < stop:
            self._look(line, self._window.identity(line))
            line = line_after(line)

    def middle(self, segment: Segment) -> None:
        """Look at the last line of some segments; the stream's tail is still to come."""
        self._passed += 1
        self._sampled = True
        every = _EVERY if self._passed <= _LONG else _EVERY_OF_LONG
        if segment.end > 1 and self._passed % every == 1:
            line = line_at(segment, segment.end - 1 - segment.data.endswith(b"\n", 0, segment.end))
            if line.key > self._seen_to:
                self._look(line, self._window.identity(line))

    def tail(self, segment: Segment) -> None:
        """Look at the last lines of the stream: of every rank that the head showed, if possible."""
        closed = segment.data.endswith(b"\n", 0, segment.end)
        line: Line | None = line_at(segment, max(segment.end - 1 - closed, 0))
        wanted = set(self._parts)
        taken: list[tuple[Line, Identity]] = []
        size = 0
        while line is not None and line.key > self._seen_to and size < TAIL_LIMIT_BYTES:
            size += line.end - line.start + 1
            identity = self._window.identity(line)
            taken.append((line, identity))
            wanted.discard(identity.rank)
            if size > TAIL_BYTES and not wanted:
                break
            line = line_before(line)
        self._sampled = self._sampled or (line is not None and line.key > self._seen_to)
        for place, identity in reversed(taken):
            self._look(place, identity)

    def _look(self, line: Line, identity: Identity) -> None:
        self._seen_to = max(self._seen_to, line.key)
        text = line.text
        part = self._part(identity)
        part.lines += 1
        part.bytes += line.end - line.start + 1
        when = self._window.stamps.read(text, identity.body)
        if when is not None and when.earliest_us is not None:
            self._stamps["boot" if when.clock == "boot" else ""].append(when.earliest_us)
            part.first = part.first or when
            part.last = when
            if part.is_step_open:
                part.step_until, part.is_step_open = when, False
        if text.strip():
            part.last_text = text
        if any(word in text for word in _WORDS):
            self._progress(part, line, text[identity.body :], when=when)

    def _part(self, identity: Identity) -> _Part:
        rank = identity.rank
        if rank is not None and rank not in self._parts and len(self._parts) >= MAX_RANKS:
            rank = None
        return self._parts.setdefault(rank, _Part())

    def _progress(self, part: _Part, line: Line, text: str, *, when: When | None) -> None:
        match = _BAR.search(text) or _BRACKETS.search(text) or _STEP.search(text)
        if match is None and not _LOSS.search(text):
            return
        part.note_progress(when)
        part.step_offset = line.place[1]
        if match is None:
            return
        step = int(match[1])
        part.last_step = step
        if part.first_step is None:
            part.first_step, part.first_step_when = step, when

    def finish(
        self, writer: Writer, *, lines: int, size: int, truncated: bool
    ) -> list[StreamSummary]:
        """Return the stream's summary first, then one for each rank that its lines name."""
        flags = tuple(
            flag for flag, holds in (("sampled", self._sampled), ("truncated", truncated)) if holds
        )
        own = self._label.ranks[0] if len(self._label.ranks) == 1 else None
        named = sorted(rank for rank in self._parts if rank is not None)
        parts = [self._parts[rank] for rank in sorted(self._parts, key=lambda r: (r is None, r))]

        def build(
            stream: str, part: _Part, ranks: tuple[int, ...], gap: int | None
        ) -> StreamSummary:
            return StreamSummary(
                stream=stream,
                source=self._label.source,
                connector=writer.connector,
                trust=self._label.trust,
                node=self._label.nodes[0] if len(self._label.nodes) == 1 else "",
                ranks=ranks,
                lines=part.lines,
                bytes=part.bytes,
                first=writer.resolve(part.first or When()),
                last=writer.resolve(part.last or When()),
                last_text=writer.redact(part.last_text[:_TEXT_CHARS].rstrip()),
                first_step=part.first_step,
                last_step=part.last_step,
                last_step_when=_step_time(part, writer),
                largest_gap_us=gap,
                flags=flags,
                first_step_when=writer.resolve(part.first_step_when or When()),
                last_step_offset=part.step_offset,
            )  # fmt: skip

        whole = _together(parts)
        whole.lines, whole.bytes = lines, size
        offsets = [part.step_offset for part in parts if part.step_offset is not None]
        # between head and tail only some lines were looked at: a later step may have been missed
        is_sure = offsets and (not self._sampled or max(offsets) >= size - TAIL_BYTES)
        whole.step_offset = max(offsets) if is_sure else None
        ranks = tuple(self._label.ranks) or tuple(named)
        summaries = [build(self._label.uri, whole, ranks, self._largest_gap(whole.step_when))]
        if own is None or named not in ([], [own]):
            uri = self._label.uri
            summaries += [build(f"{uri}#rank={r}", self._parts[r], (r,), None) for r in named]
        return summaries

    def _largest_gap(self, last_step: When | None) -> int | None:
        """Up to the last step, where there was one: pauses that the job came back from."""
        until = None if last_step is None else last_step.earliest_us
        gaps = [
            _gap(sorted(us for us in stamps if until is None or us <= until))
            for stamps in self._stamps.values()
        ]
        return max((gap for gap in gaps if gap is not None), default=None)


def _gap(stamps: list[int]) -> int | None:
    return max((b - a for a, b in pairwise(stamps)), default=None)


def _together(parts: Iterable[_Part]) -> _Part:
    """All parts as one; nothing of it depends on how their lines were interleaved."""
    whole = _Part()
    parts = list(parts)
    if len(parts) == 1:
        return _copy(parts[0])
    firsts = [part.first for part in parts if part.first]
    lasts = [part.last for part in parts if part.last]
    whole.first = min(firsts, key=_begins, default=None)
    whole.last = max(lasts, key=_begins, default=None)
    whole.last_text = max(
        parts, key=lambda part: (_begins(part.last or When()), part.last_text), default=whole
    ).last_text
    starts = [(part.first_step, part) for part in parts if part.first_step is not None]
    if starts:
        whole.first_step = min(step for step, _ in starts)
        begun = [part.first_step_when or When() for _, part in starts]
        whole.first_step_when = min(begun, key=_begins)
    moved = [part for part in parts if part.saw_progress]
    if moved:
        latest = max(
            moved, key=lambda part: (_begins(part.step_when or When()), part.last_step or -1)
        )
        whole.last_step, whole.step_when = latest.last_step, latest.step_when
        whole.step_until = latest.step_until
        whole.is_step_open = any(part.is_step_open for part in moved)
        if whole.is_step_open:
            whole.step_until = None
    return whole


def _step_time(part: _Part, writer: Writer) -> When:
    """A step line without a stamp lies between the stamps round it; how far, none knows."""
    since = writer.resolve(part.step_when or When())
    if part.is_step_open or part.step_until is not None:
        until = writer.resolve(part.step_until or When())
        return When(since.earliest_us, until.latest_us, "neighbour", since.clock)
    return since


def _copy(part: _Part) -> _Part:
    return _Part(
        part.lines, part.bytes, part.first, part.last, part.last_text, part.first_step,
        part.last_step, part.step_when, part.saw_progress, part.step_until, part.is_step_open,
        part.first_step_when, part.step_offset,
    )  # fmt: skip


def _begins(when: When) -> tuple[int, int]:
    return (
        -1 if when.earliest_us is None else when.earliest_us,
        -1 if when.latest_us is None else when.latest_us,
    )
