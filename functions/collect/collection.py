"""One plan item, from its source to folded observations and a report. Pure of AWS.

A connector or stream that raises becomes a sentence in the report and loses nothing else: this
is the one place that isolates connectors.
"""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from connectors.protocol import (
    ByteStream,
    Collected,
    Connector,
    ConnectorError,
    SourceNotConfiguredError,
    TransientError,
)
from engine.extract.fact import Fact, fact_line
from engine.extract.fold import fold
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.extract.session import ExtractContext, Extraction, extract_facts, extract_stream
from engine.model.moment import rfc3339, to_us
from engine.model.observation import Entity, Observation, Origin, StreamSummary, When
from engine.model.plan import PlanItem, Report
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Trust
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook
from functions.collect.capsules import CapsulePacker
from functions.scope.planning import WORKLOAD

MAX_WARNINGS: Final = 50
_STATE_URI: Final = "workload"


@dataclass(slots=True, frozen=True)
class CollectedItem:
    """What one item came to."""

    observations: list[Observation]
    summaries: list[StreamSummary]
    report: Report
    capsules: bytes = b""


@dataclass(slots=True, frozen=True)
class Collecting:
    """What collection needs beside an item: rules, scanner, and when to stop.

    `is_out_of_time` is asked between streams; `is_patient` lets `TransientError` through, so
    that whoever runs the item can try it again. `capsule_bytes` is what of its text may be kept
    for later rules.
    """

    book: Rulebook
    scanner: Scanner
    redactor: Redactor = field(default_factory=Redactor)
    is_out_of_time: Callable[[], bool] = lambda: False
    is_patient: bool = False
    capsule_bytes: int = 0


@dataclass(slots=True)
class _Progress:
    """What was read so far, and what went wrong."""

    capsules: CapsulePacker
    observations: list[Observation] = field(default_factory=list)
    summaries: list[StreamSummary] = field(default_factory=list)
    streams: int = 0
    lines: int = 0
    bytes: int = 0
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cursor: str | None = None
    is_cut: bool = False
    is_unconfigured: bool = False

    def take(self, found: Extraction, uri: str) -> None:
        """Add one stream's result."""
        self.streams += 1
        self.capsules.take(found.capsule)
        self.observations += found.observations
        self.summaries += found.summaries
        self.lines += found.lines
        self.bytes += found.bytes
        self.warnings += [f"{uri}: {each}" for each in found.warnings]
        self.is_cut = self.is_cut or found.truncated
        if found.damage is not None:
            self.failures.append(f"{uri}: {found.damage}")


def collect_item(
    item: PlanItem, *, workload: Workload, connector: Connector | None, collecting: Collecting
) -> CollectedItem:
    """Run one item. Without a connector only the workload's own item can be run."""
    progress = _Progress(CapsulePacker(collecting.capsule_bytes, len(item.evidence)))
    collected = Collected()
    if item.connector == WORKLOAD:
        progress.observations = state_observations(workload, collecting)
        progress.streams = 1
    elif connector is None:
        progress.failures.append(f"no connector is named {item.connector!r}")
        progress.is_unconfigured = True
    else:
        _read_streams(item, workload, connector, collected, progress=progress, using=collecting)
    observations = fold(progress.observations)
    report = _report(item, progress, collected, using=collecting, found=len(observations))
    capsules = progress.capsules.body(report)
    return CollectedItem(observations, _sorted(progress.summaries), report, capsules)


def _read_streams(
    item: PlanItem,
    workload: Workload,
    connector: Connector,
    collected: Collected,
    *,
    progress: _Progress,
    using: Collecting,
) -> None:
    streams = connector.open_streams(item, workload, collected)
    for stream in _isolated(streams, progress=progress, using=using):
        try:
            left = item.budget.bytes - progress.bytes
            if left <= 0 or collected.requests > item.budget.requests or using.is_out_of_time():
                progress.cursor = progress.cursor or stream.label.uri
                return
            context = ExtractContext(
                book=using.book,
                scanner=using.scanner,
                workload=workload,
                connector=item.connector,
                extraction_digest=using.book.extraction_digest,
                redactor=using.redactor,
                max_bytes=left,
                capsule_bytes=progress.capsules.share(),
            )
            timed = _Timed(stream, using.is_out_of_time)
            progress.take(extract_stream(timed.read, stream.label, context), stream.label.uri)
            if timed.was_cut:
                progress.cursor = stream.label.uri
                return
        except TransientError as error:
            if using.is_patient:
                raise
            progress.failures.append(f"{stream.label.uri}: {error}")
        except Exception as error:  # noqa: BLE001  one stream must not lose the others
            progress.failures.append(f"{stream.label.uri}: {_told(error)}")
        finally:
            stream.close()


@dataclass(slots=True)
class _Timed:
    """A stream that ends when the time does: what was read of it is kept, and told as partial."""

    stream: ByteStream
    is_out_of_time: Callable[[], bool]
    was_cut: bool = False

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none once the time is up."""
        if self.is_out_of_time():
            self.was_cut = True
            return b""
        return self.stream.read(size)


def _isolated(
    streams: Iterator[ByteStream], *, progress: _Progress, using: Collecting
) -> Iterator[ByteStream]:
    """Yield the connector's streams; what it raises between two of them ends the item."""
    try:
        yield from streams
    except SourceNotConfiguredError as error:
        progress.is_unconfigured = True
        progress.failures.append(str(error))
    except TransientError as error:
        if using.is_patient:
            raise
        progress.failures.append(str(error))
    except Exception as error:  # noqa: BLE001  the one place that isolates a connector
        progress.failures.append(_told(error))


def _told(error: Exception) -> str:
    """Return type, place and message of what a connector or reader raised."""
    if isinstance(error, ConnectorError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}: {str(error)[:200]}"


def state_observations(
    workload: Workload, collecting: Collecting, *, stated_by: Trust = "platform"
) -> list[Observation]:
    """Return what rules say of the scheduler's own words about the attempt."""
    text = state_line(workload)
    end = to_us(workload.end) if workload.end else None
    when = When() if end is None else When(end, end, "record", "scheduler")
    origin = Origin(_STATE_URI, 1, 0, len(text.encode()))
    label = StreamLabel(_STATE_URI, "scheduler", stated_by)
    context = ExtractContext(
        book=collecting.book,
        scanner=collecting.scanner,
        workload=workload,
        connector=WORKLOAD,
        extraction_digest=collecting.book.extraction_digest,
        redactor=collecting.redactor,
    )
    return extract_facts([Fact(text, origin, text, when, Entity())], label, context)


def state_line(workload: Workload) -> str:
    """Return the `workload.state` fact line, made for every case."""
    words = (workload.state or "").split()
    code, _, signal = (workload.exit_code or "").partition(":")
    return fact_line(
        "workload.state",
        scheduler=workload.scheduler,
        state=words[0].upper().rstrip("+") if words else "",
        exit=code if code.lstrip("-").isdigit() else "",
        signal=signal if signal.isdigit() else "",
    )


def _report(
    item: PlanItem, progress: _Progress, collected: Collected, *, using: Collecting, found: int
) -> Report:
    missing = sorted(set(collected.paths_missing))
    progress.cursor = progress.cursor or collected.cursor
    status, reason = _status(progress, missing)
    latest = max((each.last.latest_us or 0 for each in progress.summaries), default=0)
    warnings = sorted({*collected.warnings, *progress.warnings, *progress.failures})
    return Report(
        item_id=item.item_id,
        connector=item.connector,
        shard=item.shard,
        source=item.source,
        status=status,
        reason=reason,
        lines=progress.lines,
        bytes=progress.bytes,
        observations=found,
        requests=collected.requests,
        watermark=rfc3339(latest) if latest else None,
        cursor=progress.cursor,
        coverage=collected.coverage,
        extraction_digest=using.book.extraction_digest,
        paths_missing=tuple(missing),
        warnings=tuple(warnings[:MAX_WARNINGS]),
    )


def _status(progress: _Progress, missing: list[str]) -> tuple[str, str | None]:
    if progress.is_unconfigured:
        return "skipped", progress.failures[0]
    reasons = sorted(progress.failures)[:3]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        reasons.append(f"not found: {', '.join(missing[:3])}{more}")
    if progress.cursor is not None:
        reasons.append(f"out of budget before {progress.cursor}")
    if progress.is_cut:
        reasons.append("a stream was cut by the byte budget")
    if reasons:
        was_read = progress.streams > 0
        return ("partial" if was_read else "error"), "; ".join(reasons)
    is_silent = progress.bytes == 0 and not progress.observations
    return ("empty" if is_silent else "ok"), None


def _sorted(summaries: list[StreamSummary]) -> list[StreamSummary]:
    return sorted(
        (replace(each, ranks=tuple(sorted(each.ranks))) for each in summaries),
        key=lambda each: (each.stream, each.node, each.ranks, each.source),
    )
