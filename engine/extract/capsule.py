"""A capsule: what is kept of a stream for rules that do not exist yet.

Redacted lines, each with its place in the stream, and the facts of a structured source. Which
lines are kept is `keeping`'s; here is how they are stored and read again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from engine.extract.fact import Fact
from engine.extract.segment import Segment
from engine.model.observation import Entity, Observation, Origin, StreamSummary, When
from engine.model.stream import StreamLabel

Redact = Callable[[Sequence[str]], list[str]]
LINE_COST: Final = 24
"""What the numbers and punctuation of a kept line come to."""
KeptLine = tuple[int, int, int, str]
"""Line number, byte offset and length in the stream, and the redacted text."""


class KeptFact(msgspec.Struct, frozen=True):
    """A record of a structured source, redacted."""

    text: str
    origin: Origin
    excerpt: str
    when: When
    entity: Entity

    def fact(self) -> Fact:
        """Return it as extraction takes it."""
        return Fact(self.text, self.origin, self.excerpt, self.when, self.entity)


class CapsuleStream(msgspec.Struct, frozen=True):
    """One stream's capsule. `runs` are lines that follow one another, in the stream's order.

    `lines` and `bytes` count the whole stream. `is_whole` says that every line is kept as it
    was but for secrets. `observations` are those of metric rules, whose samples are not kept.
    """

    label: StreamLabel
    lines: int
    bytes: int
    is_whole: bool
    is_truncated: bool = False
    runs: tuple[tuple[KeptLine, ...], ...] = ()
    facts: tuple[KeptFact, ...] = ()
    summaries: tuple[StreamSummary, ...] = ()
    observations: tuple[Observation, ...] = ()

    @property
    def kept(self) -> int:
        """How many lines and records are kept."""
        return sum(len(run) for run in self.runs) + len(self.facts)

    @property
    def size(self) -> int:
        """What it takes of a budget."""
        lines = sum(len(text) + LINE_COST for run in self.runs for *_, text in run)
        return lines + sum(cost_of(each) for each in self.facts)


def keep_facts(facts: Sequence[Fact], budget: int, redact: Redact) -> tuple[KeptFact, ...]:
    """Return the first and the last facts that fit into `budget` bytes, redacted, in order."""
    chosen: set[int] = set()
    for order in (range(len(facts)), reversed(range(len(facts)))):
        left = budget // 2
        for number in order:
            fact = facts[number]
            cost = 0 if number in chosen else cost_of(fact)
            if cost > left:
                break
            left -= cost
            chosen.add(number)
    kept = []
    for number in sorted(chosen):
        fact = facts[number]
        (text,) = redact([fact.text.replace("\n", " ")])
        excerpt = "\n".join(redact(fact.excerpt.split("\n")))
        kept.append(KeptFact(text, fact.origin, excerpt, fact.when, fact.entity))
    return tuple(kept)


def cost_of(fact: Fact | KeptFact) -> int:
    """A fact also carries its origin, time and entity: some 300 bytes as JSON."""
    return len(fact.text) + len(fact.excerpt) + 300


class ExcerptSegment(Segment):
    """A run of kept lines. Nothing stands before or after it, so no block reaches over a gap."""

    __slots__ = ()

    @property
    def previous(self) -> Segment | None:
        """Nothing."""
        return None

    @previous.setter
    def previous(self, _segment: Segment | None) -> None: ...

    @property
    def following(self) -> Segment | None:
        """Nothing."""
        return None

    @following.setter
    def following(self, _segment: Segment | None) -> None: ...


def segments_of(stream: CapsuleStream) -> Iterator[Segment]:
    """Yield a segment for each run, whose lines say where they were in the stream."""
    for run in stream.runs:
        texts = [text.replace("\n", " ").encode("utf-8", "replace") for *_, text in run]
        starts, size = [], 0
        for text in texts:
            starts.append(size)
            size += len(text) + 1
        origins = [(offset, length, number) for number, offset, length, _ in run]
        made = ExcerptSegment(b"", 0, offset=origins[0][0], line=origins[0][2])
        made.replace_text(b"\n".join(texts) + b"\n", starts, origins)
        yield made
