"""The running fold of one stream: cheap for each hit, observations only at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from engine.extract.fold import MAX_KEYS, MAX_SAMPLES, OVERFLOW
from engine.model.observation import Entity, Observation, Origin, Sample, When
from engine.model.stream import StreamLabel
from engine.model.vocabulary import ObservationKind

MAX_KEYS_ALL_RANKS: Final = 16_384  # per signature over all ranks of one merged log
MAX_ENTRIES: Final = 50_000  # of one stream in all: some 150 MiB at worst
_PLAIN_CHARS: Final = 16  # a shorter plain word or number is no secret that could be told
_FAR: Final = 1 << 62
Order = tuple[int, int, str, int, int]


@dataclass(slots=True)
class Sighting:
    """One confirmed hit: what it says, of whom, when and where. Text is not yet redacted."""

    signature: int
    rule: str
    name: str
    symptom: str
    kind: ObservationKind
    entity: Entity
    fields: dict[str, str]
    identity: tuple[str, ...]
    when: When
    place: tuple[int, int, int]
    text: str
    lines: int = 1
    flags: tuple[str, ...] = ()
    uri: str = ""
    shown: Sample | None = None

    @property
    def order(self) -> Order:
        """As `fold.first_order`, on the text as it was."""
        earliest, latest = self.when.earliest_us, self.when.latest_us
        return (
            _FAR if latest is None else latest,
            _FAR if earliest is None else earliest,
            self.text,
            -1 if self.entity.rank is None else self.entity.rank,
            self.place[1],
        )

    @property
    def last_order(self) -> Order:
        """As `fold.last_order`."""
        earliest, latest = self.when.earliest_us, self.when.latest_us
        return (
            -1 if earliest is None else earliest,
            -1 if latest is None else latest,
            self.text,
            -1 if self.entity.rank is None else self.entity.rank,
            self.place[1],
        )


@dataclass(slots=True)
class _Entry:
    count: int = 0
    first: Sighting | None = None
    first_order: Order | None = None
    last: Sighting | None = None
    last_order: Order | None = None
    samples: dict[Order, Sighting] = field(default_factory=dict)
    worst: Order | None = None
    flags: set[str] = field(default_factory=set)


Key = tuple[int, str, str, Entity | None, tuple[str, ...]]


class Tally:
    """Folds sightings of one stream; `finish` gives the observations."""

    def __init__(self, label: StreamLabel) -> None:
        self._label = label
        self._entries: dict[Key, _Entry] = {}
        self._keys: dict[tuple[int, str], int] = {}
        self._per_signature: dict[int, int] = {}

    def add(self, item: Sighting, stream: str) -> None:
        """Count one sighting; keep it where it is among the first, or the last."""
        values = tuple(item.fields.get(name, "") for name in item.identity)
        key: Key = (item.signature, item.symptom, stream, item.entity, values)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._open(key)
        entry.count += 1
        if item.flags:
            entry.flags.update(item.flags)
        order = item.order
        if entry.first_order is None or order < entry.first_order:
            entry.first, entry.first_order = item, order
        last_order = item.last_order
        if entry.last_order is None or last_order > entry.last_order:
            entry.last, entry.last_order = item, last_order
        if len(entry.samples) < MAX_SAMPLES:
            entry.samples[order] = item
            entry.worst = max(entry.samples)
        elif entry.worst is not None and order < entry.worst and order not in entry.samples:
            del entry.samples[entry.worst]
            entry.samples[order] = item
            entry.worst = max(entry.samples)

    def _open(self, key: Key) -> _Entry:
        signature, symptom, stream, _, _ = key
        family = (signature, stream)
        seen = self._keys.get(family, 0)
        whole = self._per_signature.get(signature, 0)
        if seen >= MAX_KEYS or whole >= MAX_KEYS_ALL_RANKS or len(self._entries) >= MAX_ENTRIES:
            overflow: Key = (signature, symptom, self._label.uri, None, ())
            return self._entries.setdefault(overflow, _Entry(flags={OVERFLOW}))
        self._keys[family] = seen + 1
        self._per_signature[signature] = whole + 1
        entry = self._entries[key] = _Entry()
        return entry

    def finish(self, writer: "Writer") -> list[Observation]:
        """Return the observations, redacted, with times resolved."""
        return [self._observation(key, entry, writer) for key, entry in self._entries.items()]

    def _observation(self, key: Key, entry: _Entry, writer: "Writer") -> Observation:
        first, last = entry.first, entry.last
        if first is None or last is None:
            raise ValueError("an entry without a sighting")
        overflow = OVERFLOW in entry.flags
        begins = writer.sample(first, self._label.uri)
        fields = {
            name: value if len(value) < _PLAIN_CHARS and value.isalnum() else writer.redact(value)
            for name, value in sorted(first.fields.items())
        }
        return Observation(
            kind=first.kind,
            symptom=first.symptom,
            rule=first.rule,
            source=self._label.source,
            connector=writer.connector,
            trust=self._label.trust,
            stream=key[2],
            entity=Entity(node=first.entity.node) if overflow else first.entity,
            when=begins.when,
            count=entry.count,
            first=begins,
            last=writer.sample(last, self._label.uri),
            samples=tuple(
                writer.sample(entry.samples[order], self._label.uri)
                for order in sorted(entry.samples)
            ),
            fields={} if overflow else fields,
            identity=() if overflow else first.identity,
            flags=tuple(sorted(entry.flags)),
            extraction_digest=writer.digest,
            signature=first.name,
        )


@dataclass(slots=True, frozen=True)
class Writer:
    """How sightings leave extraction: under whose name, redacted, times resolved."""

    connector: str
    digest: str
    redact: Callable[[str], str]
    resolve: Callable[[When], When]

    def sample(self, item: Sighting, uri: str) -> Sample:
        """One sighting as it may be shown."""
        if item.shown is None:
            number, offset, length = item.place
            origin = Origin(item.uri or uri, number, offset, length)
            when = self.resolve(item.when)
            item.shown = Sample(origin, when, self.redact(item.text), item.lines)
        return item.shown
