"""Sessions: what callers gave, each thing once, in the table; their bytes in the bucket."""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from backports import zstd

from connectors.schedulers.scoped import ScopedEvent
from engine.model.canonical import canonical_json, digest, digest_bytes
from engine.model.identity import attempt_key
from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.observation import Entity, Observation, Origin, Sample, When
from engine.model.workload import EvidenceSource, Workload
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import Item
from functions.adapters.session_blobs import blob_key, sha256_hex
from functions.adapters.session_table import SessionItems, SessionTable
from functions.service.assembly import Chunk
from functions.service.problems import FieldError, ProblemError, missing
from functions.service.requests import (
    ObservationBody,
    SampleBody,
    SessionRequest,
    StatementRequest,
    StreamBody,
    WhenBody,
    WorkloadBody,
)

CALLER: Final = "caller"
"""The connector name and the trust of everything that comes through the service."""
MAX_PARTS: Final = 1000
MAX_SESSION_BYTES: Final = 1024**3
_BINARY: Final = "application/octet-stream"
_ITEM_BYTES: Final = 350_000
"""DynamoDB takes items of 400 KB; a description of 10,000 ranks is a tenth of it when packed."""


@dataclass(slots=True, frozen=True)
class Session:
    """Everything that a session holds; times are RFC 3339 in UTC."""

    tenant: str
    session_id: str
    attempt_key: str
    created_at: str
    expires_at: str
    statements: dict[str, ScopedEvent]
    chunks: dict[str, Chunk]
    batches: dict[str, Item]

    @property
    def statement_list(self) -> list[ScopedEvent]:
        """The statements in an order that depends on their content only."""
        return [self.statements[key] for key in sorted(self.statements)]


@dataclass(slots=True, frozen=True)
class Added:
    """What became of something that was sent: its name, and whether it was new."""

    name: str
    is_new: bool


@dataclass(slots=True, frozen=True)
class Sessions:
    """Sessions over table and bucket. `new_id` gives 32 hexadecimal digits."""

    table: SessionTable
    store: ObjectStore
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    days: int

    def create(self, tenant: str, request: SessionRequest) -> str:
        """Open a session and return its id."""
        event = statement_of(tenant, request.workload, request.detection_signal)
        session = f"ses_{self.new_id()}"
        now = self.now()
        expires = now + timedelta(days=self.days)
        item = {
            "attempt_key": attempt_key(event.workload),
            "created_at": rfc3339(to_us(now)),
            "expires_at": int(expires.timestamp()),
            "opening": _packed(event),
        }
        self.table.create(tenant, session, item)
        return session

    def read(self, tenant: str, session: str) -> Session:
        """Return a session as it is now; raises `ProblemError` where the tenant has none such."""
        found = self.table.read(tenant, session)
        if found is None or self._is_over(found.session):
            raise missing(f"session {session}")
        return _session(tenant, session, found)

    def state(self, tenant: str, session: str, request: StatementRequest) -> Added:
        """Add what became known of the attempt; `ProblemError` where its times cannot be."""
        head = self._head(tenant, session)
        opening = _unpacked(head["opening"])
        event = _later(opening, request)
        if request.start is not None or request.end is not None:
            known = self.read(tenant, session).statement_list
            _require_order([each.workload for each in known], event.workload)
        name = _short(digest(event.model_dump(mode="json", exclude_none=True)))
        item = {"event": _packed(event)}
        return self._add(tenant, session, f"SAID#{name}", head=head, item=item)

    def add_chunk(
        self, tenant: str, session: str, stream: StreamBody, *, offset: int, data: bytes
    ) -> Added:
        """Store bytes of a stream; the same bytes at the same place again are no news."""
        head = self._head(tenant, session)
        sha256 = sha256_hex(data)
        chunk = chunk_of(stream, offset=offset, size=len(data), sha256=sha256)
        self._require_room(head, session, len(data))
        key = blob_key(head["attempt_key"], session, sha256)
        self.store.put_once(key, data, content_type=_BINARY)
        return self._add_chunk(tenant, session, head, chunk)

    def announce(self, tenant: str, session: str, chunk: Chunk) -> tuple[Added, str]:
        """Note a chunk whose bytes are still to come; returns the key that they go to."""
        head = self._head(tenant, session)
        self._require_room(head, session, chunk.size)
        added = self._add_chunk(tenant, session, head, chunk)
        return added, blob_key(head["attempt_key"], session, chunk.sha256)

    def add_observations(
        self, tenant: str, session: str, bodies: list[ObservationBody]
    ) -> tuple[list[str], Added]:
        """Store observations; returns the ids of all of them and whether the batch was new."""
        head = self._head(tenant, session)
        documents = {}
        for body in bodies:
            document = body.model_dump(mode="json", exclude_defaults=True)
            documents[_short(digest(document))] = document
        lines = [canonical_json(documents[name]) for name in sorted(documents)]
        data = b"\n".join(lines) + b"\n"
        sha256 = sha256_hex(data)
        self._require_room(head, session, len(data))
        key = blob_key(head["attempt_key"], session, sha256)
        self.store.put_once(key, data, content_type="application/x-ndjson")
        item = {"sha256": sha256, "count": len(lines), "size": len(data)}
        part = f"BATCH#{sha256[:16]}"
        added = self._add(tenant, session, part, head=head, item=item)
        return sorted(documents), added

    def observation_bodies(self, session: Session) -> dict[str, ObservationBody]:
        """Return every observation of a session once, by id; a batch that is lost is missed."""
        found: dict[str, ObservationBody] = {}
        for name in sorted(session.batches):
            key = blob_key(session.attempt_key, session.session_id, session.batches[name]["sha256"])
            for line in self.store.get(key)[0].splitlines():
                found[_short(digest_bytes(line))] = ObservationBody.model_validate_json(line)
        return found

    def _head(self, tenant: str, session: str) -> Item:
        head = self.table.head(tenant, session)
        if head is None or self._is_over(head):
            raise missing(f"session {session}")
        return head

    def _is_over(self, head: Mapping[str, Any]) -> bool:
        return bool(head["expires_at"] <= self.now().timestamp())

    def _require_room(self, head: Item, session: str, size: int) -> None:
        if head["parts"] >= MAX_PARTS or head["bytes"] + size > MAX_SESSION_BYTES:
            raise ProblemError(
                413,
                f"session {session} holds {head['parts']} parts and {head['bytes']} bytes; "
                f"it takes {MAX_PARTS} parts and {MAX_SESSION_BYTES} bytes at the most",
                "send larger chunks, only the end of long logs, or open another session",
            )

    def _add_chunk(self, tenant: str, session: str, head: Item, chunk: Chunk) -> Added:
        item = {
            "stream": chunk.stream.model_dump_json(exclude_none=True),
            "offset": chunk.offset,
            "size": chunk.size,
            "sha256": chunk.sha256,
        }
        part = f"CHUNK#{chunk.chunk_id}"
        return self._add(tenant, session, part, head=head, item=item)

    def _add(
        self, tenant: str, session: str, part: str, *, head: Item, item: dict[str, Any]
    ) -> Added:
        whole = {**item, "expires_at": head["expires_at"]}
        size = item.get("size", 0)
        is_new = self.table.add(tenant, session, part, item=whole, size=size)
        return Added(part.split("#", 1)[1], is_new)


def statement_of(tenant: str, body: WorkloadBody, signal: str | None = None) -> ScopedEvent:
    """Return what a caller states of an attempt, as the pipeline knows statements."""
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    given["cluster"] = body.cluster
    given["tenant"] = tenant
    return _event(given, signal)


def chunk_of(stream: StreamBody, *, offset: int, size: int, sha256: str) -> Chunk:
    """Return the chunk, named by its stream, its place and its content."""
    described = _described(stream)
    name = digest([described.model_dump(mode="json", exclude_none=True), offset, sha256])
    return Chunk(_short(name), described, offset, size, sha256)


def observation_of(body: ObservationBody) -> Observation:
    """Return the engine's observation; whoever sent it, its trust is `caller`."""
    first = _sample(body.first)
    last = _sample(body.last or body.first)
    return Observation(
        kind=body.kind,
        symptom=body.symptom,
        rule=body.rule,
        source=body.source,
        connector=CALLER,
        trust="caller",
        stream=body.stream,
        entity=Entity(**body.entity.model_dump()),
        when=_when(body.when if "when" in body.model_fields_set else body.first.when),
        count=body.count,
        first=first,
        last=last,
        samples=tuple(_sample(each) for each in body.samples) or (first,),
        fields=dict(body.fields),
        identity=tuple(body.identity),
        flags=tuple(sorted(set(body.flags))),
        extraction_digest=body.extraction_digest,
        signature=body.signature,
    )


def _session(tenant: str, session: str, found: SessionItems) -> Session:
    head = found.session
    opening = _unpacked(head["opening"])
    statements = {"opening": opening}
    for name, item in found.parts["SAID"].items():
        statements[name] = _unpacked(item["event"])
    chunks = {
        name: Chunk(
            name,
            EvidenceSource.model_validate_json(item["stream"]),
            item["offset"],
            item["size"],
            item["sha256"],
        )
        for name, item in found.parts["CHUNK"].items()
    }
    return Session(
        tenant=tenant,
        session_id=session,
        attempt_key=head["attempt_key"],
        created_at=head["created_at"],
        expires_at=rfc3339(head["expires_at"] * 1_000_000),
        statements=statements,
        chunks=chunks,
        batches=found.parts["BATCH"],
    )


def _later(opening: ScopedEvent, request: StatementRequest) -> ScopedEvent:
    """Return a later statement about the same attempt."""
    known = opening.workload
    given = request.model_dump(exclude_unset=True, exclude_none=True, exclude={"detection_signal"})
    identity = {"scheduler", "cluster", "tenant", "job_id", "attempt"}
    given |= known.model_dump(include=identity, exclude_none=True)
    return _event(given, request.detection_signal)


def _require_order(known: Sequence[Workload], stated: Workload) -> None:
    """Refuse a start after an end that was stated, and an end before such a start."""
    starts = [each.start for each in known if each.start is not None]
    ends = [each.end for each in (*known, stated) if each.end is not None]
    late = stated.start if stated.start is not None else max(starts, default=None)
    early = stated.end if stated.start is None else min(ends, default=None)
    if late is None or early is None or late <= early:
        return
    raise ProblemError(
        409,
        f"the attempt cannot start at {rfc3339(to_us(late))} and end at {rfc3339(to_us(early))}",
        "state the times of this attempt; another attempt of the job has a session of its own",
    )


def _event(given: dict[str, Any], signal: str | None) -> ScopedEvent:
    """Build the statement; what the models refuse beyond the published schema is told."""
    try:
        workload = Workload.model_validate(given)
    except ValueError as error:
        raise ProblemError(
            422,
            "the workload cannot be as stated",
            "mend the named field",
            errors=[FieldError(where="body.workload", why=str(error)[:500])],
        ) from error
    return ScopedEvent.model_validate(
        {"origin": "rest", "workload": workload, "detection_signal": signal}
    )


def _described(stream: StreamBody) -> EvidenceSource:
    given = stream.model_dump(exclude_unset=True, exclude_none=True)
    given["node"] = sorted(set(given.get("node", ())))
    given["rank"] = sorted(set(given.get("rank", ())))
    try:
        for name in ("boot_time", "captured_at"):
            if name in given:
                given[name] = parse_rfc3339(given[name])
        return EvidenceSource.model_validate(given)
    except ValueError as error:
        raise ProblemError(
            422,
            "the stream cannot be as described",
            "give times that exist, and an IANA time zone or an offset such as +02:00",
            errors=[FieldError(where="body.stream", why=str(error)[:500])],
        ) from error


def _when(body: WhenBody) -> When:
    return When(body.earliest_us, body.latest_us, body.basis, body.clock)


def _sample(body: SampleBody) -> Sample:
    origin = body.origin
    place = Origin(origin.uri, origin.line, origin.byte_offset, origin.byte_length)
    return Sample(place, _when(body.when), body.text, body.lines)


def _packed(event: ScopedEvent) -> str:
    """Return a statement as an item keeps it; raises `ProblemError` where none can."""
    text = event.model_dump_json(exclude_unset=True, exclude_none=True)
    packed = base64.b64encode(zstd.compress(text.encode(), level=3)).decode()
    if len(packed) > _ITEM_BYTES:
        raise ProblemError(
            413,
            f"the description of the workload takes {len(packed)} bytes, {_ITEM_BYTES} are kept",
            "leave out ranks whose place their logs tell",
        )
    return packed


def _unpacked(packed: str) -> ScopedEvent:
    return ScopedEvent.model_validate_json(zstd.decompress(base64.b64decode(packed)))


def _short(name: str) -> str:
    return name.removeprefix("sha256:")[:32]
