"""A verdict as text: what somebody reads at three in the morning, the answer first."""

import textwrap
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from engine.model.hostlist import compact_hostlist
from engine.model.moment import parse_rfc3339
from engine.model.verdict import (
    Action,
    AffectedEntity,
    Coverage,
    EntityRef,
    Evidence,
    Onset,
    RootCause,
    Verdict,
)
from functions.query.symptom_names import entity_name

WIDTH: Final = 96
_MAX_EVIDENCE: Final = 6
_MAX_EXCERPT_LINES: Final = 4
_COLOURS: Final = {
    "bold": "1", "red": "31", "green": "32", "yellow": "33", "dim": "2", "cyan": "36",
}  # fmt: skip
_LEVELS: Final = {
    "definitive": ("green", "the failing part, or whoever stopped the job, says so itself"),
    "probable": ("cyan", "inferred; nothing contradicts it"),
    "ambiguous": ("yellow", "two or more causes fit; none is chosen"),
    "insufficient": ("yellow", "the evidence allows no cause"),
}
_OPEN: Final = {  # what makes a verdict with one suspected cause ambiguous
    "rival_domains_fit": "what was seen fits several domains; none is chosen",
    "located_not_explained": "where it got stuck is known, why is not",
}
_SHOWN_STATES: Final = ("complete", "empty")


class Ink:
    """Colours words, or leaves them alone."""

    def __init__(self, *, colour: bool):
        self._colour = colour

    def __call__(self, text: str, *names: str) -> str:
        """Return `text` in the named colours."""
        if not self._colour or not text:
            return text
        codes = ";".join(_COLOURS[name] for name in names)
        return f"\x1b[{codes}m{text}\x1b[0m"


def render_verdict(verdict: Verdict, *, colour: bool = False) -> str:
    """Return the verdict as text: verdict, culprit, why, what to do, how sure, what was missing."""
    ink = Ink(colour=colour)
    parts: list[str] = []
    for section in (
        _headline(verdict, ink),
        _causes(verdict, ink),
        _culprits(verdict, ink),
        _actions(verdict.actions, ink),
        _sureness(verdict, ink),
        _missing(verdict, ink),
        _progress(verdict),
        _evidence(verdict, ink),
        _footer(verdict, ink),
    ):
        lines = list(section)
        if lines:
            parts.append("\n".join(lines))
    return "\n\n".join(parts)


def printable(text: str) -> str:
    """Return text without control characters: a log line must not move the cursor."""
    return "".join(
        char if char.isprintable() else "\n" if char == "\n" else " " for char in text
    ).strip()


def _wrapped(text: str, indent: str = "  ") -> str:
    lines = printable(text).split("\n")
    return "\n".join(
        textwrap.fill(line, WIDTH, initial_indent=indent, subsequent_indent=indent)
        for line in lines
    )


def _headline(verdict: Verdict, ink: Ink) -> Iterator[str]:
    workload = verdict.workload
    has_name = workload.name and workload.name != workload.job_id
    name = f" {printable(workload.name or '')}" if has_name else ""
    attempt = f" attempt {workload.attempt}" if workload.attempt is not None else ""
    job = f"{workload.scheduler} job {printable(workload.job_id)}{name}{attempt}"
    domain = verdict.domain
    tone = "green" if domain == "none" else "yellow" if domain == "unknown" else "red"
    yield f"{ink(job, 'bold')}: {verdict.terminal_state.replace('_', ' ')}"
    yield f"{ink(domain.upper(), 'bold', tone)}  {ink(verdict.failure_class, 'bold')}"
    yield _wrapped(verdict.summary, "")


def _causes(verdict: Verdict, ink: Ink) -> Iterator[str]:
    if not verdict.root_causes:
        return
    is_open = not any(cause.primary for cause in verdict.root_causes)
    heading = "Why" if not is_open else "Either of" if len(verdict.root_causes) > 1 else "Suspected"
    yield ink(heading, "bold")
    for cause in verdict.root_causes:
        yield from _cause(cause, ink, is_open=is_open)


def _cause(cause: RootCause, ink: Ink, *, is_open: bool) -> Iterator[str]:
    mark = "?" if is_open else "*" if cause.primary else "-"
    where = f" on {describe(cause.entity)}" if cause.entity.kind != "job" else ""
    when = _when(cause.onset)
    yield f"  {mark} {printable(cause.title)}{where}{when} [{cause.domain}, {cause.quality}]"
    if cause.explanation:
        yield ink(_wrapped(cause.explanation, "      "), "dim")


def _when(onset: Onset) -> str:
    """When it began, as far as that is known: a second, or the bounds."""
    if onset.earliest is None or onset.latest is None:
        known = onset.earliest or onset.latest
        side = "before" if onset.earliest is None else "after"
        return f" {side} {known}" if known else ""
    since, until = parse_rfc3339(onset.earliest), parse_rfc3339(onset.latest)
    if until - since <= timedelta(seconds=1):
        return f" at {onset.earliest}"
    return f" between {onset.earliest} and {onset.latest}"


def describe(entity: EntityRef) -> str:
    """Return an entity in words: `GPU 2 (0000:30:00) of node-007`."""
    return printable(entity_name(entity))


def _culprits(verdict: Verdict, ink: Ink) -> Iterator[str]:
    named = [each for each in verdict.affected_entities if each.role in ("culprit", "suspect")]
    if not named:
        if verdict.domain not in ("none",):
            yield f"{ink('Nobody to blame', 'bold')}: no node, GPU or rank is named"
        return
    for role, tone in (("culprit", "red"), ("suspect", "yellow")):
        group = [each for each in named if each.role == role]
        if group:
            yield ink(role.capitalize() + ("s" if len(group) > 1 else ""), "bold", tone)
            yield from (f"  {line}" for line in _grouped(group))


def _grouped(entities: Sequence[AffectedEntity]) -> Iterator[str]:
    ranks = [each for each in entities if each.kind == "rank"]
    nodes = [each for each in entities if each.kind == "node"]
    if nodes:
        yield f"node {compact_hostlist([printable(each.id) for each in nodes])}"
    yield from (describe(each) for each in entities if each.kind not in ("rank", "node"))
    if ranks:
        yield "rank " + ", ".join(each.id for each in ranks)


def _actions(actions: Sequence[Action], ink: Ink) -> Iterator[str]:
    if not actions:
        return
    yield ink("Do", "bold")
    for number, action in enumerate(actions, start=1):
        target = f" {printable(action.target)}" if action.target else ""
        safe = ink(" (may be automated)", "dim") if action.evidence_supports_automation else ""
        yield f"  {number}. {action.action.replace('_', ' ')}{target}{safe}"
        if action.reason:
            yield _wrapped(action.reason, "     ")


def _sureness(verdict: Verdict, ink: Ink) -> Iterator[str]:
    level = verdict.quality.level
    tone, meaning = _LEVELS[level]
    if level == "ambiguous" and len(verdict.root_causes) < 2:
        told = [_OPEN[reason] for reason in verdict.quality.reasons if reason in _OPEN]
        meaning = told[0] if told else "what was seen does not settle the cause"
    yield f"{ink('How sure', 'bold')}: {ink(level, tone)}: {meaning}"
    if verdict.quality.reasons:
        yield _wrapped(", ".join(each.replace("_", " ") for each in verdict.quality.reasons))
    for request in verdict.quality.would_change:
        names = compact_hostlist([printable(each) for each in request.entities])
        of = f" of {names}" if names else ""
        yield _wrapped(f"would tell more: {request.source}{of}: {request.why}")


def _missing(verdict: Verdict, ink: Ink) -> Iterator[str]:
    rows = [
        each for each in verdict.coverage if each.lines or each.state not in ("not_configured",)
    ]
    absent = sorted({each.source for each in verdict.coverage} - {each.source for each in rows})
    if not rows and not absent:
        return
    yield ink("What was looked at", "bold")
    for row in rows:
        yield "  " + _coverage_row(row, ink)
    if absent:
        yield ink(f"  nothing was given of: {', '.join(absent)}", "yellow")


def _coverage_row(row: Coverage, ink: Ink) -> str:
    tone = "green" if row.state in _SHOWN_STATES else "yellow"
    nodes = f" {printable(row.nodes)}" if row.nodes else ""
    counted = f"{row.lines} line{'s' if row.lines != 1 else ''}" if row.lines else "no lines"
    until = f", until {row.last}" if row.last else ""
    reason = f" ({printable(row.reason)})" if row.reason else ""
    state = ink(f"{row.state:12}", tone)
    source = row.source if row.window == "whole" else f"{row.source}, {row.window}"
    return f"{source:16}{state}{counted}{until}{nodes}{reason}"


def _progress(verdict: Verdict) -> Iterator[str]:
    progress = verdict.progress
    if progress.last_step is not None:
        at = f" at {progress.last_step_at}" if progress.last_step_at else ""
        yield f"Last step {progress.last_step}{at}"
    if progress.last_checkpoint or progress.last_checkpoint_at:
        name = f" {printable(progress.last_checkpoint)}" if progress.last_checkpoint else ""
        at = f" at {progress.last_checkpoint_at}" if progress.last_checkpoint_at else ""
        yield f"Last checkpoint{name}{at}"
    if progress.gpu_hours_since_checkpoint:
        yield f"GPU-hours since the last checkpoint: {progress.gpu_hours_since_checkpoint}"


def _evidence(verdict: Verdict, ink: Ink) -> Iterator[str]:
    known = {each.evidence_id: each for each in verdict.evidence}
    wanted: list[str] = []
    for cause in verdict.root_causes:
        wanted += [each for each in cause.evidence if each in known and each not in wanted]
    for entity in verdict.affected_entities:
        if entity.role in ("culprit", "suspect"):
            wanted += [each for each in entity.evidence if each in known and each not in wanted]
    if not wanted:
        wanted = [each.evidence_id for each in verdict.evidence]
    if not wanted:
        return
    yield ink("Evidence", "bold")
    for evidence_id in wanted[:_MAX_EVIDENCE]:
        yield from _quoted(known[evidence_id], ink)
    if len(wanted) > _MAX_EVIDENCE:
        yield ink(f"  and {len(wanted) - _MAX_EVIDENCE} more (--format json has all)", "dim")


def _quoted(evidence: Evidence, ink: Ink) -> Iterator[str]:
    place = f"{printable(evidence.uri)}:{evidence.line}"
    # What lines nearby or the attempt's bounds give is no time of the line itself.
    is_dated = evidence.observed_at and evidence.time_basis not in ("neighbour", "attempt", "none")
    at = f"  {evidence.observed_at}" if is_dated else ""
    yield f"  {ink(place, 'cyan')}{at}"
    lines = printable(evidence.text).split("\n")
    # Of a block the end says what happened: an exception, a killed process.
    shown = lines if len(lines) <= _MAX_EXCERPT_LINES else [*lines[:1], "...", *lines[-2:]]
    for line in shown:
        yield f"    {textwrap.shorten(line.strip(), WIDTH * 2, placeholder=' ...')}"


def _footer(verdict: Verdict, ink: Ink) -> Iterator[str]:
    notes = []
    if verdict.victims_omitted:
        notes.append(f"{verdict.victims_omitted} more victims")
    victims = sum(1 for each in verdict.affected_nodes if each.role == "victim")
    if victims:
        notes.append(f"{victims} victim node{'s' if victims > 1 else ''}")
    reports = sorted(
        verdict.connector_reports, key=lambda each: (each.connector, each.reason or "")
    )
    for report in reports:
        if report.status not in ("ok", "empty"):
            notes.append(f"{report.connector}: {printable(report.reason or report.status)}")
    broken = [item for item in verdict.rules.not_evaluated if item.rule != "*"]
    if broken:
        count = f"{len(broken)} rule{'s' if len(broken) > 1 else ''}"
        notes.append(f"{count} not applied, for lack of sources or after an error")
    notes.append(f"rules {verdict.rules.version}, verdict {verdict.attribution_id[:19]}")
    yield ink("; ".join(notes), "dim")
