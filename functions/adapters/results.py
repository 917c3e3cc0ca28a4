"""The results, typed: one client for the command line, the web view and the REST service.

A client may be bound to a tenant; it then answers as if nothing else were stored. Pages carry a
cursor, which is a place in time and not a permission: partitions always come from the question
and the tenant. One page looks at no more than `MAX_EXAMINED` items (docs/storage.md).
"""

import base64
import binascii
import heapq
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from engine.model.contract import Document
from engine.model.envelope import Envelope, read_envelope
from engine.model.evidence_request import EvidenceRequest
from engine.model.verdict import Action, Verdict, read_verdict
from engine.model.vocabulary import (
    Domain,
    EntityRole,
    Manifestation,
    QualityLevel,
    RevisionStatus,
    TerminalState,
)
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery, Span
from functions.adapters.results_table import Item

MAX_PAGE: Final = 200
MAX_EXAMINED: Final = 2_000
"""Items that one page may look at; beyond it the page is short and its cursor goes on."""
_CURSOR_BYTES: Final = 3_000


class CursorError(ValueError):
    """A cursor that no page of ours gave out."""


class CauseRow(Document):
    """A root cause as the table keeps it; `entity` is the entity's id."""

    cause_id: str
    primary: bool
    symptom: str
    rule: str
    domain: Domain
    title: str
    quality: QualityLevel
    entity: str


class GpuNames(Document):
    """The names of a GPU where known; serial and UUID go with it to another slot."""

    index: int | None = None
    pci: str | None = None
    uuid: str | None = None
    serial: str | None = None


class Result(Document):
    """One attempt's verdict as the table keeps it; the document is at `verdict_key`.

    `cluster` is `tenant/cluster`, times are RFC 3339. In answers about a node or a GPU, `node`,
    `role` and `gpu` say which part it had, `title` names the primary cause, and what only the
    whole result tells is empty.
    """

    attempt_key: str
    revision: int
    cluster: str
    job_id: str
    ended_key: str = ""
    scheduler: str | None = None
    name: str | None = None
    user: str | None = None
    start: str | None = None
    end: str | None = None
    terminal_state: TerminalState
    domain: Domain
    failure_class: str
    quality: QualityLevel
    summary: str
    status: RevisionStatus | None = None
    supersedes: int | None = None
    published_at: str | None = None
    attribution_id: str | None = None
    manifest_digest: str | None = None
    verdict_key: str | None = None
    envelope_key: str | None = None
    manifestation: Manifestation | None = None
    root_causes: tuple[CauseRow, ...] = ()
    root_causes_omitted: int = 0
    culprits: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    suspects_omitted: int = 0
    actions: tuple[Action, ...] = ()
    actions_omitted: int = 0
    would_change: tuple[EvidenceRequest, ...] = ()
    would_change_omitted: int = 0
    rules_version: str | None = None
    generation: int | None = None
    collection: int | None = None
    node: str | None = None
    role: EntityRole | None = None
    gpu: GpuNames | None = None
    title: str | None = None

    @property
    def tenant(self) -> str:
        """The tenant, as spelled in `cluster`."""
        return self.cluster.split("/", 1)[0]


@dataclass(slots=True, frozen=True)
class Selection:
    """Which results are asked for; what is None does not restrict.

    `cluster` is `tenant/cluster`; `gpu` a serial number or UUID; `since` (included) and `until`
    (excluded) are RFC 3339 in UTC and speak of the attempt's end.
    """

    cluster: str | None = None
    job_id: str | None = None
    node: str | None = None
    gpu: str | None = None
    failure_class: str | None = None
    domain: str | None = None
    terminal_state: str | None = None
    quality: str | None = None
    role: str | None = None
    since: str | None = None
    until: str | None = None

    def holds(self, item: Item) -> bool:
        """Whether an item is one of those asked for, as far as its own attributes tell."""
        for name in ("cluster", "failure_class", "domain", "terminal_state", "quality", "role"):
            wanted = getattr(self, name)
            if wanted is not None and item.get(name) != wanted:
                return False
        return True


@dataclass(slots=True, frozen=True)
class Page:
    """A stretch of results, newest first. `cursor` continues it; None means that this was all.

    `examined_until` is the end of the oldest attempt looked at where the page is short because
    it looked at `MAX_EXAMINED` items without finding more.
    """

    results: tuple[Result, ...]
    cursor: str | None = None
    examined: int = 0
    examined_until: str | None = None


@dataclass(slots=True)
class _Walk:
    """Results in order, with a count of what was looked at."""

    items: Iterator[Item]
    selection: Selection
    tenant: str | None
    examined: int = 0
    last: str | None = None
    found: list[Result] = field(default_factory=list)

    def take(self, limit: int) -> Page:
        for item in self.items:
            if len(self.found) == limit:
                return Page(tuple(self.found), self._cursor(), self.examined)
            # Equal keys (a claim and its result) stay together, or the cursor would lose one.
            if self.examined >= MAX_EXAMINED and item["ended_key"] != self.last:
                place = (self.last or "").split("#", 1)[0]
                return Page(tuple(self.found), self._cursor(), self.examined, place)
            self.examined += 1
            self.last = item["ended_key"]
            if _is_result(item) and self._is_ours(item) and self.selection.holds(item):
                self.found.append(Result.model_validate(item))
        return Page(tuple(self.found), None, self.examined)

    def _is_ours(self, item: Item) -> bool:
        return self.tenant is None or item["cluster"].startswith(f"{self.tenant}/")

    def _cursor(self) -> str:
        return _encode_cursor(self.last or "")


@dataclass(slots=True, frozen=True)
class Results:
    """Read access to one deployment's results. Raises `TableBusyError` where a retry may help."""

    query: ResultsQuery
    store: ObjectStore
    tenant: str | None = None

    def page(self, selection: Selection, *, limit: int = 50, cursor: str | None = None) -> Page:
        """Return up to `limit` results, newest first; raises `CursorError` for a foreign cursor."""
        before = selection.until
        if cursor is not None:
            place = _decode_cursor(cursor)
            before = place if before is None else min(before, place)
        span = Span(selection.since, before)
        walk = _Walk(self._items(selection, span), selection, self.tenant)
        return walk.take(max(1, min(limit, MAX_PAGE)))

    def gather(self, selection: Selection, *, limit: int, cursor: str | None = None) -> Page:
        """Return up to `limit` results over as many pages as that takes."""
        found: list[Result] = []
        examined = 0
        while True:
            page = self.page(selection, limit=limit - len(found), cursor=cursor)
            found += page.results
            examined += page.examined
            cursor = page.cursor
            if cursor is None or len(found) >= limit:
                return Page(tuple(found), cursor, examined)

    def walk(self, selection: Selection, *, at_most: int) -> Iterator[Result]:
        """Yield results newest first, page after page, until there are no more or `at_most`."""
        cursor = None
        while at_most > 0:
            page = self.page(selection, limit=at_most, cursor=cursor)
            yield from page.results
            at_most -= len(page.results)
            cursor = page.cursor
            if cursor is None:
                return

    def current(self, attempt_key: str) -> Result | None:
        """Return the newest revision of an attempt, read consistently, or None."""
        if self.tenant is not None and not attempt_key.startswith(f"{self.tenant}/"):
            return None
        item = self.query.current(attempt_key)
        return None if item is None else Result.model_validate(item)

    def revisions(self, attempt_key: str) -> tuple[Result, ...]:
        """Return every revision of an attempt, newest first; empty where there is none."""
        if self.tenant is not None and not attempt_key.startswith(f"{self.tenant}/"):
            return ()
        return tuple(Result.model_validate(item) for item in self.query.revisions(attempt_key))

    def revision(self, attempt_key: str, number: int) -> Result | None:
        """Return one revision of an attempt, or None."""
        found = (each for each in self.revisions(attempt_key) if each.revision == number)
        return next(found, None)

    def clusters(self) -> tuple[str, ...]:
        """Return every `tenant/cluster` that has results."""
        return tuple(self.query.clusters(self.tenant))

    def document(self, result: Result) -> bytes:
        """Return the canonical bytes of a verdict; raises `ObjectMissingError` after its life."""
        return self.store.get(_required(result.verdict_key, result))[0]

    def verdict(self, result: Result) -> Verdict:
        """Return the verdict of a result."""
        return read_verdict(json.loads(self.document(result)))

    def envelope(self, result: Result) -> Envelope:
        """Return the envelope of a result: the verdict with revision, status and times."""
        return read_envelope(json.loads(self.store.get(_required(result.envelope_key, result))[0]))

    def _items(self, selection: Selection, span: Span) -> Iterator[Item]:
        query = self.query
        if selection.job_id is not None:
            return query.by_job(selection.job_id, span)
        if selection.gpu is not None or selection.node is not None:
            return _newest(
                query.by_gpu(cluster, selection.gpu, span)
                if selection.gpu is not None
                else query.by_node(cluster, selection.node or "", span)
                for cluster in self._clusters(selection)
            )
        if selection.failure_class is not None and selection.cluster is None:
            return query.by_class(selection.failure_class, span)
        return self._by_day(selection, span)

    def _clusters(self, selection: Selection) -> Iterator[str]:
        if selection.cluster is None:
            yield from self.query.clusters(self.tenant)
        elif self.tenant is None or selection.cluster.startswith(f"{self.tenant}/"):
            yield selection.cluster

    def _by_day(self, selection: Selection, span: Span) -> Iterator[Item]:
        if selection.cluster is not None and not list(self._clusters(selection)):
            return
        bounds = {}
        if span.since is not None:
            bounds["first"] = span.since[:10]
        if span.before is not None:
            bounds["last"] = span.before[:10]
        pairs = self.query.days(selection.cluster, **bounds)
        for day, group in groupby(pairs, key=lambda pair: pair[1]):
            yield from _newest(
                self.query.by_day(cluster, day, span)
                for cluster, _ in group
                if self.tenant is None or cluster.startswith(f"{self.tenant}/")
            )


def _newest(streams: Iterator[Iterator[Item]]) -> Iterator[Item]:
    """Merge streams that are each newest first."""
    return heapq.merge(*streams, key=lambda item: str(item["ended_key"]), reverse=True)


def _is_result(item: Item) -> bool:
    """A claim without a verdict is no result; a part speaks of one."""
    return "failure_class" in item


def _required(key: str | None, result: Result) -> str:
    if key is None:
        raise ValueError(f"{result.attempt_key}: a part carries no document; ask for `current`")
    return key


def _encode_cursor(place: str) -> str:
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    if len(cursor) > _CURSOR_BYTES:
        raise CursorError("cursor: longer than any that was given out; begin without one")
    try:
        place = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (binascii.Error, ValueError) as error:
        raise CursorError(
            "cursor: not one that was given out; leave it away to begin at the newest"
        ) from error
    if "#" not in place:
        raise CursorError("cursor: not one that was given out; begin without one")
    return place
