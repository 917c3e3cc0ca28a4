"""The running fold of one stream: cheap for each hit, observations only at the end."""

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from engine.extract.fold import MAX_KEYS, MAX_SAMPLES, OVERFLOW
from engine.extract.frames import Shape
from engine.model.observation import Entity, Observation, Origin, Sample, When
from engine.model.stream import StreamLabel
from engine.model.vocabulary import ObservationKind

MAX_KEYS_ALL_RANKS: Final = 16_384  # per signature over all ranks of one merged log
MAX_ENTRIES: Final = 50_000  # of one stream in all: some 100 MiB at worst
RESERVED_KEYS: Final = 16  # of each signature, whatever the others have used up
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


class Recipe(Protocol):
    """What makes a sighting of an unread line, if it is to be shown after all."""

    def sighting(self, item: "Unread") -> Sighting:
        """The line read in full."""


Unread = tuple[bytes, bytes, int, int, int, int, Recipe, Shape, dict[str, str]]
"""Clock, line, byte offset, serial number, line number, byte length, how to read it, stamp shape,
what the line's prefix points at.

Of one shape of stamp these sort as the orders of their sightings do.
"""


class Entry:
    """The fold of one key. `kept` holds the first sightings in order, at most `MAX_SAMPLES`."""

    __slots__ = ("_last_order", "_shape", "_unread", "_unread_last", "count", "flags", "kept",
                 "last")  # fmt: skip

    def __init__(self, flags: tuple[str, ...] = ()) -> None:
        self.count = 0
        self.flags = flags
        self.kept: list[tuple[Order, Sighting]] = []
        self.last: Sighting | None = None
        self._last_order: Order | None = None
        self._shape: Shape | None = None
        self._unread: list[Unread] = []
        self._unread_last: Unread | None = None

    def add(self, item: Sighting) -> None:
        """Count a sighting."""
        self.count += 1
        self._keep(item)

    def take(self, shape: Shape, item: Unread) -> None:
        """Count a line that is read only if it turns out to be among the first, or the last."""
        if shape != self._shape:
            self.settle()
            self._shape = shape
        self.count += 1
        unread = self._unread
        if (len(unread) < MAX_SAMPLES or item < unread[-1]) and all(
            item[:3] != other[:3] for other in unread
        ):
            insort(unread, item)
            del unread[MAX_SAMPLES:]
        if self._unread_last is None or item > self._unread_last:
            self._unread_last = item

    @property
    def span(self) -> tuple[Shape, bytes, bytes] | None:
        """Shape, first and last clock of the lines that were put off."""
        if self._shape is None or self._unread_last is None:
            return None
        return self._shape, self._unread[0][0], self._unread_last[0]

    def settle(self) -> None:
        """Read the lines that were put off."""
        last = self._unread_last
        if last is None:
            return
        for item in self._unread:
            self._keep(item[6].sighting(item))
        if last is not self._unread[-1]:
            self._keep(last[6].sighting(last))
        self._unread, self._unread_last, self._shape = [], None, None

    def _keep(self, item: Sighting) -> None:
        if item.flags and not set(item.flags) <= set(self.flags):
            self.flags = tuple(sorted({*self.flags, *item.flags}))
        last_order = item.last_order
        if self._last_order is None or last_order > self._last_order:
            self.last, self._last_order = item, last_order
        order, kept = item.order, self.kept
        if (len(kept) < MAX_SAMPLES or order < kept[-1][0]) and all(
            order != other for other, _ in kept
        ):
            insort(kept, (order, item), key=_order_of)
            del kept[MAX_SAMPLES:]


def _order_of(kept: tuple[Order, Sighting]) -> Order:
    return kept[0]


Key = tuple[int, str, str, Entity | None, tuple[str, ...]]


class Tally:
    """Folds sightings of one stream; `finish` gives the observations."""

    def __init__(self, label: StreamLabel) -> None:
        self._label = label
        self._entries: dict[Key, Entry] = {}
        self._keys: dict[tuple[int, str], int] = {}
        self._per_signature: dict[int, int] = {}

    def add(self, item: Sighting, stream: str) -> None:
        """Count one sighting; keep it where it is among the first, or the last."""
        values = tuple(item.fields.get(name, "") for name in item.identity)
        self.entry((item.signature, item.symptom, stream, item.entity, values)).add(item)

    def entry(self, key: Key) -> Entry:
        """The entry of a key, or of the signature's overflow once there are too many."""
        entry = self._entries.get(key)
        return entry if entry is not None else self._open(key)

    def is_full(self, signature: int) -> bool:
        """Whether every new key of a signature goes to its overflow."""
        whole = self._per_signature.get(signature, 0)
        return whole >= MAX_KEYS_ALL_RANKS or (
            whole >= RESERVED_KEYS and len(self._entries) >= MAX_ENTRIES
        )

    def overflow(self, signature: int, symptom: str) -> Entry:
        """The entry that counts what no longer gets one of its own."""
        key: Key = (signature, symptom, self._label.uri, None, ())
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry((OVERFLOW,))
        return entry

    def _open(self, key: Key) -> Entry:
        signature, symptom, stream, _, _ = key
        family = (signature, stream)
        seen = self._keys.get(family, 0)
        if seen >= MAX_KEYS or self.is_full(signature):
            return self.overflow(signature, symptom)
        whole = self._per_signature.get(signature, 0)
        self._keys[family] = seen + 1
        self._per_signature[signature] = whole + 1
        entry = self._entries[key] = Entry()
        return entry

    def spans(self) -> dict[Shape, tuple[bytes, bytes]]:
        """The first and last clock of each shape of stamp among the lines that were put off."""
        found: dict[Shape, tuple[bytes, bytes]] = {}
        for entry in self._entries.values():
            span = entry.span
            if span is not None:
                shape, first, last = span
                known = found.get(shape)
                found[shape] = (
                    (first, last) if known is None else (min(first, known[0]), max(last, known[1]))
                )
        return found

    def finish(self, writer: "Writer") -> list[Observation]:
        """Return the observations, redacted, with times resolved; the tally is empty then."""
        entries, self._entries = self._entries, {}
        found: list[Observation] = []
        while entries:  # lets go of each entry once it is written
            key, entry = entries.popitem()
            found.append(self._observation(key, entry, writer))
        return found

    def _observation(self, key: Key, entry: Entry, writer: "Writer") -> Observation:
        entry.settle()
        if entry.last is None:
            raise ValueError("an entry without a sighting")
        first = entry.kept[0][1]
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
            last=writer.sample(entry.last, self._label.uri),
            samples=tuple(writer.sample(item, self._label.uri) for _, item in entry.kept),
            fields={} if overflow else fields,
            identity=() if overflow else first.identity,
            flags=entry.flags,
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
