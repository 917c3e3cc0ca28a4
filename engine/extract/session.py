"""A labelled byte stream in, folded observations and stream summaries out."""

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from engine.extract.capsule import CapsuleStream, keep_facts, segments_of
from engine.extract.decode import DecodedStream, read_whole
from engine.extract.fact import Fact
from engine.extract.fold import fold
from engine.extract.formats import Structured, read_structured
from engine.extract.keeping import MIN_BYTES, CapsuleMaker, Excerpt
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.extract.segment import Segment, SegmentReader
from engine.extract.sighting import SegmentScan
from engine.extract.subject import enriched
from engine.extract.tally import Sighting, Tally, Writer
from engine.model.observation import Observation, Sample, StreamSummary
from engine.model.stream import StreamLabel
from engine.model.vocabulary import ObservationKind
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook

STRUCTURED_BYTES: Final = 64 << 20
_TEXT_SOURCES: Final = ("applog", "syslog")


@dataclass(slots=True, frozen=True)
class ExtractContext:
    """What extraction may know beside the stream.

    `max_bytes` stops after so many decompressed bytes; the result is then `truncated`.
    `capsule_bytes` is what may be kept of the stream for later rules; less than 4 KiB keeps none.
    """

    book: Rulebook
    scanner: Scanner
    workload: Workload
    connector: str
    extraction_digest: str
    redactor: Redactor
    max_bytes: int | None = None
    capsule_bytes: int = 0


@dataclass(slots=True)
class Extraction:
    """What one stream gave; `bytes` and `lines` count the decompressed stream."""

    observations: list[Observation] = field(default_factory=list)
    summaries: list[StreamSummary] = field(default_factory=list)
    lines: int = 0
    bytes: int = 0
    truncated: bool = False
    damage: str | None = None
    """Why compressed data could not be read to their end."""
    warnings: list[str] = field(default_factory=list)
    capsule: CapsuleStream | None = None


def extract_stream(
    read: Callable[[int], bytes], label: StreamLabel, context: ExtractContext
) -> Extraction:
    """Read a stream to its end (or its budget) and return what it says.

    `read` gives stored bytes, perhaps compressed, empty at the end; its errors pass through.
    """
    stream = DecodedStream(read)
    read_as = _extract_text if label.source in _TEXT_SOURCES else _extract_structured
    result = read_as(stream, label, context)
    if stream.damaged:
        result.damage = stream.warnings[-1]
    return result


def extract_facts(
    facts: Iterable[Fact], label: StreamLabel, context: ExtractContext
) -> list[Observation]:
    """Scan fact lines; each observation keeps its fact's origin, excerpt, time and entity."""
    listed = list(facts)
    texts = [fact.text.replace("\n", " ") for fact in listed]
    data = "\n".join(texts).encode("utf-8", "replace") + b"\n" if texts else b""
    kind: ObservationKind = "inventory" if label.source == "inventory" else "record"
    tally = Tally(label)
    number = start = 0
    for end, index in context.scanner.scan(data, len(data), label.source):
        number += data.count(b"\n", start, end)
        start = end
        _add_fact(tally, listed[min(number, len(listed) - 1)], label, context, (index, kind))
    writer = Writer(
        context.connector, context.extraction_digest, context.redactor.text, lambda when: when
    )
    return fold(tally.finish(writer))


def extract_capsule(stream: CapsuleStream, context: ExtractContext) -> Extraction:
    """Return what other rules say of a capsule: its lines stand where they stood in the stream.

    What metric rules saw then is kept where the rules still know the symptom.
    """
    label = stream.label
    scan = SegmentScan(label, context)
    scan.run(segments_of(stream))
    result = _result_of(scan, stream.lines, stream.bytes, context, truncated=stream.is_truncated)
    digest, known = context.extraction_digest, context.book.symptoms
    result.observations = fold(
        [
            *extract_facts([each.fact() for each in stream.facts], label, context),
            *(replace(o, extraction_digest=digest) for o in stream.observations
              if o.symptom in known),
            *result.observations,
        ]
    )  # fmt: skip
    result.summaries = list(stream.summaries)
    result.truncated = stream.is_truncated
    return result


def _add_fact(
    tally: Tally,
    fact: Fact,
    label: StreamLabel,
    context: ExtractContext,
    hit: tuple[int, ObservationKind],
) -> None:
    index, kind = hit
    reader = context.scanner.reader(index)
    reading = reader.read(fact.text)
    if reading is None:
        return
    signature = reader.signature
    origin = fact.origin
    tally.add(
        Sighting(
            signature=index,
            rule=signature.rule,
            name=signature.name,
            symptom=reading.symptom,
            kind=kind,
            entity=enriched(fact.entity, reading.fields),
            fields=reading.fields,
            identity=signature.identity,
            when=fact.when,
            place=(origin.line, origin.byte_offset, origin.byte_length),
            text=fact.excerpt,
            lines=fact.excerpt.count("\n") + 1,
            flags=unproven(signature.proves_from, label),
            uri=origin.uri,
        ),
        label.uri,
    )


def _extract_structured(
    stream: DecodedStream, label: StreamLabel, context: ExtractContext
) -> Extraction:
    limit = min(STRUCTURED_BYTES, context.max_bytes or STRUCTURED_BYTES)
    data, more = read_whole(stream, limit)
    found = read_structured(label.source, data, label, context)
    if found is None:
        result = _extract_text(DecodedStream(io.BytesIO(data).read), label, context)
        result.warnings = [*stream.warnings, *result.warnings]
    else:
        result, excerpt = _extract_rest(found.unconsumed, label, context)
        result.observations = fold(
            [*extract_facts(found.facts, label, context),
             *(_redacted(each, context.redactor) for each in found.observations),
             *result.observations]
        )  # fmt: skip
        result.summaries = list(found.summaries) or result.summaries
        result.lines = data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))
        result.bytes = len(data)
        result.warnings = [*stream.warnings, *found.warnings, *result.warnings]
        if excerpt is not None:
            result.capsule = _structured_capsule(found, excerpt, result, label, context)
    if more:
        result.truncated = True
        if result.capsule is not None:
            result.capsule = msgspec.structs.replace(result.capsule, is_truncated=True)
        result.warnings.append(f"only the first {limit} bytes were read")
    return result


def _redacted(observation: Observation, redactor: Redactor) -> Observation:
    """Return what a metric rule saw without secrets: a label may hold one."""

    def masked(sample: Sample) -> Sample:
        return replace(sample, text=redactor.text(sample.text))

    return replace(
        observation,
        first=masked(observation.first),
        last=masked(observation.last),
        samples=tuple(masked(each) for each in observation.samples),
    )


def _extract_text(stream: DecodedStream, label: StreamLabel, context: ExtractContext) -> Extraction:
    reader = SegmentReader(stream, context.max_bytes)
    scan = SegmentScan(label, context)
    maker = _maker(context.capsule_bytes)
    scan.run(maker.watch(iter(reader)) if maker else iter(reader))
    result = _result_of(scan, reader.lines, reader.bytes, context, truncated=reader.truncated)
    result.warnings = [*stream.warnings, *result.warnings]
    if maker:
        excerpt = maker.finish(context.redactor.lines)
        result.capsule = CapsuleStream(
            label,
            reader.lines,
            reader.bytes,
            excerpt.is_whole,
            reader.truncated,
            excerpt.runs,
            summaries=tuple(result.summaries),
        )
    return result


def _maker(budget: int) -> CapsuleMaker | None:
    return CapsuleMaker(budget) if budget >= MIN_BYTES else None


def _structured_capsule(
    found: Structured,
    excerpt: Excerpt,
    result: Extraction,
    label: StreamLabel,
    context: ExtractContext,
) -> CapsuleStream:
    """Keep the facts; samples are not kept, so of metrics only what their rules saw is there."""
    budget = context.capsule_bytes // 2 if found.unconsumed else context.capsule_bytes
    facts = keep_facts(found.facts, budget, context.redactor.lines)
    is_whole = excerpt.is_whole and len(facts) == len(found.facts) and label.source != "metrics"
    return CapsuleStream(
        label=label,
        lines=result.lines,
        bytes=result.bytes,
        is_whole=is_whole,
        runs=excerpt.runs,
        facts=facts,
        summaries=tuple(result.summaries),
        observations=tuple(_redacted(each, context.redactor) for each in found.observations),
    )


def _extract_rest(
    unconsumed: Iterable[tuple[int, int, bytes]], label: StreamLabel, context: ExtractContext
) -> tuple[Extraction, Excerpt | None]:
    """Scan the lines of a structured source that its reader did not consume, as text."""
    scan = SegmentScan(label, context)
    maker = _maker(context.capsule_bytes // 2)
    segments = _segments_of(unconsumed)
    scan.run(maker.watch(segments) if maker else segments)
    result = _result_of(scan, 0, 0, context, truncated=False)
    return result, maker.finish(context.redactor.lines) if maker else None


def _segments_of(unconsumed: Iterable[tuple[int, int, bytes]]) -> Iterator[Segment]:
    lines: list[bytes] = []
    origins: list[tuple[int, int, int]] = []
    starts: list[int] = []
    size = 0

    def segment() -> Segment:
        number, offset, _ = (origins[0][2], origins[0][0], 0)
        made = Segment(b"", 0, offset=offset, line=number)
        made.replace_text(b"\n".join(lines) + b"\n", list(starts), list(origins))
        return made

    for number, offset, line in unconsumed:
        starts.append(size)
        origins.append((offset, len(line), number))
        lines.append(line.replace(b"\n", b" "))
        size += len(line) + 1
        if size >= 1 << 18:
            yield segment()
            lines, origins, starts, size = [], [], [], 0
    if lines:
        yield segment()


def _result_of(
    scan: SegmentScan, lines: int, size: int, context: ExtractContext, *, truncated: bool
) -> Extraction:
    observations, summaries, warnings = scan.finish(lines, size, truncated=truncated)
    return Extraction(
        observations=observations,
        summaries=summaries,
        lines=lines,
        bytes=size,
        truncated=truncated,
        warnings=warnings,
    )


def unproven(proves_from: tuple[str, ...], label: StreamLabel) -> tuple[str, ...]:
    """`unproven` where this stream's trust is not one that the signature proves from."""
    return ("unproven",) if proves_from and label.trust not in proves_from else ()
