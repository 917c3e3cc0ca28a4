"""How far the job came, and whether it had stopped before something ended it."""

from dataclasses import dataclass, field

from engine.case import Case
from engine.entities import Directory
from engine.episodes import Episode
from engine.meanings import Meanings
from engine.model.observation import Entity
from engine.moments import MINUTE_US, OPEN_FUTURE, OPEN_PAST, or_future, or_past
from engine.normalise import Bounds
from engine.terminal import Claim

# Silence that is not yet a stall: checkpoints, validation and logging intervals take minutes,
# but none so many steps of a job that makes several a second.
STALL_MIN_US = 30 * MINUTE_US
STALL_STEPS = 20
STALL_MANY_STEPS = 500


@dataclass(slots=True, frozen=True)
class Progress:
    """The last steps of the job. `stalled` is None where the evidence cannot say.

    A proven stall is one that lines in an output buffer cannot explain away.
    """

    last_step: int | None
    last_earliest: int
    last_latest: int
    is_dated: bool
    has_steps: bool
    stalled: bool | None
    stalled_for_us: int | None
    has_output: bool = False
    is_stall_proven: bool = False
    pause_us: int = 0
    ends: dict[str, int] = field(default_factory=dict)  # file -> offset of its last step

    def outlived(self, episode: Episode, settle_us: int) -> bool:
        """Whether steps went on well after the last sighting of an episode."""
        if not self.is_dated or episode.seen_last == OPEN_PAST:
            return False
        if episode.onset_latest == OPEN_FUTURE:
            return False
        return episode.seen_last + settle_us < self.last_earliest

    def is_below(self, episode: Episode) -> bool:
        """Whether an episode stands below the last step in every log that shows both."""
        places = episode.places()
        shared = places.keys() & self.ends.keys()
        return bool(shared) and all(places[uri] > self.ends[uri] for uri in shared)


STALL = "progress_stopped"
# What a program holds back in its output buffer, and loses when it is killed.
BUFFER_BYTES = 8192
# No buffer of a program that logs steps hides them for this long.
LONG_SILENCE_US = 120 * MINUTE_US
_DATED = ("stamp", "local", "yearless", "uptime", "sample", "record", "neighbour")


def read_progress(case: Case, bounds: Bounds) -> Progress:
    """Return the job's progress from its streams' sampled step lines."""
    last_step: int | None = None
    earliest, latest, dated = OPEN_PAST, OPEN_PAST, False
    span_us, span_steps = 0, 0
    held_us: int | None = None
    proven = is_open = False
    for stream in case.streams:
        if stream.last_step is None:
            continue
        last_step = stream.last_step if last_step is None else max(last_step, stream.last_step)
        when = stream.last_step_when
        low, high = or_past(when.earliest_us), or_future(when.latest_us)
        is_open = is_open or (when.basis == "neighbour" and high == OPEN_FUTURE)
        if when.basis in _DATED and low != OPEN_PAST and high != OPEN_FUTURE:
            dated = True
            earliest, latest = max(earliest, low), max(latest, high)
            begin = or_past(stream.first.earliest_us)
            first_step = or_past(stream.first_step_when.earliest_us)
            if first_step == OPEN_PAST:
                first_step = begin
            steps = stream.last_step - (stream.first_step or 0)
            if first_step != OPEN_PAST and steps > span_steps:
                span_us, span_steps = low - first_step, steps
            if begin != OPEN_PAST and stream.bytes and "truncated" not in stream.flags:
                # How long the program needs to fill its buffer with lines that nobody sees.
                filling = (low - begin) * BUFFER_BYTES // stream.bytes
                held_us = filling if held_us is None else min(held_us, filling)
    has_output = any(s.source == "applog" and s.lines > 0 for s in case.streams)
    stalled: bool | None = None
    gap: int | None = None
    pause = 0
    if dated and not is_open and OPEN_FUTURE not in (bounds.end, latest):
        gap = max(0, bounds.end - latest)
        period = span_us // span_steps if span_steps else 0
        usual = _usual_silence(case, gap)
        pause = max(MINUTE_US, period, usual // 2)
        least = min(STALL_MIN_US, STALL_MANY_STEPS * period) if period else STALL_MIN_US
        enough = max(MINUTE_US, least, STALL_STEPS * period, usual)
        stalled = gap > enough
        is_shown = _output_after(case, latest) > enough
        is_long = held_us is not None and gap > min(held_us, LONG_SILENCE_US)
        proven = stalled and (is_shown or is_long)
    if not dated:
        earliest, latest = OPEN_PAST, OPEN_FUTURE
    return Progress(
        last_step,
        earliest,
        latest,
        dated,
        last_step is not None,
        stalled,
        gap,
        has_output,
        proven,
        pause,
        {s.stream: s.last_step_offset for s in case.streams if s.last_step_offset is not None},
    )


def stall_episode(
    progress: Progress, claim: Claim, directory: Directory, meanings: Meanings
) -> list[Episode]:
    """Return the stop of progress as an episode where silence proves it and a stop ended the job.

    It began after the last step that was seen, within the pause that is usual between two.
    """
    if not progress.is_stall_proven or claim.terminal not in ("timeout", "cancelled"):
        return []
    episode = Episode(STALL, meanings.require(STALL), directory.subject(Entity()))
    episode.onset_earliest = episode.seen_first = progress.last_earliest
    episode.seen_last = progress.last_latest
    episode.onset_latest = progress.last_latest + progress.pause_us
    episode.count = 1
    return [episode]


def _output_after(case: Case, last_step: int) -> int:
    """How long ranks that had logged steps went on to write other lines: no buffer hides steps."""
    written = [
        or_past(stream.last.earliest_us) - last_step
        for stream in case.streams
        if "#rank=" in stream.stream and stream.last_step is not None
    ]
    return max(written, default=0)


def _usual_silence(case: Case, gap: int) -> int:
    """Twice the longest pause that the job came back from; the last gap itself is none."""
    pauses = [
        stream.largest_gap_us
        for stream in case.streams
        if stream.last_step is not None and stream.largest_gap_us is not None
    ]
    usual = [pause for pause in pauses if pause * 10 < gap * 9]
    return 2 * max(usual, default=0)
