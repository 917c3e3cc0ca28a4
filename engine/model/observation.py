"""observation/v1: what collectors leave behind, normalised, redacted and folded.

Plain slotted dataclasses, because a collector may make millions. They travel as JSON lines
(`encode`, `decode`); the schema is generated like every other. Times are integer microseconds
since the epoch, UTC. Merging equal keys is commutative and associative (`engine.extract.fold`).
"""

from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from engine.model.vocabulary import ObservationKind, Source, Trust

SCHEMA: Final = "observation/v1"

TimeBasis = Literal[
    "stamp",       # a stamp with an offset, or in UTC by its format, on the line itself
    "local",       # a stamp without offset, read in the given or assumed zone
    "yearless",    # a stamp without year, year taken from the attempt
    "uptime",      # seconds since boot plus a boot time
    "relative",    # an age ("3m5s") before captured_at
    "neighbour",   # bounded by the stamped lines round it on the same stream
    "record",      # a field of a scheduler or platform record
    "sample",      # a metric sample
    "attempt",     # nothing better than the attempt's own start and end
    "none",        # not even that
]  # fmt: skip


@dataclass(slots=True, frozen=True)
class When:
    """A time as an interval. `clock` names whose clock: a node, `scheduler`, or ``""``."""

    earliest_us: int | None = None
    latest_us: int | None = None
    basis: TimeBasis = "none"
    clock: str = ""


@dataclass(slots=True, frozen=True)
class Origin:
    """The bytes that one observation rests on: `uri` is logical, relative to the attempt.

    `line` counts from 1; offset and length are of the decompressed, unredacted stream.
    """

    uri: str
    line: int
    byte_offset: int
    byte_length: int


@dataclass(slots=True, frozen=True)
class Sample:
    """One sighting: where, when, and the redacted text (a block whole, lines joined by newline)."""

    origin: Origin
    when: When
    text: str
    lines: int = 1


@dataclass(slots=True, frozen=True)
class Entity:
    """Who an observation speaks of. Empty means that the evidence does not say.

    `node` is the connector's label for the stream, never a name read from text; `rank` comes
    from the label or from the line's own rank prefix. `gpu_*`, `nic`, `link`, `switch`,
    `filesystem` are read from the text by a rule's identity fields.
    """

    node: str = ""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    pod: str = ""
    gpu_index: int | None = None
    gpu_pci: str = ""
    gpu_uuid: str = ""
    gpu_serial: str = ""
    nic: str = ""
    link: str = ""
    switch: str = ""
    filesystem: str = ""

    def __hash__(self) -> int:
        """Of what tells most entities apart: storms hash them by the hundred thousand."""
        return hash((self.node, self.rank, self.pid, self.gpu_index, self.gpu_pci))


@dataclass(slots=True, frozen=True)
class Observation:
    """One folded fact: a symptom on an entity, how often, when first and last, and where.

    `fields` are the rule's captures, identity fields always among them (the fold key is rule,
    stream, entity and identity fields; only equal keys are sampled). `flags` are sorted words
    such as `interleaved`, `key_overflow`, `truncated`.
    """

    kind: ObservationKind
    symptom: str
    rule: str
    source: Source
    connector: str
    trust: Trust
    stream: str
    entity: Entity
    when: When
    count: int
    first: Sample
    last: Sample
    samples: tuple[Sample, ...] = ()
    fields: dict[str, str] = field(default_factory=dict)
    identity: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    extraction_digest: str = ""
    signature: str = ""  # which signature of `rule` saw `first`; its onset timer back-dates it


@dataclass(slots=True, frozen=True)
class StreamSummary:
    """What a stream's silence means: how much was seen and up to when.

    `stream` is the logical uri, with `#rank=N` for one rank's lines of a merged log. `ranks`
    are the ranks whose lines it holds. Progress counters are training steps read from sampled
    progress lines. `last_text` is the redacted last line.
    """

    stream: str
    source: Source
    connector: str
    trust: Trust
    node: str
    ranks: tuple[int, ...]
    lines: int
    bytes: int
    first: When
    last: When
    last_text: str = ""
    first_step: int | None = None
    last_step: int | None = None
    last_step_when: When = When()
    largest_gap_us: int | None = None
    flags: tuple[str, ...] = ()
    kind: Literal["stream_summary"] = "stream_summary"
    first_step_when: When = When()
    last_step_offset: int | None = None


_observation_decoder = msgspec.json.Decoder(Observation)
_summary_decoder = msgspec.json.Decoder(StreamSummary)


def encode(items: list[Observation | StreamSummary]) -> bytes:
    """Return JSON lines, one observation or stream summary a line."""
    return b"".join(msgspec.json.encode(item) + b"\n" for item in items)


class Sharing:
    """Gives equal parts of many observations one object: names, entities, captures, sightings.

    A million decoded observations of ten thousand ranks hold a fifth of a million different parts;
    apart they take three times the memory. Shared parts are equal, and nobody changes one.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._entities: dict[Entity, Entity] = {}
        self._fields: dict[tuple[tuple[str, str], ...], dict[str, str]] = {}
        self._tuples: dict[tuple[str, ...], tuple[str, ...]] = {}

    def share(self, item: Observation) -> None:
        """Replace what `item` has in common with itself or with earlier ones; it stays equal."""
        text = self._texts.setdefault
        put = object.__setattr__  # as the generated __init__ of a frozen dataclass does
        for name in _NAMES:
            value = getattr(item, name)
            put(item, name, text(value, value))
        put(item, "entity", self._entities.setdefault(item.entity, item.entity))
        if item.identity:
            put(item, "identity", self._tuples.setdefault(item.identity, item.identity))
        if item.fields:
            put(item, "fields", self._fields.setdefault(tuple(item.fields.items()), item.fields))
        first = item.first
        self._share_sample(first, item.when)
        if item.last == first:
            put(item, "last", first)
        else:
            self._share_sample(item.last, item.when)
        known = (first, item.last)
        samples = tuple([next((k for k in known if k == each), each) for each in item.samples])
        for each in samples:
            if each is not first and each is not item.last:
                self._share_sample(each, item.when)
        put(item, "samples", samples)

    def _share_sample(self, sample: Sample, when: When) -> None:
        put, text = object.__setattr__, self._texts.setdefault
        put(sample, "text", text(sample.text, sample.text))
        put(sample.origin, "uri", text(sample.origin.uri, sample.origin.uri))
        if sample.when == when:
            put(sample, "when", when)
        put(sample.when, "clock", text(sample.when.clock, sample.when.clock))


_NAMES: Final = ("symptom", "rule", "connector", "stream", "extraction_digest", "signature")


def decode(
    data: bytes, sharing: Sharing | None = None
) -> tuple[list[Observation], list[StreamSummary], list[str]]:
    """Read JSON lines; a line that is no observation is returned as an error, not raised.

    One poisoned line must not lose the rest of a shard. Who reads several shards into one list
    brings one `sharing` for all of them.
    """
    sharing = sharing or Sharing()
    observations: list[Observation] = []
    summaries: list[StreamSummary] = []
    errors: list[str] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            if b'"kind":"stream_summary"' in line:
                summaries.append(_summary_decoder.decode(line))
            else:
                observation = _observation_decoder.decode(line)
                sharing.share(observation)
                observations.append(observation)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            errors.append(f"line {number}: {error}")
    return observations, summaries, errors
