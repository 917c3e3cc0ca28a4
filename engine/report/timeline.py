"""The moments a person needs, in order, with silence shown as silence."""

from engine.case import Case
from engine.correlate import Graph
from engine.decide import Decision
from engine.entities import Directory
from engine.episodes import Episode
from engine.meanings import FALLBACK
from engine.model.verdict import TimelineEntry
from engine.moments import MINUTE_US, OPEN_FUTURE, OPEN_PAST
from engine.normalise import Bounds
from engine.progress import Progress
from engine.report.exhibits import Exhibits
from engine.report.story import Story, moment

MAX_ENTRIES = 60
GAP_US = 5 * MINUTE_US


def build_timeline(
    case: Case, graph: Graph, decision: Decision, story: Story, *, directory: Directory,
    exhibits: Exhibits, bounds: Bounds, progress: Progress,
) -> list[TimelineEntry]:  # fmt: skip
    """Return the entries ordered by time; what has no time comes last."""
    entries: list[TimelineEntry] = []
    if bounds.start != OPEN_PAST:
        entries.append(TimelineEntry(at=moment(bounds.start), kind="start", text="the job started"))
    if progress.is_dated and progress.last_step is not None:
        entries.append(
            TimelineEntry(
                at=moment(progress.last_earliest),
                kind="progress",
                text=f"last step seen: {progress.last_step}",
            )
        )
    entries += _gaps(bounds, progress)
    seen: set[tuple[str, str]] = set()
    for episode in graph.episodes:
        role, _ = story.role(episode)
        marker = episode.meaning.role == "marker" and _is_milestone(episode)
        if role not in ("root", "contributing", "downstream") and not marker:
            continue
        # One line per symptom and role: the first of its kind is what a person needs.
        if (episode.symptom, role) in seen and role != "root":
            continue
        seen.add((episode.symptom, role))
        entries.append(_entry(episode, "milestone" if marker else role, exhibits))
    if bounds.end != OPEN_FUTURE:
        word = case.workload.state or decision.terminal
        entries.append(
            TimelineEntry(at=moment(bounds.end), kind="end", text=f"the job ended: {word}")
        )
    entries.sort(key=_order)
    return entries[:MAX_ENTRIES]


def _is_milestone(episode: Episode) -> bool:
    return any(word in episode.symptom for word in ("checkpoint", "boot", "restart", "reset"))


def _entry(episode: Episode, kind: str, exhibits: Exhibits) -> TimelineEntry:
    at = episode.onset_latest if episode.onset_latest != OPEN_FUTURE else episode.onset_earliest
    times = f" ({episode.count} times)" if episode.count > 1 else ""
    title = episode.meaning.title or FALLBACK["unobserved_cause"].title
    return TimelineEntry(
        at=moment(at),
        kind=kind,
        text=f"{title}{times}",
        node=episode.subject.node or None,
        rank=episode.subject.rank,
        evidence=tuple(exhibits.cite(episode, 1)),
    )


def _gaps(bounds: Bounds, progress: Progress) -> list[TimelineEntry]:
    if not progress.is_dated or OPEN_FUTURE in (bounds.end, progress.last_latest):
        return []
    silent = bounds.end - progress.last_latest
    if silent < GAP_US:
        return []
    return [
        TimelineEntry(
            at=moment(progress.last_latest),
            until=moment(bounds.end),
            kind="gap",
            text=f"no step was seen for {silent // MINUTE_US} minutes",
        )
    ]


def _order(entry: TimelineEntry) -> tuple[object, ...]:
    return (
        entry.at is None, entry.at or "", _KIND_ORDER.get(entry.kind, 5), entry.text,
        entry.node or "", -1 if entry.rank is None else entry.rank,
    )  # fmt: skip


_KIND_ORDER = {"start": 0, "progress": 1, "gap": 2, "root": 3, "contributing": 4, "end": 9}
