"""CloudWatch Logs: a job's streams of the groups that a site names, page by page.

Batch, SageMaker, HyperPod, PCS and ParallelCluster differ in groups and in the names of streams
only, and those are a site's patterns.
"""

import heapq
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol

from connectors.allowance import Allowance
from connectors.protocol import (
    Collected,
    ConnectorError,
    Probe,
    SourceNotConfiguredError,
    probe_status,
)
from connectors.static import expand_evidence, label_of
from connectors.telemetry.entry_store import EntryStore, Place, in_turn
from connectors.telemetry.entry_stream import EntryStream
from connectors.telemetry.filter_patterns import filter_patterns
from connectors.telemetry.logql import Entry, place_of, written
from connectors.telemetry.settings import CloudWatchGroup, CloudWatchSource
from connectors.telemetry.templates import TemplateValueError, fill
from engine.model.moment import parse_rfc3339
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source
from engine.model.workload import EvidenceSource, Workload

NAME: Final = "cloudwatch"
GROUP: Final = "group"
"""`query` key: which entry of `groups`, from 0."""
PART: Final = "part"
"""`query` key: `tail`, `before` it, or `all`."""
TEXTS: Final = "texts"
"""`query` key: a JSON list of [text, ignore case], one of which every match holds."""
MAX_STREAMS: Final = 5_000
_WILD: Final = "*?[{"


@dataclass(slots=True, frozen=True)
class LogEvent:
    """One event: milliseconds since the epoch and its text; `event_id` tells equal ones apart.

    Only a filtered answer names ids.
    """

    ms: int
    message: str
    event_id: str = ""


class LogsApi(Protocol):
    """What is asked of CloudWatch Logs; raises the errors of `connectors.protocol`."""

    def stream_names(
        self, group: str, prefix: str, most: int, on_request: Callable[[], None]
    ) -> list[str]:
        """Return the streams of a group whose name begins with `prefix`, sorted."""

    def page(
        self,
        group: str,
        stream: str,
        start_ms: int,
        end_ms: int,
        *,
        token: str | None,
        pattern: str | None = None,
    ) -> tuple[list[LogEvent], str | None]:
        """Return the events of `[start, end)` from a token on, and the token to go on with.

        With `pattern` only those that it keeps; a page may be empty and still not the last.
        """


@dataclass(slots=True)
class CloudWatchConnector(EntryStore):
    """CloudWatch Logs of one account and region."""

    cluster: str
    settings: CloudWatchSource
    api: LogsApi
    clock: Callable[[], float]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = NAME

    def sources(self) -> list[Source]:
        """Return the sources of the configured groups."""
        return [each.source for each in self.settings.groups]

    def read(
        self, item: PlanItem, workload: Workload, collected: Collected, *, allowance: Allowance
    ) -> Iterator[EntryStream]:
        """Yield the streams of an item."""
        yield from _Reading(self, allowance, item, workload, collected).streams()

    def probe(self) -> Probe:
        """List a stream of each group; never raises `ConnectorError`."""
        target = f"{self.cluster}: {self.settings.region}"
        try:
            for each in self.settings.groups:
                self.api.stream_names(each.group, "", 1, lambda: None)
        except ConnectorError as error:
            return Probe(self.name, target, probe_status(error), str(error))
        wanted = tuple(f"{each.source}: {each.group}: {', '.join(each.streams)}"
                       for each in self.settings.groups)  # fmt: skip
        return Probe(self.name, target, "ok", "all groups can be listed", wanted)


@dataclass(slots=True)
class _Reading:
    connector: CloudWatchConnector
    allowance: Allowance
    item: PlanItem
    workload: Workload
    collected: Collected

    def streams(self) -> Iterator[EntryStream]:
        group = self._group()
        chosen = self._choose(group)
        places = [Place(self._uri(each), partial(self._open, group, each)) for each in chosen]
        count = yield from in_turn(places, cursor=self.item.cursor, collected=self.collected)
        if count == 0 and self.collected.cursor is None and self.item.cursor is None:
            self.collected.coverage = "empty" if chosen else "unverified"
        elif self._patterns(group):
            self.collected.coverage = "filtered"

    def _open(
        self, group: CloudWatchGroup, entry: EvidenceSource, inside: str | None
    ) -> EntryStream:
        start_ms, end_ms = self._bounds()
        uri = self._uri(entry)
        since, given = _place(inside) if inside else (start_ms, 0)
        label = replace(label_of(entry, self.workload), uri=f"{uri}@{inside}" if given else uri)
        found = self._found(group, entry.path, since, end_ms)
        return self._stream(_but(found, since, given), label, uri=uri, start=(since, given))

    def _patterns(self, group: CloudWatchGroup) -> list[str]:
        """Return the filters of an item that is not read whole."""
        if self.item.query.get(PART) != "before" or not group.pushdown:
            return []
        try:
            texts = [
                (str(text), bool(ignores))
                for text, ignores in json.loads(self.item.query.get(TEXTS, "[]"))
            ]
        except (ValueError, TypeError) as error:
            raise ConnectorError(f"{self.item.item_id}: {TEXTS} is no list of texts") from error
        return filter_patterns(texts)

    def _group(self) -> CloudWatchGroup:
        number = self.item.query.get(GROUP, "0")
        groups = self.connector.settings.groups
        if not number.isdigit() or int(number) >= len(groups):
            raise SourceNotConfiguredError(f"sources.yaml has no cloudwatch group {number}")
        return groups[int(number)]

    def _choose(self, group: CloudWatchGroup) -> list[EvidenceSource]:
        """Return an entry for each stream of the job: its name is the path."""
        entries: list[EvidenceSource] = []
        for pattern in group.streams:
            try:
                path = fill(pattern, self.workload, safe=True)
            except TemplateValueError as error:
                self.collected.warnings.append(f"{group.group}: {pattern}: {error}")
                continue
            entries.append(EvidenceSource(path=path, source=group.source, timezone=group.timezone))
        names: set[str] = set()
        for prefix in sorted({_fixed(each.path) for each in entries}):
            found = self.connector.api.stream_names(
                group.group, prefix, MAX_STREAMS, self._count_request
            )
            names.update(found)
            if len(found) >= MAX_STREAMS:
                self.collected.warnings.append(
                    f"{group.group}: only {MAX_STREAMS} streams that begin with {prefix!r} were "
                    "looked at; give a narrower pattern"
                )
                self.collected.paths_missing.append(f"{NAME}/{group.name}/more streams")
        expanded, missing = expand_evidence(entries, sorted(names))
        self.collected.warnings += [f"{group.group}: no stream {each}" for each in missing]
        return [each for each in expanded if self._is_own(each)]

    def _is_own(self, entry: EvidenceSource) -> bool:
        request = self.item.request
        wanted = set(self.workload.nodes)
        if request is not None and request.entities:
            wanted = wanted & set(request.entities) or wanted
        return not entry.node or not wanted or bool(set(entry.node) & wanted)

    def _count_request(self) -> None:
        self.allowance.take_request(f"cloudwatch {self.connector.settings.region}")

    def _found(
        self, group: CloudWatchGroup, name: str, since: int, end_ms: int
    ) -> Iterator[LogEvent]:
        """Yield the events that any pattern keeps, once each, or all where there is none."""
        patterns = self._patterns(group)
        if not patterns:
            yield from self._events(group, name, since, end_ms, pattern=None)
            return
        passes = [self._events(group, name, since, end_ms, pattern=each) for each in patterns]
        at_ms = -1
        seen: set[str] = set()
        for event in heapq.merge(*passes, key=lambda each: (each.ms, each.event_id)):
            if event.ms != at_ms:
                at_ms, seen = event.ms, set()
            if event.event_id not in seen:
                seen.add(event.event_id)
                yield event

    def _events(
        self, group: CloudWatchGroup, name: str, since: int, end_ms: int, *, pattern: str | None
    ) -> Iterator[LogEvent]:
        token: str | None = None
        while True:
            self._count_request()
            events, following = self.connector.api.page(
                group.group, name, since, end_ms, token=token, pattern=pattern
            )
            yield from events
            # The service gives the same token again where a stream that is read whole ends.
            if following is None or following == token:
                return
            token = following

    def _stream(
        self, events: Iterator[LogEvent], label: StreamLabel, *, uri: str, start: tuple[int, int]
    ) -> EntryStream:
        last_ms, count = start

        def lines() -> Iterator[bytes]:
            nonlocal last_ms, count
            for event in events:
                count = count + 1 if event.ms == last_ms else 1
                last_ms = event.ms
                entry = Entry(event.ms * 1_000_000, event.message)
                line = written(entry, node_label=None, rank_label=None)
                self.allowance.take_bytes(len(line))
                yield line

        def on_cut(error: ConnectorError) -> None:
            # Events of one millisecond may lie on both sides of a page.
            self.collected.cursor = f"{uri}@{last_ms}+{count}"
            self.collected.warnings.append(f"{label.uri}: {error}")

        return EntryStream(label, lines(), on_cut)

    def _bounds(self) -> tuple[int, int]:
        windows = {each.name: each for each in self.item.windows}
        tail, startup, whole = (windows.get(n) for n in ("tail", "startup", "whole"))
        ends = [each.end for each in (tail, whole) if each is not None and each.end]
        end = _ms_of(ends[0]) if ends else int(self.connector.now().timestamp() * 1000)
        tails = [each.start for each in (tail,) if each is not None and each.start]
        tail_ms = _ms_of(tails[0]) if tails else end - 3_600_000
        firsts = [each.start for each in (startup, whole) if each is not None and each.start]
        first = min(tail_ms, _ms_of(firsts[0])) if firsts else tail_ms
        part = self.item.query.get(PART, "all")
        return (tail_ms if part == "tail" else first), (tail_ms if part == "before" else end)

    def _uri(self, entry: EvidenceSource) -> str:
        part = self.item.query.get(PART, "all")
        return f"{NAME}/{self._group().name}/{place_of({'stream': entry.path})}/{part}"


def _but(events: Iterator[LogEvent], since: int, given: int) -> Iterator[LogEvent]:
    """Yield the events but the first `given` ones of the millisecond `since`."""
    for event in events:
        if given > 0 and event.ms == since:
            given -= 1
            continue
        yield event


def _place(text: str) -> tuple[int, int]:
    """Return the millisecond of a cursor, and how many events of it are given already."""
    ms, _, count = text.partition("+")
    if not ms.isdigit() or not count.isdigit():
        raise ConnectorError(f"cursor @{text} is none of ours")
    return int(ms), int(count)


def _fixed(path: str) -> str:
    """Return what stands before the first wildcard."""
    places = [path.index(each) for each in _WILD if each in path]
    return path[: min(places)] if places else path


def _ms_of(text: str) -> int:
    return round(parse_rfc3339(text, None).timestamp() * 1000)
