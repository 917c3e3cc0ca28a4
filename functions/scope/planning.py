"""The plan: which windows, which files, packed into how many items. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import heapreplace
from math import ceil
from typing import Final

from connectors.static import NAME as STATIC
from connectors.static import expand_evidence
from engine.model.canonical import short_id
from engine.model.evidence_request import EvidenceRequest
from engine.model.identity import attempt_key
from engine.model.moment import rfc3339, to_us
from engine.model.plan import MAX_ITEMS, Budget, Plan, PlanItem, Window
from engine.model.vocabulary import SOURCES, Source
from engine.model.workload import EvidenceSource, Workload
from engine.rulebook.book import Rulebook

WORKLOAD: Final = "workload"
"""The connector of the item that turns the scheduler's own words into facts; it reads nothing."""

ITEM_BYTES: Final = 256 * 1024**2
"""What one item should read: a second or two of scanning against half a second of start-up."""
ITEM_TEXT_BYTES: Final = 96 * 1024
"""What the entries of one item should take as JSON; a child's input has at most 256 KiB."""
UNKNOWN_SIZE_BYTES: Final = 16 * 1024**2
_STARTUP_BEFORE = timedelta(minutes=10)
_STARTUP_FOR = timedelta(minutes=30)
_TAIL_SLACK = timedelta(minutes=10)
_TAIL_AFTER = timedelta(minutes=5)
_DEFAULT_TIMER = timedelta(minutes=30)
_LOST_NODE_LAG = timedelta(minutes=10)
"""Slurm declares a node lost after SlurmdTimeout, 300 s by default, checked every third of it."""
_HISTORY = timedelta(hours=24)


@dataclass(slots=True, frozen=True)
class RuleDigests:
    """The ruleset that a plan pins."""

    version: str
    extraction: str
    reasoning: str

    @classmethod
    def of(cls, book: Rulebook) -> "RuleDigests":
        """Return the digests of a loaded rulebook."""
        return cls(book.version, book.extraction_digest, book.reasoning_digest)


def make_plan(
    workload: Workload,
    evidence: Sequence[EvidenceSource],
    *,
    digests: RuleDigests,
    base_uri: str | None = None,
    generation: int = 1,
    collection: int = 1,
    requests: Sequence[EvidenceRequest] = (),
    sizes: Mapping[str, int] | None = None,
    budget: Budget | None = None,
    timer: timedelta = _DEFAULT_TIMER,
) -> Plan:
    """Return the plan of one collection; ids depend on content only.

    With `sizes` (path to stored bytes) globs and templates become literal entries, so that ten
    thousand rank files spread over the items. With `requests` only what they name is read.
    """
    windows = windows_of(workload, timer=timer)
    notes: list[str] = []
    entries = list(evidence)
    if sizes is not None:
        entries, missing = expand_evidence(entries, list(sizes))
        notes += [f"{path}: matches no file" for path in missing]
        entries += [entry for entry in evidence if entry.path in set(missing)]
    shards = _shards_for(entries, requests, sizes=sizes or {}, notes=notes)
    items = [] if requests else [_workload_item(windows)]
    for source, number, request, packed in shards:
        shard = f"{source}-{number:03d}"
        body = [entry.model_dump_json() for entry in packed]
        items.append(
            PlanItem(
                item_id=short_id("i", STATIC, shard, str(collection), *body),
                connector=STATIC,
                shard=shard,
                source=source,
                windows=windows,
                budget=budget or Budget(),
                base_uri=base_uri,
                evidence=tuple(packed),
                request=request,
            )
        )
    return Plan(
        attempt_key=attempt_key(workload),
        generation=generation,
        collection=collection,
        workload=workload,
        windows=windows,
        items=tuple(items),
        rules_version=digests.version,
        extraction_digest=digests.extraction,
        reasoning_digest=digests.reasoning,
        notes=tuple(notes),
    )


def windows_of(workload: Workload, *, timer: timedelta = _DEFAULT_TIMER) -> tuple[Window, ...]:
    """Return the four windows of DESIGN, "Windows"; an unknown start or end leaves them open."""
    start, end = workload.start, workload.end
    state = (workload.state or "").upper()
    after = _TAIL_AFTER + (_LOST_NODE_LAG if state.startswith("NODE_FAIL") else timedelta())
    before = max(timer, _DEFAULT_TIMER) + _TAIL_SLACK
    startup_end = None if start is None else start + _STARTUP_FOR
    return (
        _window("startup", _moved(start, -_STARTUP_BEFORE), startup_end),
        _window("tail", _moved(end, -before), _moved(end, after)),
        _window("whole", start, end),
        _window("history", _moved(start, -_HISTORY), _moved(start, -_STARTUP_BEFORE)),
    )


def _moved(moment: datetime | None, by: timedelta) -> datetime | None:
    try:
        return None if moment is None else moment + by
    except OverflowError:
        return moment


def _window(name: str, start: datetime | None, end: datetime | None) -> Window:
    return Window.model_validate(
        {
            "name": name,
            "start": None if start is None else rfc3339(to_us(start)),
            "end": None if end is None else rfc3339(to_us(end)),
        }
    )


def _workload_item(windows: tuple[Window, ...]) -> PlanItem:
    return PlanItem(
        item_id=short_id("i", WORKLOAD, "state"),
        connector=WORKLOAD,
        shard="state",
        source="scheduler",
        windows=windows,
    )


_Shard = tuple[Source, int, EvidenceRequest | None, list[EvidenceSource]]


def _shards_for(
    entries: Sequence[EvidenceSource],
    requests: Sequence[EvidenceRequest],
    *,
    sizes: Mapping[str, int],
    notes: list[str],
) -> list[_Shard]:
    if not requests:
        return [
            (source, number, None, packed)
            for source, number, packed in _pack(entries, sizes=sizes, items=MAX_ITEMS - 1)
        ]
    shards: list[_Shard] = []
    taken: set[str] = set()
    room = max(1, MAX_ITEMS // len(requests))
    for request in sorted(requests, key=lambda each: each.model_dump_json())[:MAX_ITEMS]:
        wanted = [e for e in entries if _answers(e, request) and e.path not in taken]
        taken.update(entry.path for entry in wanted)
        if not wanted:
            notes.append(f"no {request.source} evidence for {', '.join(request.entities) or 'job'}")
            continue
        offset = len(shards)
        for source, number, packed in _pack(wanted, sizes=sizes, items=room):
            shards.append((source, offset + number, request, packed))
    return shards


def _answers(entry: EvidenceSource, request: EvidenceRequest) -> bool:
    if entry.source != request.source:
        return False
    return not request.entities or not entry.node or bool(set(entry.node) & set(request.entities))


def _pack(
    entries: Sequence[EvidenceSource], *, sizes: Mapping[str, int], items: int
) -> list[tuple[Source, int, list[EvidenceSource]]]:
    """Pack by source, largest first into the emptiest item: equal work, few items.

    An item is full by what it reads or by what it says: ten thousand small files are megabytes of
    names, and Step Functions hands a child at most 256 KiB.
    """
    weighed: dict[Source, list[tuple[int, str, EvidenceSource]]] = {}
    for entry in entries:
        weight = max(1, sizes.get(entry.path, UNKNOWN_SIZE_BYTES))
        weighed.setdefault(entry.source, []).append((weight, entry.model_dump_json(), entry))
    every = [each for group in weighed.values() for each in group]
    # One item per source may be nearly empty, so the rest share what is left of the ceiling.
    share = max(1, items - len(SOURCES))
    item_bytes = max(ITEM_BYTES, -(-sum(weight for weight, _, _ in every) // share))
    item_text = max(ITEM_TEXT_BYTES, -(-sum(len(text) for _, text, _ in every) // share))
    loads = [weight / item_bytes + len(text) / item_text for weight, text, _ in every]
    scale = max(1.0, sum(loads) / share)
    packed: list[tuple[Source, int, list[EvidenceSource]]] = []
    for source in sorted(weighed):
        group = [
            ((weight / item_bytes + len(text) / item_text) / scale, text, entry)
            for weight, text, entry in weighed[source]
        ]
        group.sort(key=lambda each: (-each[0], each[1]))
        count = min(len(group), max(1, ceil(sum(load for load, _, _ in group))))
        bins: list[tuple[float, int, list[EvidenceSource]]] = [(0.0, n, []) for n in range(count)]
        for load, _, entry in group:
            held, number, members = bins[0]
            members.append(entry)
            heapreplace(bins, (held + load, number, members))
        for _, number, members in sorted(bins, key=lambda each: each[1]):
            packed.append((source, number, sorted(members, key=lambda each: each.path)))
    return packed
