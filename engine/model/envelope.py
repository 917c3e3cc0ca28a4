"""attribution/v1: what S3, the table and SNS carry around a verdict (CONTRACTS, section 2)."""

from typing import Any, Final

from pydantic import Field

from engine.model.contract import Document, require_major
from engine.model.verdict import Verdict
from engine.model.vocabulary import RevisionStatus

SCHEMA: Final = "attribution/v1"


class Cost(Document):
    """What one attribution took; decimals as text, `priced_on` the date of the price table."""

    bytes_scanned: int = 0
    requests: int = 0
    gb_seconds: str = "0"
    usd_estimate: str = "0"
    priced_on: str | None = None


class Envelope(Document):
    """One revision of an attempt's verdict; `corrected_by` is whoever corrected it."""

    schema_version: str = SCHEMA
    attempt_key: str
    revision: int = Field(ge=1)
    status: RevisionStatus
    supersedes: int | None = None
    changed: tuple[str, ...] = ()
    published_at: str
    cost: Cost = Cost()
    timings_ms: dict[str, int] = Field(default={})
    locations: dict[str, str] = Field(default={})
    manifest_digest: str
    verdict: Verdict
    corrected_by: str | None = None


def read_envelope(document: dict[str, Any]) -> Envelope:
    """Read a stored envelope; raises `UnknownMajorVersionError` for another major version."""
    require_major(str(document.get("schema_version", "")).removeprefix("attribution/v"), 1, SCHEMA)
    return Envelope.model_validate(document)
