"""Logs of a job and its nodes from Grafana Loki: stream by stream, page by page.

The tail window is fetched whole; of what lies before it only lines that some rule could match. A
positive control tells streams that were silent from labels that match nothing at all.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from connectors.allowance import Allowance
from connectors.http_source import HttpSource
from connectors.protocol import (
    TRUST_OF_SOURCE,
    Collected,
    ConnectorError,
    MalformedAnswerError,
    Probe,
    SourceNotConfiguredError,
    probe_status,
)
from connectors.telemetry.entry_store import EntryStore, Place, in_turn
from connectors.telemetry.entry_stream import EntryStream
from connectors.telemetry.logql import (
    count_query,
    exact_selector,
    line_filters,
    place_of,
    stream_selector,
    written,
)
from connectors.telemetry.loki_paging import Pager
from connectors.telemetry.settings import LokiSource, LokiStream
from connectors.telemetry.templates import TemplateValueError, fill
from engine.model.moment import parse_rfc3339
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source
from engine.model.workload import Workload

NAME: Final = "loki"
STREAM: Final = "stream"
"""`query` key: which entry of `streams`, from 0."""
PART: Final = "part"
"""`query` key: `tail` is fetched whole, `before` by the texts, `all` whole from the start."""
TEXTS: Final = "texts"
"""`query` key: a JSON list of [text, ignore case], one of which every match holds."""
CATEGORIZE: Final = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
"""Keeps structured metadata out of the stream's labels (Loki 3)."""
_CONTROL_S: Final = 24 * 3600
_NS: Final = 1_000_000_000
_MAX_TOLD: Final = 20


@dataclass(slots=True, frozen=True)
class _Chosen:
    """One stream with its place among the others; `start_ns` moves when it is gone on from."""

    uri: str
    labels: Mapping[str, str]
    query: tuple[str, ...]
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class LokiConnector(EntryStore):
    """One Loki. `open_source` gives its HTTP side for an allowance."""

    cluster: str
    settings: LokiSource
    open_source: Callable[[Allowance], HttpSource]
    clock: Callable[[], float]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = NAME

    def sources(self) -> list[Source]:
        """Return the sources of the configured streams."""
        return [each.source for each in self.settings.streams]

    def read(
        self, item: PlanItem, workload: Workload, collected: Collected, *, allowance: Allowance
    ) -> Iterator[EntryStream]:
        """Yield the streams of an item."""
        reading = _Reading(self, self.open_source(allowance), item, workload, collected)
        yield from reading.streams()

    def probe(self) -> Probe:
        """Ask for the names of labels; never raises `ConnectorError`."""
        target = f"{self.cluster}: {self.settings.url}"
        try:
            source = self.open_source(Allowance(self.settings.budget, self.clock))
            end = int(self.now().timestamp()) * _NS
            window = {"start": end - 3600 * _NS, "end": end}
            found = source.get_json("/loki/api/v1/labels", window)
            names = sorted(str(each) for each in found.get("data") or ())
        except ConnectorError as error:
            return Probe(self.name, target, probe_status(error), str(error))
        except AttributeError:
            return Probe(self.name, target, "malformed", "the answer is no object")
        wanted = {name for each in self.settings.streams for name in each.match}
        unknown = sorted(wanted - set(names))
        told = f"answers; labels of the last hour: {', '.join(names) or 'none'}"
        if unknown:
            told += f"; sources.yaml names labels that it has not: {', '.join(unknown)}"
        collect = tuple(f"{each.source}: {stream_selector(each.match)}"
                        for each in self.settings.streams)  # fmt: skip
        return Probe(self.name, target, "ok", told, collect)


@dataclass(slots=True)
class _Reading:
    """One item's reading."""

    connector: LokiConnector
    source: HttpSource
    item: PlanItem
    workload: Workload
    collected: Collected

    def streams(self) -> Iterator[EntryStream]:
        settings = self._settings()
        try:
            match = {name: fill(text, self.workload) for name, text in settings.match.items()}
        except TemplateValueError as error:
            self.collected.coverage = "unverified"
            self.collected.warnings.append(str(error))
            return
        nodes = self._nodes() if settings.by_node else []
        if settings.by_node and not nodes:
            self.collected.coverage = "unverified"
            self.collected.warnings.append("the job's nodes are not known")
            return
        start_ns, end_ns = self._bounds()
        selector = stream_selector(match, node_label=settings.node_label or "", nodes=nodes)
        found = self._series(selector, start_ns, end_ns)
        self._note_nodes(found, nodes, settings)
        filters = line_filters(self._texts()) if self.item.query.get(PART) == "before" else [""]
        known = sorted({name for labels in found for name in labels})
        chosen = [
            _Chosen(
                self._uri(labels),
                labels,
                tuple(exact_selector(labels, known) + each for each in filters),
                start_ns,
                end_ns,
            )
            for labels in found
        ]
        places = [Place(each.uri, partial(self._stream, each, settings)) for each in chosen]
        count = yield from in_turn(places, cursor=self.item.cursor, collected=self.collected)
        if count == 0 and self.collected.cursor is None and self.item.cursor is None:
            self._control(selector, match, found, end_ns=end_ns, nodes=nodes)
        elif self.item.query.get(PART) == "before":
            self.collected.coverage = "filtered"

    def _stream(self, chosen: _Chosen, settings: LokiStream, inside: str | None) -> EntryStream:
        is_going_on = inside is not None and inside.isdigit()
        start_ns = int(inside) if inside is not None and is_going_on else chosen.start_ns
        uri = f"{chosen.uri}@{inside}" if is_going_on else chosen.uri
        last_ns = start_ns
        is_known = settings.source != "syslog" or self._node(chosen.labels, settings)
        node_label = None if is_known else settings.node_label
        rank_label = None if settings.rank_label in chosen.labels else settings.rank_label

        def lines() -> Iterator[bytes]:
            nonlocal last_ns
            pager = Pager(self.source, self.connector.settings.page_lines, told)
            for entry in pager.merged(chosen.query, start_ns, chosen.end_ns):
                last_ns = entry.ns
                yield written(entry, node_label=node_label, rank_label=rank_label)

        def told(text: str) -> None:
            self.collected.warnings.append(f"{uri}: {text}")

        def on_cut(error: ConnectorError) -> None:
            self.collected.cursor = f"{chosen.uri}@{last_ns + 1}"
            told(str(error))

        return EntryStream(self._label(chosen.labels, uri, settings), lines(), on_cut)

    def _label(self, labels: Mapping[str, str], uri: str, settings: LokiStream) -> StreamLabel:
        node = self._node(labels, settings)
        rank = labels.get(settings.rank_label or "", "")
        nodes: tuple[str, ...] = (node,) if node else ()
        holds_hosts = settings.source == "syslog" and len(self.workload.nodes) > 1
        if not nodes and (settings.source == "applog" or holds_hosts):
            nodes = self.workload.nodes
        return StreamLabel(
            uri=uri,
            source=settings.source,
            trust=settings.trust or TRUST_OF_SOURCE[settings.source],
            nodes=nodes,
            ranks=(int(rank),) if rank.isdigit() and len(rank) < 8 else (),
            pod=labels.get(settings.pod_label or "", ""),
            container=labels.get(settings.container_label or "", ""),
            timezone=settings.timezone,
        )

    def _node(self, labels: Mapping[str, str], settings: LokiStream) -> str:
        """Return the job's name of the node that a label names, or the label's value."""
        value = labels.get(settings.node_label or "", "")
        short = value.partition(":")[0].partition(".")[0]
        return next((each for each in self.workload.nodes if each in (value, short)), value)

    def _settings(self) -> LokiStream:
        number = self.item.query.get(STREAM, "0")
        streams = self.connector.settings.streams
        if not number.isdigit() or int(number) >= len(streams):
            raise SourceNotConfiguredError(f"sources.yaml has no loki stream {number}")
        return streams[int(number)]

    def _nodes(self) -> list[str]:
        request = self.item.request
        if request is not None and (named := set(request.entities) & set(self.workload.nodes)):
            return sorted(named)
        return sorted(set(self.workload.nodes))

    def _texts(self) -> list[tuple[str, bool]]:
        try:
            return [(str(text), bool(ignore)) for text, ignore in json.loads(
                self.item.query.get(TEXTS, "[]"))]  # fmt: skip
        except (ValueError, TypeError) as error:
            raise ConnectorError(f"{self.item.item_id}: {TEXTS} is no list of texts") from error

    def _bounds(self) -> tuple[int, int]:
        """Return nanoseconds of the item's part; an open end is now, an open start an hour back."""
        windows = {each.name: each for each in self.item.windows}
        tail, startup, whole = (windows.get(n) for n in ("tail", "startup", "whole"))
        now = self.connector.now()
        ends = [each.end for each in (tail, whole) if each is not None and each.end]
        end = parse_rfc3339(ends[0], None) if ends else now
        tail_start = _start_of(tail) or datetime.fromtimestamp(end.timestamp() - 3600, UTC)
        first = _start_of(startup) or _start_of(whole) or tail_start
        part = self.item.query.get(PART, "all")
        start = tail_start if part == "tail" else min(first, tail_start)
        if part == "before":
            end = tail_start
        return _ns_of(start), _ns_of(end)

    def _series(self, selector: str, start_ns: int, end_ns: int) -> list[dict[str, str]]:
        params: dict[str, str | int] = {"match[]": selector, "start": start_ns, "end": end_ns}
        answer = self.source.get_json("/loki/api/v1/series", params)
        data = answer.get("data") if isinstance(answer, Mapping) else None
        if not isinstance(data, list):
            raise MalformedAnswerError(f"{self.source.what}: no list of streams")
        found = [
            {str(k): str(v) for k, v in each.items()} for each in data if isinstance(each, Mapping)
        ]
        ordered = sorted(found, key=lambda each: sorted(each.items()))
        most = self.connector.settings.max_streams
        if len(ordered) > most:
            self.collected.warnings.append(
                f"{len(ordered)} streams match, {most} are read; narrow match or raise max_streams"
            )
            self.collected.paths_missing.append(f"{NAME}/{len(ordered) - most} streams more")
        return list(itertools.islice(ordered, most))

    def _note_nodes(
        self, found: Sequence[Mapping[str, str]], nodes: Sequence[str], settings: LokiStream
    ) -> None:
        if found and nodes:
            lost = sorted(set(nodes) - {self._node(labels, settings) for labels in found})
            self.collected.paths_missing += [f"{NAME}/of {node}" for node in lost[:_MAX_TOLD]]

    def _control(
        self,
        selector: str,
        match: Mapping[str, str],
        found: Sequence[object],
        *,
        end_ns: int,
        nodes: Sequence[str],
    ) -> None:
        """Tell `empty` from `unverified`: was there ever anything under these labels?"""
        self.collected.coverage = "unverified"
        try:
            if found or self._count(selector, end_ns):
                self.collected.coverage = "empty"
                return
            if nodes and self._count(stream_selector(match), end_ns):
                self.collected.warnings.append(
                    f"{stream_selector(match)} has lines, but none of these nodes; check node_label"
                )
                return
        except ConnectorError as error:
            self.collected.warnings.append(f"the control failed: {error}")
            return
        self.collected.warnings.append(f"{selector} matches nothing in 24 h; check the labels")

    def _count(self, selector: str, end_ns: int) -> int:
        params: dict[str, str | int] = {
            "query": count_query(selector, _CONTROL_S),
            "time": end_ns,
        }
        answer = self.source.get_json("/loki/api/v1/query", params)
        try:
            values: list[Any] = [each["value"][1] for each in answer["data"]["result"]]
            return sum(int(float(each)) for each in values)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise MalformedAnswerError(f"{self.source.what}: no count ({error!r})") from error

    def _uri(self, labels: Mapping[str, str]) -> str:
        part = self.item.query.get(PART, "all")
        return f"{NAME}/{self.item.query.get(STREAM, '0')}/{place_of(labels)}/{part}"


def _start_of(window: Any) -> datetime | None:
    return None if window is None or window.start is None else parse_rfc3339(window.start, None)


def _ns_of(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1_000
