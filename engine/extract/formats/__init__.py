"""Readers of structured sources: formats are told by content, never by a file's name.

`read_structured` gives facts, metric observations and the lines that no reader understood. It
never raises on content: what cannot be read stays text.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from engine.extract.fact import Fact
from engine.extract.formats.aws import read_aws_json
from engine.extract.formats.cluster import Cluster
from engine.extract.formats.detectors import detect
from engine.extract.formats.flight_recorder import read_dump_json, read_dump_pickle
from engine.extract.formats.inventory import read_inventory
from engine.extract.formats.inventory_csv import read_inventory_csv
from engine.extract.formats.inventory_links import read_inventory_links
from engine.extract.formats.inventory_xml import read_inventory_xml
from engine.extract.formats.jsontext import JsonValue, read_json_values
from engine.extract.formats.kubectl_text import read_kubectl_text
from engine.extract.formats.kubernetes import read_kubernetes_json, read_kubernetes_yaml
from engine.extract.formats.series import Series, read_series
from engine.extract.formats.sheet import OTHER, Sheet
from engine.extract.formats.slurm import read_slurm_text
from engine.extract.formats.slurm_json import read_slurm_json
from engine.model.observation import Observation, StreamSummary, When
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook

STRUCTURED: Final[frozenset[Source]] = frozenset(
    {"scheduler", "kubernetes", "metrics", "flight_recorder", "inventory"}
)
"""Sources that readers look at; logs are scanned as text, whatever they hold."""

MAX_BYTES: Final = 256 * 1024**2
_MALFORMED: Final = (
    ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip
"""What a reader may raise on content it was not made for."""


class FormatContext(Protocol):
    """What readers need of `ExtractContext`."""

    @property
    def workload(self) -> Workload:
        """The attempt: its job id, nodes and window decide what is its own."""

    @property
    def book(self) -> Rulebook:
        """The rulebook, for its metric rules."""

    @property
    def connector(self) -> str:
        """The name of the connector that fetched the source."""


@dataclass(slots=True)
class Structured:
    """What was read, and what is left: `(line number, byte offset, bytes)` a line.

    `others` are facts about other jobs, pods and nodes. They are not scanned: a rule that reads
    `reason=OOMKilled` must not find another job's.
    """

    facts: list[Fact] = field(default_factory=list)
    others: list[Fact] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    summaries: list[StreamSummary] = field(default_factory=list)
    unconsumed: list[tuple[int, int, bytes]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_structured(
    source: Source, data: bytes, label: StreamLabel, context: FormatContext
) -> Structured | None:
    """Read one whole source; None where no reader knows it and all of it is plain text."""
    if source not in STRUCTURED or len(data) > MAX_BYTES:
        return None
    sheet = Sheet.of(data, label, context.workload)
    result = Structured()
    if data[:1] == b"\x80" and _guarded(sheet, result, "pickle", lambda: _pickle(sheet)):
        _take_facts(result, sheet)
        result.summaries = [_record_summary(sheet, context.connector)]
        return result
    documents = list(read_json_values(sheet))
    series: list[Series] = []
    _read_text(source, sheet, documents, result=result, series=series)
    if not sheet.consumed and not sheet.facts:
        return None
    _take_facts(result, sheet)
    result.unconsumed = sheet.unconsumed()
    if series:
        result.observations = detect(
            series,
            context.book,
            label=label,
            workload=context.workload,
            connector=context.connector,
        )
        result.summaries = _metric_summaries(sheet, series, context.connector)
    else:
        result.summaries = [_record_summary(sheet, context.connector)]
    return result


def _take_facts(result: Structured, sheet: Sheet) -> None:
    for fact in sheet.facts:
        family = fact.text.split(" ", 1)[0]
        (result.others if OTHER in family else result.facts).append(fact)


def _pickle(sheet: Sheet) -> None:
    if not read_dump_pickle(sheet):
        raise ValueError("no flight-recorder dump of plain data")


def _read_text(
    source: Source,
    sheet: Sheet,
    documents: list[JsonValue],
    *,
    result: Structured,
    series: list[Series],
) -> None:
    cluster = Cluster(sheet)

    def guard(name: str, read: Callable[[], object]) -> None:
        _guarded(sheet, result, name, read)

    if source == "metrics":
        guard("metrics", lambda: series.extend(read_series(sheet, documents)))
    guard("slurm json", lambda: read_slurm_json(sheet, documents))
    guard("aws", lambda: read_aws_json(sheet, documents))
    guard("kubernetes", lambda: read_kubernetes_json(sheet, cluster, documents))
    guard("flight recorder", lambda: read_dump_json(sheet, documents))
    guard("slurm text", lambda: read_slurm_text(sheet))
    if source == "kubernetes":
        guard("kubernetes yaml", lambda: read_kubernetes_yaml(sheet, cluster))
        guard("kubectl", lambda: read_kubectl_text(sheet, cluster))
    if source == "inventory":
        guard("inventory xml", lambda: read_inventory_xml(sheet))
        guard("inventory csv", lambda: read_inventory_csv(sheet))
        guard("inventory", lambda: read_inventory(sheet, documents))
        guard("inventory links", lambda: read_inventory_links(sheet))
    guard("kubernetes", cluster.finish)


def _guarded(sheet: Sheet, result: Structured, name: str, read: Callable[[], object]) -> bool:
    """Run one reader; content that it chokes on is given back to the others, and to the text."""
    facts, consumed = len(sheet.facts), set(sheet.consumed)
    try:
        read()
    except _MALFORMED as error:
        del sheet.facts[facts:]
        sheet.consumed = consumed
        what = f"{sheet.label.uri}: the {name} reader gave up ({type(error).__name__})"
        result.warnings.append(what)
        return False
    return True


def _record_summary(sheet: Sheet, connector: str) -> StreamSummary:
    """Return the summary of a record source: it was read, and when its records begin and end."""
    label = sheet.label
    clock = label.nodes[0] if len(label.nodes) == 1 else ""
    times = [
        us for fact in sheet.facts for us in (fact.when.earliest_us, fact.when.latest_us) if us
    ]
    captured = label.captured_at_us
    seen = [*times, *sheet.moments, *([captured] if captured else ())]
    return StreamSummary(
        stream=label.uri,
        source=label.source,
        connector=connector,
        trust=label.trust,
        node=clock,
        ranks=tuple(sorted({f.entity.rank for f in sheet.facts if f.entity.rank is not None})),
        lines=len(sheet.lines),
        bytes=len(sheet.data),
        first=When(min(seen), min(seen), "record", clock) if seen else When(),
        last=When(max(seen), max(seen), "record", clock) if seen else When(),
        flags=("records",),
    )


def _metric_summaries(sheet: Sheet, series: list[Series], connector: str) -> list[StreamSummary]:
    """Return one summary per node with series: which span of time its samples cover."""
    label = sheet.label
    summaries = []
    for node in sorted({each.entity.node for each in series}):
        points = [point for each in series if each.entity.node == node for point in each.points]
        times = sorted(point.us for point in points if point.us is not None)
        first = When(times[0], times[0], "sample", node) if times else When()
        last = When(times[-1], times[-1], "sample", node) if times else When()
        summaries.append(
            StreamSummary(
                stream=label.uri,
                source=label.source,
                connector=connector,
                trust=label.trust,
                node=node,
                ranks=(),
                lines=len(points),
                bytes=len(sheet.data),
                first=first,
                last=last,
                flags=("samples",),
            )
        )
    return summaries
