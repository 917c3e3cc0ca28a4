"""A session's evidence as the engine's case, judged: pure but for reading what is stored.

Everything here has the trust `caller`. The same session content gives the same verdict, in whatever
order and however often it was sent.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final

from backports import zstd

from connectors.protocol import Collected, ConnectorError
from connectors.static import BlobReader, label_of
from engine.case import Case
from engine.extract.fold import fold
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.model.canonical import canonical_json, digest
from engine.model.observation import Observation, Sample, StreamSummary, decode, encode
from engine.model.plan import PlanItem, Report
from engine.model.stream import StreamLabel
from engine.model.verdict import Verdict
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook
from functions.adapters.object_store import ObjectConflictError, ObjectMissingError
from functions.adapters.session_blobs import SessionBlobs, blob_key, extracted_key
from functions.attribute.isolation import Attribute, attribute_isolated
from functions.attribute.undescribed import reported_losses
from functions.collect.collection import (
    CollectedItem,
    Collecting,
    collect_item,
    state_observations,
)
from functions.scope.admission import Scope, merge
from functions.scope.planning import WORKLOAD, windows_of
from functions.service.assembly import Chunk, Run, SetAside, assemble
from functions.service.sessions import CALLER, Session, Sessions, observation_of

KEPT_FROM_BYTES: Final = 1 << 20
"""Runs as large as this are extracted once; below, scanning again is quicker than asking."""
_RUNNING: Final = ("RUNNING", "COMPLETING", "SUSPENDED")
_OUT_OF_TIME: Final = "not read to its end: out of time"


@dataclass(slots=True, frozen=True)
class Book:
    """The rules to judge with, their scanner, and why they are not the ones that were meant."""

    name: str
    rules: Rulebook
    scanner: Scanner
    trouble: str | None = None


@dataclass(slots=True, frozen=True)
class CoveredRun:
    """One run of a stream and how far it was read."""

    uri: str
    report: Report
    start: int
    end: int


@dataclass(slots=True)
class Judged:
    """A verdict and what it covers."""

    verdict: Verdict
    scope: Scope
    runs: list[CoveredRun]
    pending: list[Chunk]
    set_aside: list[SetAside]
    chunk_ids: list[str]
    observation_ids: list[str]
    is_out_of_time: bool

    @property
    def digest(self) -> str:
        """The digest of everything that the verdict covers."""
        return digest([sorted(self.chunk_ids), sorted(self.observation_ids), self.scope_digest])

    @property
    def scope_digest(self) -> str:
        """The digest of what was stated of the attempt."""
        return digest(self.scope.model_dump(mode="json", exclude_none=True))


@dataclass(slots=True)
class _RunStream:
    """A run's bytes, read piece by piece until they or the time end."""

    label: StreamLabel
    run: Run
    open_piece: Callable[[Chunk, int, int], BlobReader]
    is_out_of_time: Callable[[], bool]
    was_cut: bool = False
    _next: int = 0
    _reader: BlobReader | None = None

    def read(self, size: int, /) -> bytes:
        while True:
            if self.is_out_of_time():
                self.was_cut = True
                return b""
            if self._reader is None:
                if self._next >= len(self.run.pieces):
                    return b""
                piece = self.run.pieces[self._next]
                self._next += 1
                self._reader = self.open_piece(piece.chunk, piece.start, piece.size)
            if data := self._reader.read(size):
                return data
            self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


@dataclass(slots=True)
class _RunConnector:
    """The connector of one run."""

    stream: _RunStream
    name: str = CALLER

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[_RunStream]:
        yield self.stream


@dataclass(slots=True, frozen=True)
class Judgement:
    """Judges sessions. `attribute` is the engine.

    `exclusive` is held while judging: a scanner serves one at a time in a process.
    """

    sessions: Sessions
    blobs: SessionBlobs
    attribute: Attribute
    redactor: Redactor = field(default_factory=Redactor)
    exclusive: Callable[[], AbstractContextManager[object]] = nullcontext

    def judge(
        self,
        session: Session,
        book: Book,
        *,
        is_out_of_time: Callable[[], bool] = lambda: False,
    ) -> Judged:
        """Return the verdict over all that the session holds, or over what there was time for."""
        with self.exclusive():
            return self._judge(session, book, is_out_of_time)

    def _judge(self, session: Session, book: Book, is_out_of_time: Callable[[], bool]) -> Judged:
        scope = merge(session.statement_list)
        collecting = Collecting(
            book=book.rules,
            scanner=book.scanner,
            redactor=self.redactor,
            is_out_of_time=is_out_of_time,
        )
        arrived, pending = self._arrived(session)
        assembled = assemble(arrived, lambda c, start, size: self._range(session, c, start, size))
        # The smallest first, so that little time still covers most of the streams.
        runs = sorted(assembled.runs, key=lambda each: (each.size, each.uri))
        collected = [(run, self._collect(session, run, scope.workload, collecting)) for run in runs]
        sent = self.sessions.observation_bodies(session)
        observations, dropped = self._sent(
            [observation_of(sent[name]) for name in sorted(sent)], book
        )
        reports = [item.report for _, item in collected]
        reports += _own_reports(sent, dropped, pending, book)
        observations += state_observations(scope.workload, collecting, stated_by="caller")
        observations += [each for _, item in collected for each in item.observations]
        state = (scope.workload.state or "").upper()
        case = Case(
            workload=scope.workload,
            observations=observations,
            streams=[each for _, item in collected for each in item.summaries],
            reports=reports,
            windows=windows_of(scope.workload),
            losses=tuple(reported_losses(reports)),
            still_running=scope.workload.end is None
            and (state.startswith(_RUNNING) or (not state and scope.detection_signal is not None)),
            detection_signal=scope.detection_signal,
            stated_by="caller",
        )
        covered = [CoveredRun(run.uri, item.report, run.start, run.end) for run, item in collected]
        aside = {each.chunk_id for each in assembled.set_aside}
        return Judged(
            verdict=attribute_isolated(case, book.rules, self.attribute),
            scope=scope,
            runs=sorted(covered, key=lambda each: each.uri),
            pending=pending,
            set_aside=assembled.set_aside,
            chunk_ids=sorted(each.chunk_id for each in arrived if each.chunk_id not in aside),
            observation_ids=sorted(sent),
            is_out_of_time=any(_OUT_OF_TIME in (run.report.reason or "") for run in covered),
        )

    def _arrived(self, session: Session) -> tuple[list[Chunk], list[Chunk]]:
        chunks = [session.chunks[name] for name in sorted(session.chunks)]
        if not chunks:
            return [], []
        sizes = self.blobs.sizes(session.attempt_key, session.session_id)
        here = [each for each in chunks if sizes.get(each.sha256) == each.size]
        return here, [each for each in chunks if sizes.get(each.sha256) != each.size]

    def _open(self, session: Session, chunk: Chunk, start: int, size: int) -> BlobReader:
        key = blob_key(session.attempt_key, session.session_id, chunk.sha256)
        return self.blobs.open_range(key, start, size)

    def _range(self, session: Session, chunk: Chunk, start: int, size: int) -> bytes:
        reader = self._open(session, chunk, start, size)
        try:
            return reader.read(size)
        finally:
            reader.close()

    def _collect(
        self, session: Session, run: Run, workload: Workload, collecting: Collecting
    ) -> CollectedItem:
        """Extract one run, or take what was extracted of the very same before."""
        key = self._kept_key(session, run, workload, collecting.book)
        item = self._kept(key) if key else None
        if item is None:
            label = replace(label_of(run.stream, workload), uri=run.uri, trust="caller")
            stream = _RunStream(
                label,
                run,
                lambda chunk, start, size: self._open(session, chunk, start, size),
                collecting.is_out_of_time,
            )
            plan_item = PlanItem(
                item_id=run.uri, connector=CALLER, shard=run.uri, source=run.stream.source
            )
            item = collect_item(
                plan_item,
                workload=workload,
                connector=_RunConnector(stream),
                collecting=collecting,
            )
            if stream.was_cut or item.report.cursor is not None:
                return _told(item, [_OUT_OF_TIME, *run.troubles])
            if key:
                self._keep(key, item)
        return _told(item, run.troubles)

    def _kept_key(
        self, session: Session, run: Run, workload: Workload, rules: Rulebook
    ) -> str | None:
        if run.size < KEPT_FROM_BYTES:
            return None
        pieces = [[piece.chunk.sha256, piece.start, piece.size] for piece in run.pieces]
        name = digest(
            [
                run.uri,
                run.stream.model_dump(mode="json"),
                workload.model_dump(mode="json"),
                rules.extraction_digest,
                pieces,
            ]
        )
        return extracted_key(
            session.attempt_key, session.session_id, name.removeprefix("sha256:")[:32]
        )

    def _kept(self, key: str) -> CollectedItem | None:
        try:
            text = zstd.decompress(self.blobs.store.get(key)[0])
        except ObjectMissingError:
            return None
        head, _, rest = text.partition(b"\n")
        observations, summaries, _ = decode(rest)
        return CollectedItem(observations, summaries, Report.model_validate_json(head))

    def _keep(self, key: str, item: CollectedItem) -> None:
        items: list[Observation | StreamSummary] = [*item.observations, *item.summaries]
        body = canonical_json(item.report.model_dump(mode="json")) + b"\n" + encode(items)
        try:
            self.blobs.store.put_once(key, zstd.compress(body), content_type="application/zstd")
        except (ObjectConflictError, ConnectorError):
            return

    def _sent(self, sent: Sequence[Observation], book: Book) -> tuple[list[Observation], int]:
        """Return the observations that callers made under these rules, redacted and folded."""
        digests = ("", book.rules.extraction_digest)
        sound = [self._redacted(each) for each in sent if each.extraction_digest in digests]
        return fold(sound), len(sent) - len(sound)

    def _redacted(self, observation: Observation) -> Observation:
        mask = self.redactor.text

        def masked(sample: Sample) -> Sample:
            return replace(sample, text=mask(sample.text))

        return replace(
            observation,
            first=masked(observation.first),
            last=masked(observation.last),
            samples=tuple(masked(each) for each in observation.samples),
            fields={name: mask(value) for name, value in sorted(observation.fields.items())},
        )


def _told(item: CollectedItem, troubles: Sequence[str]) -> CollectedItem:
    """Return the item with what is wrong with its run in the report."""
    if not troubles:
        return item
    reasons = [*troubles, *([item.report.reason] if item.report.reason else [])]
    status = "error" if item.report.status == "error" else "partial"
    report = item.report.model_copy(update={"status": status, "reason": "; ".join(reasons)})
    return replace(item, report=report)


def _own_reports(
    sent: Mapping[str, object], dropped: int, pending: Sequence[Chunk], book: Book
) -> list[Report]:
    def report(shard: str, **more: object) -> Report:
        fields = {
            "item_id": f"{CALLER}-{shard}", "connector": CALLER, "shard": shard,
            "extraction_digest": book.rules.extraction_digest, **more,
        }  # fmt: skip
        return Report.model_validate(fields)

    reports = [
        Report(
            item_id=WORKLOAD, connector=WORKLOAD, shard="state", source="scheduler", status="ok",
            extraction_digest=book.rules.extraction_digest,
        )
    ]  # fmt: skip
    if sent:
        reason = f"{dropped} observations made under other rules" if dropped else None
        status = "partial" if dropped else "ok"
        reports.append(
            report("observations", status=status, reason=reason, observations=len(sent) - dropped)
        )
    reports += [
        report(
            f"{each.stream.path}@{each.offset}",
            source=each.stream.source,
            status="error",
            reason=f"{each.size} bytes were announced and have not come",
        )
        for each in pending
    ]
    if book.trouble:
        reports.append(report("rules", status="error", reason=book.trouble))
    return reports
