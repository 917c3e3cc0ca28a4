"""What is kept of a stream for rules that do not exist yet: redacted lines, each where it was.

A capsule holds the stream's head and tail, the lines round the first hits of each signature, and
lines that look like errors and that no signature hit. Of a structured source it holds the facts
and the lines that no reader consumed. A stream that fits is kept whole. What is kept follows from
the bytes of the stream alone, never from how its reads came.

Only some of a long stream is searched for words of trouble (its first MiB and its last half): all
of it would take a third of the whole pass (`bytes.find` reads some 0.5 GB/s for these words).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import stringzilla

from engine.extract.capsule import LINE_COST, KeptLine, Redact
from engine.extract.segment import Segment

STREAM_BYTES: Final = 256 << 10
"""Of one stream at most, before compression; a line costs its text and `LINE_COST`."""
MIN_BYTES: Final = 4 << 10
"""A stream that would get less is not kept at all."""
LINE_CHARS: Final = 4096
_READ_BYTES: Final = 2 * LINE_CHARS  # read of a line, so that no secret is cut before it is masked
_SECRET_CHARS: Final = 512  # and so much is dropped where the line itself was cut
_OPENING: Final = 4  # segments at the start that are searched for words of trouble
_HITS: Final = 8  # of one signature
_AROUND: Final = 3  # lines before and after a signature's first hit
_BEHIND: Final = 2  # lines after a line that looks like an error
_FORMS: Final = 4096  # errors that differ in digits alone are one form
_LIKE: Final = 2  # lines of one form
_LOOKS: Final = 128  # lines with one word that are looked at in one segment
_FORM_BYTES: Final = 160
_DIGITS: Final = b"0123456789"
_TROUBLE: Final = (
    b"error", b"fail", b"fatal", b"exception", b"panic", b"abort", b"critical", b"crash",
    b"corrupt", b"killed", b"refused", b"timed out",
)  # fmt: skip


@dataclass(slots=True)
class _Purse:
    """Bytes that one kind of line may take."""

    left: int

    def pay(self, cost: int) -> bool:
        """Whether there is enough; what is paid is gone."""
        if cost > self.left:
            return False
        self.left -= cost
        return True


@dataclass(slots=True, frozen=True)
class _Kept:
    """A line as it was cut out of a segment; `end` is where it ended there."""

    end: int
    place: tuple[int, int, int]
    raw: bytes


@dataclass(slots=True)
class _Seen:
    """A segment in hand, with its number."""

    number: int
    segment: Segment


@dataclass(slots=True, frozen=True)
class Excerpt:
    """What a capsule keeps of a stream's text."""

    runs: tuple[tuple[KeptLine, ...], ...] = ()
    is_whole: bool = True


@dataclass(slots=True)
class _Forms:
    """How often each form of an error-like line was kept."""

    counts: dict[bytes, int] = field(default_factory=dict)

    def wants(self, form: bytes) -> bool:
        """Whether a line of this form is still wanted."""
        count = self.counts.get(form, 0)
        return count < _LIKE and (count > 0 or len(self.counts) < _FORMS)

    def note(self, form: bytes) -> None:
        """Count a line that was kept."""
        self.counts[form] = self.counts.get(form, 0) + 1


class CapsuleMaker:
    """Watches a stream's segments go by and keeps some of their lines."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._head = _Purse(budget // 8)
        self._first_hits = _Purse(budget // 8)
        self._more_hits = _Purse(budget // 8)
        self._early, self._late = _Purse(budget // 8), _Purse(budget // 8)
        self._used = 0
        self._forms = _Forms()
        self._hits: dict[int, int] = {}
        self._lines: dict[tuple[int, int], _Kept] = {}
        self._chosen: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._recent: list[_Seen] = []
        self._count = 0
        self._is_whole = True

    def watch(self, segments: Iterator[Segment]) -> Iterator[Segment]:
        """Yield the segments; each is looked at once whoever takes them has filled its hits."""
        for segment in segments:
            yield segment
            if self._recent:
                self._look(self._recent[-1])
            self._recent = [*self._recent[-1:], _Seen(self._count, segment)]
            self._count += 1

    def finish(self, redact: Redact) -> Excerpt:
        """Return what is kept, redacted; the segments are let go."""
        recent, self._recent = self._recent, []
        if self._count == 1 and self._fits(recent[0]):
            for start, end in _lines_of(recent[0].segment, 0):
                self._put(recent[0], start, end)
        elif recent:
            self._look(recent[-1])
            for seen in recent:
                self._search(seen, self._late)
                self._cut_out(seen)
            self._keep_tail(recent)
            self._is_whole = False
        return Excerpt(tuple(self._runs(redact)), self._is_whole)

    def _fits(self, seen: _Seen) -> bool:
        segment = seen.segment
        size = segment.end + LINE_COST * (segment.data.count(b"\n", 0, segment.end) + 1)
        return size <= self._budget

    def _look(self, seen: _Seen) -> None:
        """Keep head, hits and, near the stream's start, errors of a segment."""
        if self._head.left > 0:
            for start, end in _lines_of(seen.segment, 0):
                if not self._keep(seen, (start, end), self._head):
                    self._head.left = 0
                    break
        self._keep_hits(seen)
        if seen.number < _OPENING:
            self._search(seen, self._early)
        self._cut_out(seen)

    def _keep_hits(self, seen: _Seen) -> None:
        counts = self._hits
        for end, index in seen.segment.hits:
            count = counts.get(index, 0)
            if count >= _HITS:
                continue
            counts[index] = count + 1
            line = _line_at(seen.segment, end)
            if count:
                self._keep(seen, line, self._more_hits)
            else:
                for each in _around(seen.segment, line, before=_AROUND, behind=_AROUND):
                    self._keep(seen, each, self._first_hits)

    def _search(self, seen: _Seen, purse: _Purse) -> None:
        """Keep lines that look like errors and that no signature hit."""
        segment = seen.segment
        low = segment.data[: segment.end].lower()
        view = memoryview(low)
        hit = {_line_at(segment, end)[0] for end, _ in segment.hits}
        looked: set[int] = set()
        for word in _TROUBLE:
            place = stringzilla.find(view, word)
            for _ in range(_LOOKS):
                if place < 0:
                    break
                start, end = _line_at(segment, place)
                if start not in looked:
                    looked.add(start)
                    if start not in hit:
                        self._keep_trouble(seen, low, (start, end), purse)
                found = stringzilla.find(view[end:], word)
                place = found if found < 0 else end + found

    def _keep_trouble(self, seen: _Seen, low: bytes, line: tuple[int, int], purse: _Purse) -> None:
        start, end = line
        form = low[start : min(end, start + _FORM_BYTES)].translate(None, _DIGITS)
        if not self._is_kept(seen, start) and self._forms.wants(form):
            if self._keep(seen, line, purse):
                self._forms.note(form)
            for each in _around(seen.segment, line, before=0, behind=_BEHIND)[1:]:
                self._keep(seen, each, purse)

    def _keep_tail(self, recent: list[_Seen]) -> None:
        purse = _Purse(self._budget - self._used)
        for seen in reversed(recent):
            is_paid = all(self._keep(seen, line, purse) for line in _lines_back(seen.segment))
            self._cut_out(seen)
            if not is_paid:
                return

    def _keep(self, seen: _Seen, line: tuple[int, int], purse: _Purse) -> bool:
        """Keep a line unless it is kept already; False where the purse does not reach."""
        start, end = line
        if self._is_kept(seen, start):
            return True
        cost = min(end - start, LINE_CHARS) + LINE_COST
        if not purse.pay(cost):
            return False
        self._used += cost
        self._chosen[start] = end
        return True

    def _is_kept(self, seen: _Seen, start: int) -> bool:
        return start in self._chosen or (seen.number, start) in self._lines

    def _cut_out(self, seen: _Seen) -> None:
        """Cut the chosen lines out of a segment, in its order: counting lines goes one way."""
        chosen, self._chosen = self._chosen, {}
        for start in sorted(chosen):
            self._put(seen, start, chosen[start])

    def _put(self, seen: _Seen, start: int, end: int) -> None:
        segment = seen.segment
        raw = bytes(segment.data[start : min(end, start + _READ_BYTES)])
        self._is_whole = self._is_whole and end - start <= LINE_CHARS
        self._lines[seen.number, start] = _Kept(end, segment.locate(start, end), raw)
        self._ends[seen.number] = segment.end

    def _runs(self, redact: Redact) -> Iterator[tuple[KeptLine, ...]]:
        run: list[_Kept] = []
        last: tuple[int, int] | None = None
        for key in sorted(self._lines):
            if last is not None and not self._follows(last, key):
                yield _written(run, redact)
                run = []
            run.append(self._lines[key])
            last = key
        if run:
            yield _written(run, redact)
        self._lines = {}

    def _follows(self, last: tuple[int, int], key: tuple[int, int]) -> bool:
        end = self._lines[last].end + 1
        if last[0] == key[0]:
            return end == key[1]
        return last[0] + 1 == key[0] and key[1] == 0 and end >= self._ends[last[0]]


def _written(run: list[_Kept], redact: Redact) -> tuple[KeptLine, ...]:
    texts = redact([_text(each.raw) for each in run])
    return tuple(
        (*each.place, _shortened(text, is_cut=len(each.raw) == _READ_BYTES))
        for each, text in zip(run, texts, strict=True)
    )


def _text(raw: bytes) -> str:
    """As `decode_line`, of a line that may be cut inside a character."""
    for back in range(4 if len(raw) == _READ_BYTES else 1):
        try:
            text = raw[: len(raw) - back].decode()
        except UnicodeDecodeError:
            continue
        break
    else:
        text = raw.decode("latin-1")
    return text[:-1] if text.endswith("\r") else text


def _shortened(text: str, *, is_cut: bool) -> str:
    return text[: min(LINE_CHARS, len(text) - _SECRET_CHARS)] if is_cut else text[:LINE_CHARS]


def _lines_of(segment: Segment, start: int) -> Iterator[tuple[int, int]]:
    data, limit = segment.data, segment.end
    while start < limit:
        end = data.find(b"\n", start, limit)
        end = limit if end < 0 else end
        yield start, end
        start = end + 1


def _lines_back(segment: Segment) -> Iterator[tuple[int, int]]:
    data, end = segment.data, segment.end
    if data.endswith(b"\n", 0, end):
        end -= 1
    while end >= 0:
        start = data.rfind(b"\n", 0, end) + 1
        yield start, end
        end = start - 1


def _line_at(segment: Segment, place: int) -> tuple[int, int]:
    start = segment.data.rfind(b"\n", 0, place) + 1
    end = segment.data.find(b"\n", place, segment.end)
    return start, segment.end if end < 0 else end


def _around(
    segment: Segment, line: tuple[int, int], *, before: int, behind: int
) -> list[tuple[int, int]]:
    """The line first, then its neighbours in the same segment: the purse may not reach for all."""
    found = [line]
    start = line[0]
    for _ in range(before):
        if start == 0:
            break
        found.append(_line_at(segment, start - 1))
        start = found[-1][0]
    for count, each in enumerate(_lines_of(segment, line[1] + 1)):
        if count == behind:
            break
        found.append(each)
    return found
