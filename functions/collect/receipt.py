"""What a collector leaves behind: observations named by content, and a receipt written once.

The receipt is the commit: a collector that was presumed dead and writes late finds the first
receipt in place and changes nothing.
"""

from collections.abc import Callable, Iterable, Sequence

from backports import zstd
from pydantic import ValidationError

from engine.model.canonical import canonical_json, digest_bytes
from engine.model.contract import Document
from engine.model.observation import Observation, StreamSummary, encode
from engine.model.plan import ManifestEntry, PlanItem, Report
from functions.adapters.keys import observations_key, report_key
from functions.adapters.metering import Meter
from functions.adapters.object_store import ObjectConflictError, ObjectMissingError, ObjectStore

OBSERVATIONS_TYPE = "application/zstd"
RECEIPT_TYPE = "application/json"
LEVEL = 3
"""zstd's own default: a shard is kilobytes, so the level costs nothing and gains little."""


class Receipt(Document):
    """An item's report and where its observations are; none where it stored nothing."""

    report: Report
    observations: ManifestEntry | None = None


def store_collected(
    store: ObjectStore,
    prefix: str,
    *,
    report: Report,
    observations: Iterable[Observation],
    summaries: Iterable[StreamSummary],
    meter: Callable[[], Meter] = Meter,
) -> Receipt:
    """Store what an item collected and return the receipt that stands.

    That is an earlier one where another run of the item came first.
    """
    body = packed(observations, summaries)
    entry = None
    if body:
        sha256 = digest_bytes(body)
        key = observations_key(prefix, report.item_id, sha256)
        stored = store.put_once(key, body, content_type=OBSERVATIONS_TYPE)
        entry = ManifestEntry(key=key, version=stored.version, sha256=sha256)
    return store_receipt(store, prefix, Receipt(report=report, observations=entry), meter=meter())


def packed(observations: Iterable[Observation], summaries: Iterable[StreamSummary]) -> bytes:
    """Return what an item collected as stored bytes; empty where there is nothing."""
    items: list[Observation | StreamSummary] = [*observations, *summaries]
    return zstd.compress(encode(items), level=LEVEL) if items else b""


def store_receipt(
    store: ObjectStore, prefix: str, receipt: Receipt, *, meter: Meter | None = None
) -> Receipt:
    """Write the receipt once; returns the one that stands."""
    key = report_key(prefix, receipt.report.item_id)
    try:
        store.put_once(
            key,
            receipt_bytes(receipt),
            content_type=RECEIPT_TYPE,
            metadata=(meter or Meter()).metadata(),
        )
    except ObjectConflictError:
        return Receipt.model_validate_json(store.get(key)[0])
    return receipt


def receipt_bytes(receipt: Receipt) -> bytes:
    """Return a receipt as it is stored."""
    return canonical_json(receipt.model_dump(mode="json"))


def read_receipts(store: ObjectStore, prefix: str, items: Sequence[PlanItem]) -> dict[str, Receipt]:
    """Return the receipts that exist, by item id; one that cannot be read counts as missing."""
    found: dict[str, Receipt] = {}
    for item in items:
        try:
            body, _ = store.get(report_key(prefix, item.item_id))
            found[item.item_id] = Receipt.model_validate_json(body)
        except (ObjectMissingError, ValidationError):
            continue
    return found
