"""What a verdict asks to be fetched: a document of its own, because plans hold it as well.

Functions that work with plans alone start without the twenty-five models of a verdict.
"""

from engine.model.contract import Document
from engine.model.vocabulary import Source


class Interval(Document):
    """A window of time, RFC 3339 in UTC; an open end is null."""

    start: str | None = None
    end: str | None = None


class EvidenceRequest(Document):
    """What to fetch to overturn or confirm a verdict; the second collection runs exactly these."""

    source: Source
    entities: tuple[str, ...] = ()
    window: Interval = Interval()
    why: str
