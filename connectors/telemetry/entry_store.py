"""What connectors of log stores share: one allowance an item, streams in turn, a cursor in one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

from connectors.allowance import Allowance
from connectors.protocol import (
    BudgetSpentError,
    Capabilities,
    Collected,
    ConnectorError,
    TransientError,
)
from connectors.telemetry.entry_stream import EntryStream
from engine.model.plan import PlanItem
from engine.model.vocabulary import Source
from engine.model.workload import Workload


@dataclass(slots=True, frozen=True)
class Place:
    """A stream to be: `open` gets the place inside it to go on from, None for its beginning."""

    uri: str
    open: Callable[[str | None], EntryStream]


class EntryStore(ABC):
    """A log store of entries, read stream by stream. `clock` counts seconds from anywhere."""

    name: str
    clock: Callable[[], float]

    @abstractmethod
    def sources(self) -> Sequence[Source]:
        """Return what its streams are, as the site says."""

    @abstractmethod
    def read(
        self, item: PlanItem, workload: Workload, collected: Collected, *, allowance: Allowance
    ) -> Iterator[EntryStream]:
        """Yield the streams of an item."""

    @property
    def capabilities(self) -> Capabilities:
        """Entries stay for the retention of the store."""
        return Capabilities(
            sources=tuple(sorted(set(self.sources()))), trust="workload", resumes=True
        )

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[EntryStream]:
        """Yield a stream for each stream of the store with entries in the window."""
        allowance = Allowance(item.budget, self.clock)
        try:
            yield from self.read(item, workload, collected, allowance=allowance)
        finally:
            collected.requests = allowance.requests


def in_turn(
    places: Sequence[Place], *, cursor: str | None, collected: Collected
) -> Generator[EntryStream, None, int]:
    """Yield the streams that have entries, in the order of their uris; returns how many.

    `cursor` is `<uri>` or `<uri>@<place inside>`. A budget that ends leaves one; a transient
    failure is raised when all others have been read.
    """
    from_uri, _, inside = (cursor or "").partition("@")
    pending: TransientError | None = None
    count = 0
    for place in sorted(places, key=lambda each: each.uri):
        if place.uri < from_uri:
            continue
        try:
            stream = place.open(inside or None if place.uri == from_uri else None)
            if stream.begin():
                count += 1
                yield stream
        except BudgetSpentError as error:
            collected.cursor = collected.cursor or place.uri
            collected.warnings.append(str(error))
        except TransientError as error:
            pending = pending or error
        except ConnectorError as error:
            collected.paths_missing.append(place.uri)
            collected.warnings.append(str(error))
        if collected.cursor is not None:
            break
    if pending is not None:
        raise pending
    return count
