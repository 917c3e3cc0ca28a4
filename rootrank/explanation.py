"""Why a rule did or did not fire on a bundle: which clause of it failed first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from connectors.protocol import ByteStream, Collected
from connectors.static import NAME as STATIC
from connectors.static import StaticConnector
from engine.correlate import cause_keys, effect_keys, fits
from engine.episodes import Episode
from engine.extract.decode import DecodedStream, read_whole
from engine.extract.formats import read_structured
from engine.extract.formats.detectors import evaluate, mean_of
from engine.extract.formats.jsontext import read_json_values
from engine.extract.formats.series import Series, read_series
from engine.extract.formats.sheet import Sheet
from engine.extract.recognise import SignatureReader
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner, build_scanner
from engine.extract.session import ExtractContext
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from engine.pipeline import reason
from engine.report.document import Findings
from engine.rulebook.book import CauseDef, MetricDef, Rulebook, SignatureDef
from functions.collect.collection import state_line
from rootrank.local_case import LocalCase
from rootrank.text import printable

MAX_BYTES = 256 * 1024**2
_SHOWN = 3


@dataclass(slots=True, frozen=True)
class Source:
    """One file of the bundle, read whole, and the fact lines made from it."""

    label: StreamLabel
    data: bytes
    facts: bytes

    @property
    def scanned(self) -> bytes:
        """What signatures see."""
        return self.facts or self.data


def known_rules(book: Rulebook) -> list[str]:
    """Return every rule id, sorted."""
    ids = {each.rule for each in book.signatures} | {each.rule for each in book.causes}
    ids |= {each.rule for each in book.metrics} | {each.rule for each in book.symptoms.values()}
    return sorted(ids)


def explain(local: LocalCase, rule: str, *, book: Rulebook) -> Iterator[str]:
    """Yield the explanation line by line."""
    findings = reason(local.case, book)
    signatures = [each for each in book.signatures if each.rule == rule]
    causes = [each for each in book.causes if each.rule == rule]
    metrics = [each for each in book.metrics if each.rule == rule]
    yield from _scope(local)
    if signatures:
        sources = read_sources(local, book=book)
        scanner = build_scanner(replace(book, signatures=tuple(signatures)))
        for signature in signatures:
            yield from _explain_signature(signature, sources, scanner)
    for cause in causes:
        yield from _explain_cause(cause, findings)
    for metric in metrics:
        yield from _explain_metric(metric, local)
    yield from _fate(rule, findings, book)


def _scope(local: LocalCase) -> Iterator[str]:
    names = sorted({each.source for each in local.bundle.evidence})
    yield f"in scope: {len(local.bundle.evidence)} files ({', '.join(names) or 'none'})"
    for path in local.bundle.missing:
        yield f"  missing: {printable(path)}"


def read_sources(local: LocalCase, *, book: Rulebook) -> list[Source]:
    """Read every file of the bundle as extraction sees it."""
    connector = StaticConnector(local.bundle.source)
    found = [_state_source(local.case.workload)]
    for item in local.plan.items:
        if item.connector != STATIC:
            continue
        for stream in connector.open_streams(item, local.plan.workload, Collected()):
            try:
                found.append(_read(stream, local.plan.workload, book))
            finally:
                stream.close()
    return sorted(found, key=lambda each: each.label.uri)


def _state_source(workload: Workload) -> Source:
    line = state_line(workload).encode() + b"\n"
    return Source(StreamLabel("workload", "scheduler", "platform"), line, line)


def _read(stream: ByteStream, workload: Workload, book: Rulebook) -> Source:
    data, _ = read_whole(DecodedStream(stream.read), MAX_BYTES)
    context = ExtractContext(
        book=book,
        scanner=build_scanner(replace(book, signatures=())),
        workload=workload,
        connector=STATIC,
        extraction_digest=book.extraction_digest,
        redactor=Redactor(),
    )
    found = read_structured(stream.label.source, data, stream.label, context)
    lines = [fact.text for fact in found.facts] if found else []
    if found:
        lines += [raw.decode("utf-8", "replace") for _, _, raw in found.unconsumed]
    return Source(stream.label, data, "\n".join([*lines, ""]).encode() if lines else b"")


def _explain_signature(
    signature: SignatureDef, sources: Sequence[Source], scanner: Scanner
) -> Iterator[str]:
    yield f"signature {signature.name}: reads {', '.join(signature.sources)}"
    scope = [each for each in sources if each.label.source in signature.sources]
    if not scope:
        yield "  not evaluated: the bundle has no file of these sources"
        return
    hits = 0
    shown = 0
    for source in scope:
        for text in _hit_lines(source, signature, scanner):
            hits += 1
            if shown < _SHOWN:
                shown += 1
                yield f"  {printable(source.label.uri)}: {_why(signature, source.label, text)}"
                yield f"    {printable(text)[:200]}"
    if not hits:
        names = ", ".join(printable(each.label.uri) for each in scope[:_SHOWN])
        yield f"  not matched: no line of {names} holds what `scan` looks for: {signature.scan}"
    elif hits > shown:
        yield f"  and {hits - shown} more lines"


def _hit_lines(source: Source, signature: SignatureDef, scanner: Scanner) -> Iterator[str]:
    data = source.scanned
    seen: set[int] = set()
    for end, index in scanner.scan(data, len(data), source.label.source):
        start = data.rfind(b"\n", 0, max(0, end - 1)) + 1
        if index != signature.index or start in seen:
            continue
        seen.add(start)
        stop = data.find(b"\n", start)
        yield data[start : stop if stop >= 0 else len(data)].decode("utf-8", "replace")


def _why(signature: SignatureDef, label: StreamLabel, text: str) -> str:
    """Say which clause let the line through or stopped it."""
    reading = SignatureReader(signature).read(text)
    if reading is not None:
        caught = ", ".join(f"{key}={value}" for key, value in sorted(reading.fields.items()))
        proof = ""
        if signature.proves_from and label.trust not in signature.proves_from:
            proof = f", but proves nothing from {label.trust} trust"
        return f"matched as {reading.symptom}{proof}" + (f" ({caught})" if caught else "")
    if SignatureReader(replace(signature, when={}, unless=())).read(text) is None:
        return "not matched: `extract` does not read this line"
    if SignatureReader(replace(signature, unless=())).read(text) is None:
        return f"not matched: `when` allows only {signature.when}"
    return "not matched: an `unless` expression holds"


def _explain_cause(rule: CauseDef, findings: Findings) -> Iterator[str]:
    counting = findings.graph.episodes
    present = {each.symptom for each in counting}
    yield f"cause rule, joins {', '.join(rule.joins)}, window {_seconds(rule)}, {rule.strength}"
    if rule.status != "stable":
        yield f"  not applied: its status is {rule.status}"
    missing = [name for name in rule.requires if name not in present]
    if missing:
        yield f"  not applied: required symptoms are absent: {', '.join(missing)}"
    barred = [name for name in rule.unless if name in present]
    if barred:
        yield f"  not applied: excluded symptoms are present: {', '.join(barred)}"
    causes = [each for each in counting if each.symptom in rule.causes]
    effects = [each for each in counting if each.symptom in rule.effects]
    yield f"  causes present: {_named(causes)}"
    yield f"  effects present: {_named(effects)}"
    for cause in causes[:_SHOWN]:
        for effect in effects[:_SHOWN]:
            if cause is not effect:
                yield f"  {_pair(cause, effect, rule, findings)}"


def _named(episodes: Sequence[Episode]) -> str:
    names = sorted({f"{each.symptom} on {_where(each)}" for each in episodes})
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return (", ".join(names[:10]) + more) if names else "none"


def _where(episode: Episode) -> str:
    subject = episode.subject
    parts = [
        subject.node,
        f"gpu {subject.gpu}" if subject.gpu else "",
        f"rank {subject.rank}" if subject.rank is not None else "",
    ]
    return " ".join(part for part in parts if part) or "the job"


def _pair(cause: Episode, effect: Episode, rule: CauseDef, findings: Findings) -> str:
    pair = f"{cause.symptom} on {_where(cause)} -> {effect.symptom} on {_where(effect)}"
    names = findings.directory.names
    joins = [
        join
        for join in rule.joins
        if set(cause_keys(cause, join)) & set(effect_keys(effect, join, names))
    ]
    if not joins:
        return f"{pair}: no join holds ({', '.join(rule.joins)})"
    if not fits(cause, effect, rule):
        return f"{pair}: joined by {joins[0]}, but outside the window"
    return f"{pair}: explained, joined by {joins[0]}"


def _seconds(rule: CauseDef) -> str:
    return f"{rule.min_us / 1e6:g} s to {rule.max_us / 1e6:g} s"


def _explain_metric(rule: MetricDef, local: LocalCase) -> Iterator[str]:
    yield f"metric rule: {rule.detector} on {', '.join(rule.metrics)}"
    series: list[Series] = []
    for item in local.plan.items:
        if item.source != "metrics":
            continue
        connector = StaticConnector(local.bundle.source)
        for stream in connector.open_streams(item, local.plan.workload, Collected()):
            data, _ = read_whole(DecodedStream(stream.read), MAX_BYTES)
            stream.close()
            sheet = Sheet.of(data, stream.label, local.plan.workload)
            series += read_series(sheet, list(read_json_values(sheet)))
    wanted = [each for each in series if each.metric in rule.metrics]
    if not wanted:
        found = sorted({each.metric for each in series})
        yield f"  not evaluated: no such series; the bundle has {', '.join(found) or 'no metrics'}"
    for each in wanted:
        peers = [
            mean_of(other.points)
            for other in wanted
            if other.metric == each.metric and other.entity != each.entity
        ]
        finding = evaluate(rule, each.metric, each.points, peers=peers)
        mean = f"{mean_of(each.points):.3f}"
        thing = f"{each.metric} of {each.entity.node or 'unknown node'} gpu {each.entity.gpu_index}"
        word = "matched" if finding else "not matched"
        yield f"  {thing}: {word}, mean {mean} over {len(each.points)} samples"


def _fate(rule: str, findings: Findings, book: Rulebook) -> Iterator[str]:
    """Say what became of the symptoms that the rule defines or saw."""
    symptoms = {name for name, each in book.symptoms.items() if each.rule == rule}
    for episode in findings.episodes:
        if episode.symptom not in symptoms:
            continue
        if episode.reason:
            yield f"seen and set aside: {episode.symptom} on {_where(episode)}: {episode.reason}"
        else:
            yield f"seen and counted: {episode.symptom} on {_where(episode)}, {episode.count} times"
    for name, why in findings.graph.not_evaluated:
        if name == rule:
            yield f"could not be evaluated: {why}"
