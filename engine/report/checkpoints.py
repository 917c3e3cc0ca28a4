"""How far the job came: last step, last checkpoint, and what was lost since."""

from engine.episodes import Episode
from engine.model.verdict import Progress as ProgressReport
from engine.model.workload import Workload
from engine.moments import OPEN_FUTURE, OPEN_PAST
from engine.normalise import Bounds
from engine.progress import Progress
from engine.report.story import moment


def build_progress(
    workload: Workload, episodes: list[Episode], progress: Progress, bounds: Bounds
) -> ProgressReport:
    """Return the progress section; unknown parts stay null."""
    saved_at, name = _last_checkpoint(episodes)
    hours: str | None = None
    if saved_at is not None and bounds.end != OPEN_FUTURE and workload.world_size:
        lost_us = max(0, bounds.end - saved_at) * workload.world_size
        tenths = lost_us * 10 // 3_600_000_000
        hours = f"{tenths // 10}.{tenths % 10}"
    return ProgressReport(
        last_step=progress.last_step,
        last_step_at=moment(progress.last_earliest) if progress.is_dated else None,
        last_checkpoint=name,
        last_checkpoint_at=None if saved_at is None else moment(saved_at),
        gpu_hours_since_checkpoint=hours,
    )


def _last_checkpoint(episodes: list[Episode]) -> tuple[int | None, str | None]:
    best: tuple[int, str] | None = None
    for episode in episodes:
        if episode.meaning.role != "marker" or "checkpoint" not in episode.symptom:
            continue
        for observation in episode.observations:
            at = observation.last.when.latest_us
            fields = observation.fields
            name = fields.get("path") or fields.get("step") or ""
            found = (OPEN_PAST if at is None else at, name)
            best = found if best is None else max(best, found)
    if best is None:
        return None, None
    return (None if best[0] == OPEN_PAST else best[0]), best[1] or None
