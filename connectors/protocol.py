"""The connector contract: a plan item goes in, labelled byte streams and a report come out.

A connector fetches and labels; decoding, redaction, scanning and folding are `engine.extract`'s.
It gets its clients passed in, knows its budget, and reports instead of failing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source, Trust
from engine.model.workload import Workload


class ConnectorError(Exception):
    """A source that cannot be read: what, where, why and what to do, in one sentence."""


class TransientError(ConnectorError):
    """A failure that a retry can cure (throttling, a reset connection, a 5xx answer)."""


class SourceNotConfiguredError(ConnectorError):
    """Nothing is configured for this source: `not_configured`, never `empty`."""


class ByteStream(Protocol):
    """An open stream: raw bytes as stored (perhaps compressed), read once, in order."""

    label: StreamLabel

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end; raises `TransientError`."""

    def close(self) -> None:
        """Release what the stream holds."""


@dataclass(slots=True)
class Collected:
    """What a connector says beside its streams; filled while they are read."""

    requests: int = 0
    paths_missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class Connector(Protocol):
    """One source of evidence."""

    name: str

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield each stream of the item, in a stable order; missing ones go to `collected`."""


TRUST_OF_SOURCE: dict[Source, Trust] = {
    "applog": "workload",
    "syslog": "node",
    "scheduler": "platform",
    "kubernetes": "platform",
    "metrics": "platform",
    "flight_recorder": "workload",
    "inventory": "node",
}
"""Trust of a bundle's files by declared source. Set by whoever made the bundle, never by text."""
