"""The connector contract: a plan item goes in, labelled byte streams and a report come out.

A connector fetches and labels; decoding, redaction, scanning and folding are `engine.extract`'s.
It gets its clients passed in, knows its budget, and reports instead of failing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.vocabulary import CoverageState, Runner, Source, Trust
from engine.model.workload import Workload


class ConnectorError(Exception):
    """A source that cannot be read: what, where, why and what to do, in one sentence."""


class TransientError(ConnectorError):
    """A failure that a retry can cure (throttling, a reset connection, a 5xx answer)."""


class SourceNotConfiguredError(ConnectorError):
    """Nothing is configured for this source: `not_configured`, never `empty`."""


class SourceUnreachableError(TransientError):
    """No answer: refused, reset, timed out, or broken off in the middle."""


class SourceBusyError(TransientError):
    """The source asks for patience (429, 503 or another 5xx); `retry_after_s` where it says."""

    def __init__(self, message: str, retry_after_s: float | None = None):
        super().__init__(message)
        self.retry_after_s = retry_after_s


class SourceRefusedError(ConnectorError):
    """Credentials are missing, wrong or too narrow (401, 403): a retry changes nothing."""


class SourceAbsentError(ConnectorError):
    """The source does not know what was asked for (404), or no longer."""


class CursorExpiredError(ConnectorError):
    """The place to go on from is gone (410): list again from the start."""


class MalformedAnswerError(ConnectorError):
    """An answer that is not what the source's documentation says."""


class BudgetSpentError(ConnectorError):
    """The item's requests, bytes or seconds are used up; what was read stays read."""


class ByteStream(Protocol):
    """An open stream: raw bytes as stored (perhaps compressed), read once, in order."""

    label: StreamLabel

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end; raises `TransientError`."""

    def close(self) -> None:
        """Release what the stream holds."""


@dataclass(slots=True)
class Collected:
    """What a connector says beside its streams; filled while they are read.

    `cursor` is where the next run goes on, set when a budget ends the reading. `coverage` is what
    the source itself knows of its answer: `empty` where a positive control shows that there is
    such a stream, `unverified` where nothing proves it, `filtered` where not all was asked for.
    """

    requests: int = 0
    paths_missing: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    cursor: str | None = None
    coverage: CoverageState | None = None


class Connector(Protocol):
    """One source of evidence."""

    name: str

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield each stream of the item, in a stable order; missing ones go to `collected`."""


@dataclass(slots=True, frozen=True)
class Capabilities:
    """What a connector can do, for the planner and for `rootrank connectors check`.

    `resumes` means that it goes on from an item's cursor; `remembers` that it can still tell of a
    job that ended days ago.
    """

    sources: tuple[Source, ...]
    trust: Trust
    resumes: bool = False
    remembers: bool = True
    runners: tuple[Runner, ...] = ("lambda", "spoke", "edge")


ProbeStatus = Literal["ok", "unreachable", "refused", "not_configured", "malformed"]


@dataclass(slots=True, frozen=True)
class Probe:
    """Whether a source can be reached, and what would be collected from it."""

    connector: str
    target: str
    status: ProbeStatus
    detail: str
    would_collect: tuple[str, ...] = ()


class ProbedConnector(Connector, Protocol):
    """A connector that a site configures: it says what it can do and tries its source."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    def probe(self) -> Probe:
        """Ask the source something small; never raises `ConnectorError`."""


def probe_status(error: ConnectorError) -> ProbeStatus:
    """Return how a probe tells of an error."""
    if isinstance(error, SourceNotConfiguredError):
        return "not_configured"
    if isinstance(error, SourceRefusedError):
        return "refused"
    if isinstance(error, MalformedAnswerError):
        return "malformed"
    return "unreachable"


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
