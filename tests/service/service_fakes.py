"""Table and bucket in memory, for what is asked thousands of times."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.pipeline import attribute
from functions.adapters.object_store import ObjectMissingError, StoredObject
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.session_table import SessionItems
from functions.service.judgement import Book, Judgement
from functions.service.sessions import Sessions


@dataclass
class MemoryTable:
    """What `SessionTable` promises."""

    sessions: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    parts: dict[tuple[str, str], dict[str, dict[str, Any]]] = field(default_factory=dict)

    def create(self, tenant: str, session: str, item: Mapping[str, Any]) -> None:
        self.sessions[tenant, session] = {**item, "parts": 0, "bytes": 0}
        self.parts[tenant, session] = {}

    def head(self, tenant: str, session: str) -> dict[str, Any] | None:
        return self.sessions.get((tenant, session))

    def read(self, tenant: str, session: str) -> SessionItems | None:
        if (head := self.head(tenant, session)) is None:
            return None
        parts: dict[str, dict[str, Any]] = {"CHUNK": {}, "BATCH": {}, "SAID": {}}
        for name, item in self.parts[tenant, session].items():
            kind, rest = name.split("#", 1)
            parts[kind][rest] = item
        return SessionItems(head, parts)

    def add(
        self, tenant: str, session: str, part: str, *, item: Mapping[str, Any], size: int
    ) -> bool:
        held = self.parts[tenant, session]
        if part in held:
            return False
        held[part] = dict(item)
        self.sessions[tenant, session]["parts"] += 1
        self.sessions[tenant, session]["bytes"] += size
        return True


@dataclass
class MemoryStore:
    """What `ObjectStore` and `SessionBlobs` promise."""

    objects: dict[str, bytes] = field(default_factory=dict)

    def put_once(self, key: str, body: bytes, *, content_type: str) -> StoredObject:
        self.objects.setdefault(key, body)
        return StoredObject(key, None, "")

    def get(self, key: str) -> tuple[bytes, StoredObject]:
        if key not in self.objects:
            raise ObjectMissingError(key)
        return self.objects[key], StoredObject(key, None, "")

    def open_range(self, key: str, start: int, size: int) -> io.BytesIO:
        return io.BytesIO(self.objects[key][start : start + size])

    def sizes(self, attempt_key: str, session: str) -> dict[str, int]:
        return dict(self._named(f"sessions/{attempt_key}/{session}/"))

    def _named(self, prefix: str) -> Iterator[tuple[str, int]]:
        for key, body in self.objects.items():
            if key.startswith(prefix) and len(key) == len(prefix) + 64:
                yield key[len(prefix) :], len(body)

    @property
    def store(self) -> "MemoryStore":
        return self


def memory_service() -> tuple[Sessions, Judgement, Book]:
    """Return sessions, the real engine over them, and the release's rules."""
    store: Any = MemoryStore()
    table: Any = MemoryTable()
    numbers = iter(range(1_000_000))
    sessions = Sessions(
        table, store, lambda: datetime(2026, 1, 1, tzinfo=UTC), lambda: f"{next(numbers):032x}", 30
    )
    book = shipped_rulebook()
    scanner = scanners.scanner_of(book)
    return sessions, Judgement(sessions, store, attribute), Book("release", book, scanner)
