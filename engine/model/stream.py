"""What is known of a stream beside its text."""

from dataclasses import dataclass

from engine.model.vocabulary import Source, Trust


@dataclass(slots=True, frozen=True)
class StreamLabel:
    """What the connector knows of a stream and its text cannot say.

    `uri` is logical and relative to the attempt (never a physical location). `nodes` and
    `ranks` hold one entry where the stream belongs to one node or rank, several where it is
    shared. Times are microseconds since the epoch.
    """

    uri: str
    source: Source
    trust: Trust
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    pod: str = ""
    container: str = ""
    timezone: str | None = None
    boot_time_us: int | None = None
    captured_at_us: int | None = None
