"""What a scheduler's event comes down to, and why one may be refused."""

from typing import Any

from pydantic import Field

from connectors.protocol import ConnectorError
from engine.model.contract import Document
from engine.model.moment import from_us, rfc3339, to_us
from engine.model.vocabulary import DetectionSignal
from engine.model.workload import EvidenceSource, Workload


class UnknownEventError(ConnectorError):
    """An event of a source or kind that no normaliser reads."""


class InvalidEventError(ConnectorError):
    """An event of a known kind that lacks what an attempt needs, or says it wrongly."""


class UnfinishedEventError(InvalidEventError):
    """A state change that ends nothing: there is nothing to attribute yet."""


class ScopedEvent(Document):
    """The allow-listed part of an event; never parameters, environment, commands or roles.

    `record` is what the scheduler says of the attempt, as text that the formats read;
    `instance_ids` are those of its nodes, where the source knows them; `account` is the bus's;
    `left_out` is what the sender had to leave out for the event to fit.
    """

    origin: str
    workload: Workload
    evidence: tuple[EvidenceSource, ...] = ()
    bundle_uri: str | None = None
    detection_signal: DetectionSignal | None = None
    record: str | None = None
    account: str = ""
    instance_ids: dict[str, str] = Field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def epoch_ms_text(value: Any) -> str | None:
    """Return RFC 3339 text of epoch milliseconds; None where there is none, or no sane one."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if not 0 < value < 4_102_444_800_000:
        return None
    return rfc3339(to_us(from_us(int(value) * 1_000)))


def first_problem(error: Any) -> str:
    """Return `place: message` of the first problem of a validation error."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"]) or "detail"
    return f"{place}: {problem['msg']}"
