"""Assembles and seals the verdict."""

from dataclasses import dataclass
from typing import Any

from engine.actions import advise
from engine.anchor import Anchor
from engine.candidates import Cause
from engine.case import Case
from engine.correlate import Graph
from engine.coverage import CoverageMap
from engine.decide import Decision
from engine.entities import Directory
from engine.episodes import Episode
from engine.extract.redact import Redactor
from engine.model.canonical import canonical_json, short_id
from engine.model.moment import rfc3339, to_us
from engine.model.verdict import (
    ConnectorReport,
    EntityRef,
    History,
    NotEvaluated,
    Onset,
    Quality,
    RootCause,
    RulesUsed,
    ScopedWorkload,
    Verdict,
    seal,
)
from engine.model.vocabulary import QualityLevel
from engine.normalise import Bounds
from engine.progress import Progress
from engine.qualify import Judgement
from engine.report.checkpoints import build_progress
from engine.report.exhibits import Exhibits
from engine.report.story import Story, moment
from engine.report.subjects import affected_entities, affected_nodes, affected_ranks, refer
from engine.report.summary import summarise
from engine.report.timeline import build_timeline
from engine.report.wording import explain
from engine.roles import cast_roles
from engine.rulebook.book import Rulebook

MAX_BYTES = 2_000_000
_REDACTOR = Redactor()
ROOT_EVIDENCE = 6
MAX_EXPLAINS = 64


@dataclass(slots=True)
class Findings:
    """Everything that the reasoning phases came to."""

    case: Case
    book: Rulebook
    episodes: list[Episode]
    graph: Graph
    decision: Decision
    judgement: Judgement
    coverage: CoverageMap
    directory: Directory
    bounds: Bounds
    progress: Progress
    anchor: Anchor


def write_verdict(findings: Findings, history: History) -> Verdict:
    """Return the sealed document within its size ceiling."""
    decision, judgement, case = findings.decision, findings.judgement, findings.case
    workload = case.workload
    exhibits = Exhibits(findings.directory)
    cast = cast_roles(
        decision, judgement.level, findings.graph, findings.directory, anchor=findings.anchor
    )
    story = Story(
        findings.episodes, findings.graph, decision, directory=findings.directory,
        job_id=workload.job_id,
    )  # fmt: skip
    causes = _root_causes(findings, exhibits)
    cause_ids = {cause.symptom: cause.cause_id for cause in causes}
    entities = affected_entities(cast, findings.directory, exhibits, cause_ids)
    nodes, omitted_nodes = affected_nodes(cast, findings.directory)
    ranks, omitted_ranks = affected_ranks(cast)
    fields: dict[str, Any] = {
        "workload": _scoped(findings),
        "terminal_state": decision.terminal,
        "manifestation": decision.manifestation,
        "domain": decision.domain,
        "failure_class": decision.failure_class,
        "root_causes": causes,
        "affected_entities": entities,
        "affected_nodes": nodes,
        "affected_ranks": ranks,
        "victims_omitted": omitted_nodes + omitted_ranks,
        "quality": Quality(
            level=judgement.level,
            reasons=tuple(judgement.reasons),
            would_change=tuple(judgement.requests),
        ),
        "summary": summarise(
            workload, decision, judgement, cast, progress=findings.progress,
            directory=findings.directory,
        ),
        "progress": build_progress(
            workload, findings.graph.episodes, findings.progress, findings.bounds
        ),
        "symptoms": story.symptoms(exhibits),
        "timeline": build_timeline(
            case, findings.graph, decision, story, directory=findings.directory,
            exhibits=exhibits, bounds=findings.bounds, progress=findings.progress,
        ),
        "coverage": findings.coverage.entries,
        "connector_reports": _reports(case),
        "rules": _rules(findings),
        "actions": advise(decision, judgement, cast, workload.job_id),
        "history": history,
    }  # fmt: skip
    fields["evidence"] = exhibits.entries()
    return seal(_within_ceiling(fields))


def _root_causes(findings: Findings, exhibits: Exhibits) -> list[RootCause]:
    level = findings.judgement.level
    if level == "insufficient":
        return []
    found: list[RootCause] = []
    for cause in findings.decision.causes:
        primary = findings.decision.primary is cause and level in ("definitive", "probable")
        found.append(_root_cause(findings, cause, primary, exhibits))
    return found


def _root_cause(findings: Findings, cause: Cause, primary: bool, exhibits: Exhibits) -> RootCause:
    head = cause.head
    meaning = head.meaning
    level: QualityLevel = findings.judgement.level
    cited: list[str] = []
    for episode in cause.episodes[:16]:
        cited += [i for i in exhibits.cite(episode, ROOT_EVIDENCE) if i not in cited]
    below: set[int] = set()
    for position in cause.positions[:64]:
        below |= findings.graph.descendants(position)
    explains = sorted({findings.graph.episodes[p].episode_id for p in sorted(below)[:MAX_EXPLAINS]})
    return RootCause.model_validate(
        {
            "cause_id": short_id("rc", cause.symptom, cause.domain, head.episode_id),
            "primary": primary,
            "symptom": cause.symptom,
            "rule": meaning.rule,
            "domain": cause.domain,
            "title": meaning.title,
            "explanation": _explanation(findings, cause),
            "entity": _entity(cause, findings),
            "onset": Onset(earliest=moment(head.onset_earliest), latest=moment(head.onset_latest)),
            "quality": level,
            "evidence": tuple(cited[:16]),
            "explains": tuple(explains),
        }
    )


def _explanation(findings: Findings, cause: Cause) -> str:
    text = explain(cause.head, findings.directory)
    rivals = findings.judgement.rival_domains
    if not rivals:
        return text
    domains = ", ".join(sorted({cause.head.meaning.domain, *rivals} - {"unknown"}))
    return f"{text} It fits equally well in: {domains}."


def _entity(cause: Cause, findings: Findings) -> EntityRef:
    job_id = findings.case.workload.job_id
    references = {
        refer(episode, findings.directory, job_id).model_dump_json(): episode
        for episode in cause.episodes[:256]
    }
    if len(references) > 1:
        return EntityRef(kind="job", id=job_id)
    return refer(cause.head, findings.directory, job_id)


def _scoped(findings: Findings) -> ScopedWorkload:
    workload = findings.case.workload
    return ScopedWorkload(
        scheduler=workload.scheduler,
        cluster=workload.cluster,
        tenant=workload.tenant,
        job_id=workload.job_id,
        attempt=workload.attempt,
        name=_masked(workload.name),
        user=_masked(workload.user),
        state=_masked(workload.state),
        exit_code=workload.exit_code,
        start=None if workload.start is None else rfc3339(to_us(workload.start)),
        end=None if workload.end is None else rfc3339(to_us(workload.end)),
        nodes=findings.directory.names.nodes,
        world_size=workload.world_size,
    )


def _masked(text: str | None) -> str | None:
    """Return a word of the event's or the bundle's author without secrets."""
    return None if text is None else _REDACTOR.text(text)


def _reports(case: Case) -> list[ConnectorReport]:
    """Group reports by connector, status and reason: how items were packed must not show."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for report in case.reports:
        totals = groups.setdefault((report.connector, report.status, report.reason or ""), [0, 0])
        totals[0] += report.observations
        totals[1] += report.bytes
    return [
        ConnectorReport.model_validate(
            {
                "connector": connector, "status": status, "reason": reason or None,
                "observations": totals[0], "bytes": totals[1],
            }
        )
        for (connector, status, reason), totals in sorted(groups.items())
    ]  # fmt: skip


def _rules(findings: Findings) -> RulesUsed:
    book = findings.book
    return RulesUsed(
        version=book.version,
        extraction_digest=book.extraction_digest,
        reasoning_digest=book.reasoning_digest,
        not_evaluated=tuple(
            NotEvaluated(rule=rule, reason=reason)
            for rule, reason in sorted({*findings.graph.not_evaluated, *_without_source(findings)})
        ),
    )


def _without_source(findings: Findings) -> list[tuple[str, str]]:
    """Return one entry for each source that rules read and that was not there.

    It stands for all rules that read nothing else; a source that was given and failed says so.
    """
    case = findings.case
    seen = {stream.source for stream in case.streams if stream.lines > 0}
    seen |= {observation.source for observation in case.observations}
    wanted: dict[str, set[str]] = {}
    for signature in findings.book.signatures:
        wanted.setdefault(signature.rule, set()).update(signature.sources)
    for metric in findings.book.metrics:
        wanted.setdefault(metric.rule, set()).add("metrics")
    absent = {
        source
        for sources in wanted.values()
        if sources and seen.isdisjoint(sources)
        for source in sources
    }
    failed = {
        entry.source: entry.reason or entry.state
        for entry in findings.coverage.entries
        if entry.state in ("failed", "lost")
    }
    return [
        ("*", f"the {name} source failed: {failed[name]}" if name in failed
         else f"no {name} source was given")
        for name in sorted(absent)
    ]  # fmt: skip


def _within_ceiling(fields: dict[str, Any]) -> dict[str, Any]:
    """Shorten the longest lists until the document fits; what is dropped is said so."""
    for share in (1, 2, 4, 8, 16):
        trimmed = dict(fields)
        if share > 1:
            for name in ("symptoms", "timeline"):
                trimmed[name] = fields[name][: max(20, len(fields[name]) // share)]
            kept = _cited(trimmed)
            trimmed["evidence"] = [e for e in fields["evidence"] if e.evidence_id in kept]
        draft = Verdict.model_validate({**trimmed, "attribution_id": "sha256:" + "0" * 64})
        if len(canonical_json(draft.model_dump(mode="json"))) <= MAX_BYTES:
            return trimmed
    return trimmed


def _cited(fields: dict[str, Any]) -> set[str]:
    names = ("root_causes", "affected_entities", "symptoms", "timeline")
    return {i for name in names for item in fields[name] for i in item.evidence}
