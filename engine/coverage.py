"""What was looked at. "Looked and found nothing" is never "could not look"."""

from dataclasses import dataclass, field

from engine.case import Case
from engine.decide import Decision
from engine.entities import Directory
from engine.model.hostlist import compact_hostlist
from engine.model.moment import rfc3339
from engine.model.verdict import Coverage
from engine.model.vocabulary import SOURCES, CoverageState, Source
from engine.moments import MINUTE_US, OPEN_FUTURE, known, or_future, or_past
from engine.normalise import Bounds

# A log that goes quiet this long before the end may have been cut short.
WATERMARK_US = 2 * MINUTE_US
_NODE_SOURCES = ("syslog", "metrics", "inventory")
_BAD = {"error": "failed", "skipped": "not_configured", "partial": "partial"}
_WORSE = ("failed", "partial", "not_configured")


@dataclass(slots=True)
class _Seen:
    lines: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    flags: set[str] = field(default_factory=set)


@dataclass(slots=True)
class CoverageMap:
    """Coverage per source and node; an empty node name stands for the whole job."""

    entries: list[Coverage]
    states: dict[tuple[str, str], str]
    job_nodes: tuple[str, ...]

    def has(self, source: str) -> bool:
        """Whether anything at all was read from a source."""
        return any(
            name == source and state in ("complete", "partial", "sampled", "filtered", "empty")
            for (name, _), state in self.states.items()
        )

    def nodes_without(self, source: str) -> list[str]:
        """Return the job's nodes from which nothing of this source was read."""
        good = ("complete", "partial", "sampled", "filtered", "empty")
        return [node for node in self.job_nodes if self.states.get((source, node), "") not in good]


def map_coverage(
    case: Case, directory: Directory, bounds: Bounds, decision: Decision | None = None
) -> CoverageMap:
    """Return what each source showed of each node of the job."""
    seen = _gather(case, directory)
    failures = _failures(case)
    told = _told(case)
    nodes = directory.names.nodes
    given = {name for name, _ in seen}
    states: dict[tuple[str, str], str] = {}
    groups: dict[tuple[str, str, str], list[str]] = {}
    totals: dict[tuple[str, str, str], _Seen] = {}
    for source in SOURCES:
        spots = {node for name, node in seen if name == source}
        if source in _NODE_SOURCES and (spots or source == "syslog"):
            spots |= set(nodes)
        for node in sorted(spots) or [""]:
            found = seen.get((source, node))
            state, reason = _state(found, source, failures, bounds)
            if source not in given:
                state, reason = _absent(source, failures)
            if source not in failures:
                words = told.get(source, set())
                state, reason = _with_word(state, reason, words, found=found, came=source in given)
            states[(source, node)] = state
            key = (source, state, reason)
            groups.setdefault(key, []).append(node)
            _merge(totals.setdefault(key, _Seen()), found)
    entries = [
        _entry(source, state, reason, groups[(source, state, reason)], total)
        for (source, state, reason), total in sorted(totals.items())
    ]
    return CoverageMap(_by_window(entries, case), states, nodes)


def _by_window(entries: list[Coverage], case: Case) -> list[Coverage]:
    """Tell the tail, which was read whole, from what lies before it, of which only some was."""
    found: list[Coverage] = []
    for entry in entries:
        if entry.state != "filtered":
            found.append(entry)
            continue
        parts = [each for each in case.reports if each.source == entry.source]
        is_alone = sum(1 for each in entries if each.source == entry.source) == 1
        for window, state, reason, chosen in (
            ("tail", "complete", None, [r for r in parts if r.coverage != "filtered"]),
            ("whole", "filtered", entry.reason, [r for r in parts if r.coverage == "filtered"]),
        ):
            update: dict[str, object] = {"window": window, "state": state, "reason": reason}
            if is_alone:
                update |= {
                    "lines": sum(each.lines for each in chosen),
                    "bytes": sum(each.bytes for each in chosen),
                }
            found.append(entry.model_copy(update=update))
    return found


def _gather(case: Case, directory: Directory) -> dict[tuple[str, str], _Seen]:
    seen: dict[tuple[str, str], _Seen] = {}
    for stream in case.streams:
        if "#rank=" in stream.stream:
            continue
        node = directory.names.canonical(stream.node)
        found = seen.setdefault((stream.source, node), _Seen())
        found.lines += stream.lines
        found.bytes += stream.bytes
        found.flags.update(stream.flags)
        first, last = stream.first.earliest_us, stream.last.latest_us
        if first is not None:
            found.first = first if found.first is None else min(found.first, first)
        if last is not None:
            found.last = last if found.last is None else max(found.last, last)
    return seen


def _failures(case: Case) -> dict[str, tuple[str, str]]:
    """Return the worst report per source that brought nothing."""
    worst: dict[str, tuple[str, str]] = {}
    for report in sorted(case.reports, key=lambda r: (r.item_id, r.connector, r.shard)):
        if report.source is None or report.status not in _BAD or report.coverage == "unverified":
            continue
        state = _BAD[report.status]
        if report.source not in worst or _WORSE.index(state) < _WORSE.index(
            worst[report.source][0]
        ):
            worst[report.source] = (state, report.reason or report.status)
    return worst


def _told(case: Case) -> dict[str, set[str]]:
    """Return what the sources themselves know of their answers."""
    found: dict[str, set[str]] = {}
    for report in case.reports:
        if report.source is not None and report.coverage is not None:
            found.setdefault(report.source, set()).add(report.coverage)
    return found


def _with_word(
    state: CoverageState, reason: str, told: set[str], *, found: _Seen | None, came: bool
) -> tuple[CoverageState, str]:
    """Let a source's own word decide where nothing came, or where not all was asked for."""
    if found is not None and found.lines:
        if "filtered" in told and state == "complete":
            return "filtered", "before the tail only lines that a rule could match were fetched"
        return state, reason
    if "unverified" in told:
        return _absent("", {}, default="unverified")
    if "empty" in told and not came:
        return "empty", "looked and found nothing; the stream exists"
    return state, reason


def _state(
    found: _Seen | None, source: str, failures: dict[str, tuple[str, str]], bounds: Bounds
) -> tuple[CoverageState, str]:
    if found is None:
        return _absent(source, failures, default="unverified")
    if found.lines == 0:
        return "unverified", "the stream holds no line"
    if "truncated" in found.flags:
        return "partial", "the stream is cut short"
    if source in failures and failures[source][0] in ("failed", "partial"):
        return "partial", failures[source][1]
    if bounds.end == OPEN_FUTURE or found.last is None:
        return ("complete", "") if source not in _NODE_SOURCES else ("partial", "no usable times")
    if found.last + WATERMARK_US >= bounds.end:
        return "complete", ""
    return "partial", "the last line is older than the end of the attempt"


def _absent(
    source: str, failures: dict[str, tuple[str, str]], default: CoverageState = "not_configured"
) -> tuple[CoverageState, str]:
    if source in failures:
        state, reason = failures[source]
        return ("not_configured" if state == "not_configured" else "failed"), reason
    if default == "unverified":
        return "unverified", "nothing came and nothing proves that anything would"
    return "not_configured", "no evidence of this kind was given"


def _merge(total: _Seen, found: _Seen | None) -> None:
    if found is None:
        return
    total.lines += found.lines
    total.bytes += found.bytes
    for value in (found.first, found.last):
        if value is None:
            continue
        total.first = value if total.first is None else min(total.first, value)
        total.last = value if total.last is None else max(total.last, value)


def _entry(source: str, state: str, reason: str, nodes: list[str], total: _Seen) -> Coverage:
    named = [node for node in nodes if node]
    first, last = known(or_past(total.first)), known(or_future(total.last))
    return Coverage.model_validate(
        {
            "source": source, "window": "whole", "state": state,
            "nodes": compact_hostlist(named) if named else None,
            "lines": total.lines, "bytes": total.bytes,
            "first": None if first is None else rfc3339(first),
            "last": None if last is None else rfc3339(last),
            "reason": reason or None,
        }
    )  # fmt: skip


__all__ = ["CoverageMap", "Source", "map_coverage"]
