"""From the objects that exist to an immutable manifest and the engine's `Case`.

What is missing or cannot be read becomes a sentence in `Case.losses`, never a failure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from backports import zstd

from connectors.protocol import ConnectorError, TransientError
from engine.case import Case
from engine.model.canonical import digest_bytes
from engine.model.observation import Observation, StreamSummary, decode
from engine.model.plan import Manifest, ManifestEntry, Plan, PlanItem, Report
from engine.model.verdict import HistoryEntry
from engine.rulebook.book import Rulebook
from functions.adapters.keys import collected_prefix, report_key
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.collect.receipt import Receipt
from functions.scope.scoping import LOST

MAX_LOSSES: Final = 50
"""Sentences about losses that a verdict carries; the rest is counted."""
_INFLATED_BYTES: Final = 512 * 1024**2
"""A shard of folded observations is kilobytes; one that inflates beyond this is no shard."""


@dataclass(slots=True)
class Gathered:
    """The evidence of one generation, and what of it was lost."""

    plans: list[Plan]
    plan_entry: ManifestEntry
    observations: list[Observation] = field(default_factory=list)
    streams: list[StreamSummary] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    read: list[ManifestEntry] = field(default_factory=list)
    receipts: list[ManifestEntry] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    def manifest(self, collection: int) -> Manifest:
        """Return the list of everything that was read."""
        plan = self.plans[-1]
        return Manifest(
            attempt_key=plan.attempt_key,
            generation=plan.generation,
            collection=collection,
            plan=self.plan_entry,
            observations=tuple(sorted(self.read, key=lambda entry: entry.key)),
            reports=tuple(sorted(self.receipts, key=lambda entry: entry.key)),
        )

    def case(self, *, still_running: bool, detection_signal: str | None) -> Case:
        """Return the engine's input."""
        first = self.plans[0]
        losses = sorted(set(self.losses))
        if len(losses) > MAX_LOSSES:
            more = len(losses) - MAX_LOSSES
            losses = [*losses[:MAX_LOSSES], f"and {more} further losses"]
        return Case(
            workload=first.workload,
            observations=self.observations,
            streams=self.streams,
            reports=self.reports,
            windows=first.windows,
            history=tuple(HistoryEntry.model_validate(each) for each in first.history),
            losses=tuple(losses),
            still_running=still_running,
            detection_signal=detection_signal,
        )


@dataclass(slots=True, frozen=True)
class Gathering:
    """Reads what the collectors of one generation left.

    `is_patient`: raise `TransientError` so that the workflow tries again; otherwise an object
    that cannot be read now is lost.
    """

    store: ObjectStore
    book: Rulebook
    is_patient: bool

    def gather(
        self, plans: list[Plan], plan_entry: ManifestEntry, errors: Mapping[str, Any]
    ) -> Gathered:
        """Read every shard of every plan; `errors` are what the workflow caught on the way."""
        gathered = Gathered(plans, plan_entry)
        for plan in plans:
            gathered.losses += [
                note.removeprefix(LOST) for note in plan.notes if note.startswith(LOST)
            ]
        gathered.losses += list(_workflow_losses(errors))
        taken_over = {path for plan in plans[1:] for path in _paths(plan.items)}
        for plan in plans:
            prefix = collected_prefix(plan.attempt_key, plan.generation, plan.collection)
            for item in plan.items:
                if plan is plans[0] and item.evidence and _paths([item]) <= taken_over:
                    continue
                self._gather_item(gathered, plan, item, prefix=prefix)
        return gathered

    def _gather_item(
        self, gathered: Gathered, plan: Plan, item: PlanItem, *, prefix: str
    ) -> None:
        name = f"{item.connector} {item.shard}"
        key = report_key(prefix, item.item_id)
        body = self._read(gathered, key, f"{name}: left no report")
        if body is None:
            gathered.reports.append(_missing_report(item, plan))
            return
        try:
            receipt = Receipt.model_validate_json(body)
        except ValueError:
            gathered.losses.append(f"{name}: its report cannot be read")
            gathered.reports.append(_missing_report(item, plan))
            return
        gathered.receipts.append(ManifestEntry(key=key, sha256=digest_bytes(body)))
        digests = {receipt.report.extraction_digest, plan.extraction_digest}
        if digests != {self.book.extraction_digest}:
            gathered.losses.append(f"{name}: extracted under other rules; collect it again")
            gathered.reports.append(_missing_report(item, plan, "extracted under other rules"))
            return
        gathered.reports.append(receipt.report)
        if receipt.observations is not None:
            self._gather_shard(gathered, receipt.observations, name)

    def _gather_shard(self, gathered: Gathered, entry: ManifestEntry, name: str) -> None:
        body = self._read(gathered, entry.key, f"{name}: its observations are gone")
        if body is None:
            return
        if digest_bytes(body) != entry.sha256:
            gathered.losses.append(f"{name}: its observations were changed after they were stored")
            return
        try:
            text = _inflate(body)
        except (zstd.ZstdError, ValueError, EOFError) as error:
            gathered.losses.append(f"{name}: its observations cannot be unpacked ({error})")
            return
        gathered.read.append(entry)
        observations, streams, errors = decode(text)
        gathered.losses += [f"{name}: unreadable observation, {error}" for error in errors]
        strange = [each for each in observations if self._is_strange(each)]
        if strange:
            gathered.losses.append(f"{name}: {len(strange)} observations made under other rules")
        gathered.observations += [each for each in observations if not self._is_strange(each)]
        gathered.streams += streams

    def _is_strange(self, observation: Observation) -> bool:
        return observation.extraction_digest not in ("", self.book.extraction_digest)

    def _read(self, gathered: Gathered, key: str, loss: str) -> bytes | None:
        try:
            return self.store.get(key)[0]
        except ObjectMissingError:
            gathered.losses.append(loss)
        except TransientError:
            if self.is_patient:
                raise
            gathered.losses.append(f"{loss} (storage did not answer)")
        except ConnectorError:
            gathered.losses.append(f"{loss} (storage refused it)")
        return None


def _inflate(body: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    text = decompressor.decompress(body, max_length=_INFLATED_BYTES)
    if not decompressor.eof:
        raise ValueError("truncated, or larger than a shard can be")
    return text


def _paths(items: "tuple[PlanItem, ...] | list[PlanItem]") -> set[str]:
    return {entry.path for item in items for entry in item.evidence}


def _missing_report(item: PlanItem, plan: Plan, reason: str = "no report") -> Report:
    return Report(
        item_id=item.item_id,
        connector=item.connector,
        shard=item.shard,
        source=item.source,
        status="error",
        reason=reason,
        extraction_digest=plan.extraction_digest,
    )


def _workflow_losses(errors: Mapping[str, Any]) -> Iterator[str]:
    told = {
        "plan_error": "planning failed, so nothing but the event was read",
        "collect_error": "collection as a whole failed",
    }
    for name, sentence in told.items():
        error = errors.get(name)
        if isinstance(error, dict):
            yield f"{sentence} ({str(error.get('Error', 'unknown error'))[:80]})"
