"""Metrics of a job's nodes from Prometheus or what speaks its API (Amazon Managed Prometheus too).

Through prometheus-api-client. What a site does not export is told as such and is never health.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from urllib3.util.retry import Retry

from connectors.allowance import Allowance
from connectors.http_source import AnswerTooLargeError
from connectors.parts import Part, open_parts
from connectors.protocol import (
    ByteStream,
    Capabilities,
    Collected,
    ConnectorError,
    MalformedAnswerError,
    Probe,
    SourceNotConfiguredError,
    probe_status,
)
from connectors.telemetry.metered_session import MeteredSession
from connectors.telemetry.promql import (
    MetricQuery,
    Stretch,
    halves,
    read_queries,
    sample_lines,
    selector,
    stretches,
)
from connectors.telemetry.settings import PrometheusSource
from engine.model.moment import parse_rfc3339
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

NAME: Final = "prometheus"
METRICS: Final = "metrics"
"""`query` key: the rules' metrics as a JSON list of `promql.MetricQuery`."""
NODES_A_QUERY: Final = 200
"""Node names in one request, so that the address stays below what proxies take (8 KiB)."""
_HOST_LABELS: Final = ("Hostname", "hostname", "node", "nodename", "kubernetes_node", "host")
"""Labels that readers take for the host; of the same machine they may hold another of its names."""
WHOLE_NODE_SECONDS: Final = 64 * 6 * 3600
"""Up to 64 nodes for six hours all samples come; beyond, only where a rule can fire."""
TAIL_S: Final = 300
_SHORTEST_S: Final = 60
_MAX_TOLD: Final = 20


@dataclass(slots=True)
class PrometheusConnector:
    """One Prometheus. `headers` and `auth` let us in; `now` ends the window of a running job."""

    cluster: str
    settings: PrometheusSource
    clock: Callable[[], float]
    pause: Callable[[float], None]
    headers: Callable[[], Mapping[str, str]]
    auth: Callable[[], Any] = lambda: None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    name: str = NAME

    @property
    def capabilities(self) -> Capabilities:
        """Series stay for the retention of the server, 15 days where nobody changed it."""
        return Capabilities(sources=("metrics",), trust="platform", resumes=True)

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield a stream for each metric that has series of the job's nodes."""
        allowance = Allowance(item.budget, self.clock)
        try:
            yield from self._reading(item, workload, collected, allowance=allowance)
        finally:
            collected.requests = allowance.requests

    def probe(self) -> Probe:
        """Ask which of a few well-known metrics there are; never raises `ConnectorError`."""
        target = f"{self.cluster}: {self.settings.url}"
        allowance = Allowance(self.settings.budget, self.clock)
        try:
            client = self._client(allowance)
            found = self._query(client, "count by (__name__) (" + selector(
                ["DCGM_FI_DEV_GPU_TEMP", "node_memory_MemAvailable_bytes", "up"],
                equal=self.settings.matchers,
            ) + ")", self._now_s())  # fmt: skip
        except ConnectorError as error:
            return Probe(self.name, target, probe_status(error), str(error))
        names = sorted(str(each.get("metric", {}).get("__name__", "")) for each in found)
        told = f"answers; exports {', '.join(names) or 'neither DCGM nor node metrics'}"
        return Probe(self.name, target, "ok", told, ("metrics: the rules' series",))

    def _reading(
        self, item: PlanItem, workload: Workload, collected: Collected, *, allowance: Allowance
    ) -> Iterator[ByteStream]:
        nodes = _wanted_nodes(item, workload)
        if not nodes:
            collected.coverage = "unverified"
            collected.warnings.append("the job's nodes are not known, so no series can be its own")
            return
        try:
            queries = read_queries(item.query.get(METRICS, "[]"))
        except ValueError as error:
            raise ConnectorError(f"{item.item_id}: {METRICS} is no list of metrics") from error
        start, end = self._bounds(item, workload)
        reading = _Reading(self, self._client(allowance), tuple(nodes), start, end)
        parts = [reading.part(query, number) for query in queries for number in reading.shards]
        yield from open_parts(parts, cursor=item.cursor, collected=collected)
        if collected.cursor is None:
            self._control(reading, queries, collected)

    def _control(
        self, reading: "_Reading", queries: Sequence[MetricQuery], collected: Collected
    ) -> None:
        """Tell what is not exported at all from what only these nodes lack."""
        silent = sorted({each.metric for each in queries} - reading.seen_metrics)
        if silent:
            try:
                exported = reading.exported(silent)
            except ConnectorError as error:
                # Without the control nothing tells silence from a metric that does not exist.
                collected.coverage = None if reading.seen_nodes else "unverified"
                collected.warnings.append(f"what is exported is not known: {error}")
                return
            absent = [each for each in silent if each not in exported]
            if absent:
                collected.warnings.append(
                    f"not exported here, so never healthy by it: {_listed(absent)}"
                )
            lacking = [each for each in silent if each in exported]
            if lacking:
                collected.warnings.append(
                    f"exported, but not for these nodes (check labels): {_listed(lacking)}"
                )
            if len(absent) == len({each.metric for each in queries}):
                raise SourceNotConfiguredError(
                    f"{self.settings.url}: exports none of the {len(absent)} metrics that rules "
                    "read; scrape dcgm-exporter and node_exporter"
                )
        if not reading.seen_nodes:
            collected.coverage = "unverified"
            return
        lost = sorted(set(reading.nodes) - reading.seen_nodes)
        collected.paths_missing += [f"{NAME}/of {node}" for node in lost[:_MAX_TOLD]]

    def _client(self, allowance: Allowance) -> PrometheusConnect:
        session = MeteredSession(f"prometheus {self.settings.url}", allowance, self.pause)
        session.verify = self.settings.ca_file or True
        return PrometheusConnect(
            url=self.settings.url,
            headers=dict(self.headers()),
            auth=self.auth(),
            session=session,
            timeout=self.settings.timeout_s,
            retry=Retry(0),
        )

    def _query(self, client: PrometheusConnect, query: str, at_s: int) -> list[Any]:
        return _checked(lambda: client.custom_query(query, params={"time": at_s}), self.settings)

    def _bounds(self, item: PlanItem, workload: Workload) -> tuple[int, int]:
        """Return seconds: from the start, or the tail's where it is unknown, to the tail's end."""
        windows = {each.name: each for each in item.windows}
        tail, whole = windows.get("tail"), windows.get("whole")
        starts = [each.start for each in (whole, tail) if each is not None and each.start]
        ends = [each.end for each in (tail, whole) if each is not None and each.end]
        end = _seconds(ends[0]) if ends else self._now_s()
        start = _seconds(starts[0]) if starts else end - 3600
        return min(start, end - _SHORTEST_S), min(end, max(self._now_s(), start + _SHORTEST_S))

    def _now_s(self) -> int:
        return int(self.now().timestamp()) + 1


@dataclass(slots=True)
class _Reading:
    """One item's reading: which metrics and nodes were seen."""

    connector: PrometheusConnector
    client: PrometheusConnect
    nodes: tuple[str, ...]
    start_s: int
    end_s: int
    seen_metrics: set[str] = field(default_factory=set)
    seen_nodes: set[str] = field(default_factory=set)

    @property
    def shards(self) -> range:
        """Numbers of the pieces that the nodes are asked for in."""
        return range(-(-len(self.nodes) // NODES_A_QUERY))

    def part(self, query: MetricQuery, number: int) -> Part:
        """Return one metric of one piece of the nodes."""
        digest = "".join(f"-{key}-{value}" for key, value in sorted(query.labels.items()))
        place = f"{NAME}/{query.metric}{re.sub(r'[^A-Za-z0-9_.-]', '_', digest)}"
        if len(self.shards) > 1:
            place += f"/{number:03d}"
        return Part(
            StreamLabel(place, "metrics", "platform", nodes=self.nodes),
            lambda: self._fetch(query, number),
        )

    def exported(self, metrics: Sequence[str]) -> set[str]:
        """Return which metrics the site has of any node, at any moment of the window."""
        chosen = selector(list(metrics), equal=self.connector.settings.matchers)
        length = max(_SHORTEST_S, self.end_s - self.start_s)
        query = f"count by (__name__) (last_over_time({chosen}[{length}s]))"
        found = self.connector._query(self.client, query, self.end_s)
        return {str(each.get("metric", {}).get("__name__", "")) for each in found}

    def _fetch(self, query: MetricQuery, number: int) -> bytes:
        settings = self.connector.settings
        some = self.nodes[number * NODES_A_QUERY : (number + 1) * NODES_A_QUERY]
        label = settings.labels.get(query.node_label, query.node_label)
        results: list[Any] = []
        for nodes, start_s in self._wanted(query, label, some):
            chosen = self._chosen(query, label, nodes)
            for stretch in stretches(start_s, self.end_s, raw_s=settings.raw_seconds):
                results += self._ask(chosen, stretch)
        found = [self._named(each, query, label) for each in results]
        lines = sample_lines(found, {})
        if lines:
            self.seen_metrics.add(query.metric)
        return "".join(f"{line}\n" for each in lines.values() for line in each).encode()

    def _chosen(self, query: MetricQuery, label: str, nodes: Sequence[str]) -> str:
        settings = self.connector.settings
        equal = {
            settings.labels.get(key, key): settings.values.get(key, {}).get(value, value)
            for key, value in query.labels.items()
        }
        return selector(
            [query.metric],
            equal={**equal, **settings.matchers},
            node_label=label,
            nodes=nodes,
            suffix=settings.node_suffix,
        )

    def _wanted(
        self, query: MetricQuery, label: str, nodes: Sequence[str]
    ) -> list[tuple[Sequence[str], int]]:
        """Return which nodes are asked for from when: all of them whole where that is little.

        Else the server says first on which series a rule can fire. Of the other nodes the last
        minutes are enough, to see that they were looked at.
        """
        length = self.end_s - self.start_s
        is_little = len(self.nodes) * length <= WHOLE_NODE_SECONDS
        if is_little or not query.screens or length <= TAIL_S:
            return [(nodes, self.start_s)]
        series = f"{self._chosen(query, label, nodes)}[{length}s]"
        suspects: set[str] = set()
        try:
            for screen in query.screens:
                text = screen.replace("$series", series)
                for each in self.connector._query(self.client, text, self.end_s):
                    suspects.add(_node_of(str(each.get("metric", {}).get(label, "")), nodes))
        except AnswerTooLargeError:
            return [(nodes, self.start_s)]
        loud = [each for each in nodes if each in suspects]
        quiet = [each for each in nodes if each not in suspects]
        wanted = [(loud, self.start_s), (quiet, self.end_s - TAIL_S)]
        return [(some, start_s) for some, start_s in wanted if some]

    def _ask(self, chosen: str, stretch: Stretch) -> list[Any]:
        """Return a stretch's series; one that is too much for the server is asked for in halves."""
        length = max(1, stretch.end_s - stretch.start_s)
        try:
            if stretch.step_s == 0:
                query = f"{chosen}[{length}s]"
                return self.connector._query(self.client, query, stretch.end_s)
            return _checked(
                lambda: self.client.custom_query_range(
                    chosen,
                    datetime.fromtimestamp(stretch.start_s, UTC),
                    datetime.fromtimestamp(stretch.end_s, UTC),
                    str(stretch.step_s),
                ),
                self.connector.settings,
            )
        except AnswerTooLargeError:
            if length <= 2 * _SHORTEST_S:
                raise
        return [each for half in halves(stretch) for each in self._ask(chosen, half)]

    def _named(self, result: Any, query: MetricQuery, label: str) -> Any:
        """Give the series the names that the rules and the job know."""
        metric = result.get("metric") if isinstance(result, Mapping) else None
        if not isinstance(metric, Mapping):
            return result
        labels = {str(key): str(value) for key, value in metric.items()}
        node = _node_of(labels.get(label, ""), self.nodes)
        if node:
            self.seen_nodes.add(node)
            port = labels.pop(label).rpartition(":")[2]
            for other in _HOST_LABELS:
                labels.pop(other, None)
            named = f"{node}:{port}" if port.isdigit() else node
            labels[query.node_label] = named if query.node_label == "instance" else node
        return {**result, "metric": labels | query.labels}


def _node_of(value: str, nodes: Sequence[str]) -> str:
    """Return the job's node that a label's value names: itself, or with a port or domain."""
    if value in nodes:
        return value
    name = value.rpartition(":")[0] if ":" in value else value
    if name in nodes:
        return name
    short = name.split(".", 1)[0]
    return short if short in nodes else ""


def _wanted_nodes(item: PlanItem, workload: Workload) -> list[str]:
    if item.request is not None and item.request.entities:
        named = set(item.request.entities) & set(workload.nodes)
        if named:
            return sorted(named)
    return sorted(set(workload.nodes))


def _checked(ask: Callable[[], Any], settings: PrometheusSource) -> list[Any]:
    try:
        found = ask()
    except (PrometheusApiClientException, KeyError, TypeError, ValueError) as error:
        raise MalformedAnswerError(
            f"prometheus {settings.url}: {str(error)[:300] or type(error).__name__}"
        ) from error
    if not isinstance(found, list):
        raise MalformedAnswerError(f"prometheus {settings.url}: the result is no list")
    return found


def _seconds(text: str) -> int:
    return int(parse_rfc3339(text, None).timestamp())


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_TOLD} more" if len(names) > _MAX_TOLD else ""
    return ", ".join(names[:_MAX_TOLD]) + more
