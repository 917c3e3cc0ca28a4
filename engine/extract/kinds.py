"""What hits have in common: the same captures, said by the same rank, process or daemon."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.extract.demux import Identity
from engine.extract.recognise import Reading, SignatureReader
from engine.extract.subject import ENTITY_FIELDS, POINTERS, entity_of, flags_of
from engine.extract.tally import Entry, Key, Sighting, Unread
from engine.model.observation import Entity
from engine.model.stream import StreamLabel

if TYPE_CHECKING:
    from engine.extract.express import Express


@dataclass(slots=True, eq=False)
class Speaker:
    """Who writes the lines of one frame, and how his sightings are labelled.

    Writers of one stream and entity have one number: they differ in pointers alone.
    """

    identity: Identity
    entity: Entity
    stream: str
    pointers: dict[str, str]
    number: int


class Kind:
    """What a signature says with the same captures, whoever wrote the line."""

    __slots__ = (
        "fields", "flags", "names_entity", "reader", "reads_pointers", "serial", "signature",
        "symptom", "values",
    )  # fmt: skip

    def __init__(
        self,
        reader: SignatureReader,
        reading: Reading,
        label: StreamLabel,
        *,
        flags: tuple[str, ...],
        serial: int,
    ) -> None:
        fields, signature = reading.fields, reader.signature
        self.serial = serial
        self.reader = reader
        self.signature = signature
        self.symptom = reading.symptom
        self.fields = fields
        self.flags = (*flags, *flags_of(signature, label))
        self.names_entity = not ENTITY_FIELDS.isdisjoint(fields)
        self.values = tuple([fields.get(name, "") for name in signature.identity])
        self.reads_pointers = not POINTERS.isdisjoint(signature.identity)


class Known:
    """One kind of hit by writers of one stream and entity, and the entry that counts it."""

    __slots__ = ("at", "entity", "entry", "kind")

    def __init__(self, kind: Kind, speaker: Speaker, at: "Express", *, in_full: bool) -> None:
        self.kind = kind
        self.at = at
        self.entity = speaker.entity
        if kind.names_entity:
            self.entity = entity_of(at.label, speaker.identity, kind.fields)
        if in_full:
            self.entry = at.tally.overflow(kind.signature.index, kind.symptom)
        else:
            self.entry = at.tally.entry(self._key(speaker))

    def _key(self, speaker: Speaker) -> Key:
        kind = self.kind
        values = kind.values
        if kind.reads_pointers and speaker.pointers:
            fields = {**speaker.pointers, **kind.fields}
            values = tuple([fields.get(name, "") for name in kind.signature.identity])
        return kind.signature.index, kind.symptom, speaker.stream, self.entity, values

    def sighting(self, item: Unread) -> Sighting:
        """Read a line that was put off."""
        kind, pointers = self.kind, item[8]
        signature, text = kind.signature, item[1].decode()
        fields = kind.fields
        if kind.serial != item[3] and not kind.reader.captures_nothing:
            reading = kind.reader.read(text)
            fields = fields if reading is None else reading.fields
        if pointers:
            fields = {**pointers, **fields}
        return Sighting(
            signature.index, signature.rule, signature.name, kind.symptom, "match",
            self.entity, fields, signature.identity, self.at.when(item),
            (item[4], item[2], item[5]), text, 1, kind.flags,
        )  # fmt: skip


class Late:
    """A hit that no entry of its own counts any more: what it says is read if it is shown."""

    __slots__ = ("at", "entry", "flags", "reader", "speaker")

    def __init__(
        self,
        entry: Entry,
        reader: SignatureReader,
        flags: tuple[str, ...],
        speaker: Speaker,
        at: "Express",
    ) -> None:
        self.entry = entry
        self.reader = reader
        self.flags = flags
        self.speaker = speaker
        self.at = at

    def sighting(self, item: Unread) -> Sighting:
        """Read a line that was put off."""
        reading = self.reader.read(item[1].decode())
        if reading is None:
            raise ValueError("a line that the signature does not hold on was counted")
        kind = Kind(self.reader, reading, self.at.label, flags=self.flags, serial=item[3])
        return Known(kind, self.speaker, self.at, in_full=True).sighting(item)
