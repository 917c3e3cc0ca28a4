"""Everything that one attribution reads, gathered: the only input of the reasoning phases."""

from dataclasses import dataclass, field

from engine.model.observation import Observation, StreamSummary
from engine.model.plan import Report, Window
from engine.model.verdict import HistoryEntry
from engine.model.vocabulary import Trust
from engine.model.workload import Workload


@dataclass(slots=True, frozen=True)
class Case:
    """One attempt with its folded evidence. The order of no list matters to the verdict.

    `losses` are plain sentences about evidence that existed and could not be read (a poisoned
    line, an object that could not be fetched): they lower quality and show in the verdict.
    `stated_by` is the trust of the workload's own state: an event on the bus is the platform's
    word, what a caller of the REST service states is the caller's.
    """

    workload: Workload
    observations: list[Observation]
    streams: list[StreamSummary]
    reports: list[Report] = field(default_factory=list)
    windows: tuple[Window, ...] = ()
    history: tuple[HistoryEntry, ...] = ()
    losses: tuple[str, ...] = ()
    still_running: bool = False
    detection_signal: str | None = None
    stated_by: Trust = "platform"
