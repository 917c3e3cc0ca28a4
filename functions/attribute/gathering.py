"""From the objects that exist to an immutable manifest and the engine's `Case`.

What is missing or cannot be read becomes a sentence in `Case.losses`, never a failure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backports import zstd

from connectors.protocol import ConnectorError, TransientError
from connectors.schedulers.record import NAME as RECORD
from connectors.static import NAME as STATIC
from engine.case import Case
from engine.model.canonical import digest_bytes
from engine.model.observation import Observation, Sharing, StreamSummary, decode
from engine.model.plan import Manifest, ManifestEntry, Plan, PlanItem, Report
from engine.model.verdict import PastVerdict
from engine.rulebook.book import Rulebook
from functions.adapters.keys import collected_prefix, report_key
from functions.adapters.metering import Meter
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.adapters.site_rules import CONNECTOR as SITE_RULES
from functions.attribute.undescribed import reported_losses, with_window
from functions.collect.receipt import Receipt
from functions.scope.affordable import unafforded_reports
from functions.scope.planning import windows_of
from functions.scope.scoping import CUT, INFERRED, LOST, UNREAD, record_source

MAX_LOSSES: Final = 50
"""Sentences about losses that a verdict carries; the rest is counted."""
_NAMED_ERRORS: Final = 3
_RUNNING: Final = ("RUNNING", "COMPLETING", "SUSPENDED")
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
    meters: list[Meter] = field(default_factory=list)
    plan_meters: list[Meter] = field(default_factory=list)
    sharing: Sharing = field(default_factory=Sharing)

    @property
    def is_gone(self) -> bool:
        """Whether collectors left nothing although there was something to collect."""
        return not self.receipts and any(plan.items for plan in self.plans)

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

    def case(self, *, detection_signal: str | None) -> Case:
        """Return the engine's input."""
        first = self.plans[0]
        workload, windows = first.workload, first.windows
        if INFERRED in first.notes:
            workload = with_window(workload, self.streams)
            windows = windows_of(workload)
        losses = sorted({*self.losses, *reported_losses(self.reports)})
        if len(losses) > MAX_LOSSES:
            losses = [*losses[:MAX_LOSSES], f"and {len(losses) - MAX_LOSSES} further losses"]
        state = (workload.state or "").upper()
        return Case(
            workload=workload,
            observations=self.observations,
            streams=self.streams,
            reports=self.reports,
            windows=windows,
            history=tuple(
                PastVerdict.model_validate(each) for plan in self.plans for each in plan.history
            ),
            losses=tuple(losses),
            still_running=workload.end is None
            and (state.startswith(_RUNNING) or (not state and detection_signal is not None)),
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
        gathered = self.begin(plans, plan_entry, errors)
        for plan, item in items_of(plans):
            prefix = collected_prefix(plan.attempt_key, plan.generation, plan.collection)
            self._gather_item(gathered, plan, item, prefix=prefix)
        return gathered

    def begin(
        self, plans: list[Plan], plan_entry: ManifestEntry, errors: Mapping[str, Any]
    ) -> Gathered:
        """Return what the plans themselves say, before any shard is read."""
        gathered = Gathered(plans, plan_entry)
        gathered.reports += unafforded_reports(plans[0])
        for plan in plans:
            gathered.losses += _noted(plan, LOST)
            gathered.reports += [_cut_short(each, plan) for each in _noted(plan, CUT)]
            gathered.reports += [
                _failure(STATIC, "bundle", each, plan) for each in _noted(plan, UNREAD)
            ]
        gathered.reports += [
            _failure("workflow", name, reason, plans[0])
            for name, reason in _workflow_failures(errors)
        ]
        return gathered

    def _gather_item(self, gathered: Gathered, plan: Plan, item: PlanItem, *, prefix: str) -> None:
        key = report_key(prefix, item.item_id)
        body, trouble, metadata = self._read(key)
        if body is None:
            gathered.reports.append(missing_report(item, plan, f"no report: {trouble}"))
            return
        meter = Meter.read(metadata)
        if meter is not None:
            gathered.meters.append(meter)
        try:
            receipt = Receipt.model_validate_json(body)
        except ValueError:
            gathered.reports.append(missing_report(item, plan, "its report cannot be read"))
            return
        gathered.receipts.append(ManifestEntry(key=key, sha256=digest_bytes(body)))
        digests = {receipt.report.extraction_digest, plan.extraction_digest}
        if digests != {self.book.extraction_digest}:
            gathered.reports.append(missing_report(item, plan, "extracted under other rules"))
            return
        report = receipt.report
        if receipt.observations is not None:
            losses = self._gather_shard(gathered, receipt.observations)
            if losses:
                reason = "; ".join([*([report.reason] if report.reason else []), *losses])
                report = report.model_copy(update={"status": "partial", "reason": reason})
        gathered.reports.append(report)

    def _gather_shard(self, gathered: Gathered, entry: ManifestEntry) -> list[str]:
        """Add a shard's observations; returns what of it was lost."""
        body, trouble, _ = self._read(entry.key)
        if body is None:
            return [f"its observations are lost: {trouble}"]
        if digest_bytes(body) != entry.sha256:
            return ["its observations were changed after they were stored"]
        try:
            text = _inflate(body)
        except (zstd.ZstdError, ValueError, EOFError) as error:
            return [f"its observations cannot be unpacked ({error})"]
        gathered.read.append(entry)
        observations, streams, errors = decode(text, gathered.sharing)
        sound = [each for each in observations if not self._is_strange(each)]
        gathered.observations += sound
        gathered.streams += streams
        losses = [f"unreadable observation, {error}" for error in errors[:_NAMED_ERRORS]]
        if len(errors) > _NAMED_ERRORS:
            losses.append(f"{len(errors) - _NAMED_ERRORS} further unreadable observations")
        if len(sound) < len(observations):
            losses.append(f"{len(observations) - len(sound)} observations made under other rules")
        return losses

    def _is_strange(self, observation: Observation) -> bool:
        return observation.extraction_digest not in ("", self.book.extraction_digest)

    def _read(self, key: str) -> tuple[bytes | None, str, Mapping[str, str]]:
        """Return an object's bytes and metadata, or None and why there are none."""
        try:
            body, stored = self.store.get(key)
        except ObjectMissingError:
            return None, "it was never stored", {}
        except TransientError:
            if self.is_patient:
                raise
            return None, "storage did not answer", {}
        except ConnectorError:
            return None, "storage refused it", {}
        return body, "", stored.metadata


def _inflate(body: bytes) -> bytes:
    decompressor = zstd.ZstdDecompressor()
    text = decompressor.decompress(body, max_length=_INFLATED_BYTES)
    if not decompressor.eof:
        raise ValueError("truncated, or larger than a shard can be")
    return text


def items_of(plans: Sequence[Plan]) -> Iterator[tuple[Plan, PlanItem]]:
    """Yield every item with its plan, but those that a later collection took over whole."""
    taken_over = {path for plan in plans[1:] for path in _paths(plan.items)}
    for plan in plans:
        for item in plan.items:
            if plan is plans[0] and item.evidence and _paths([item]) <= taken_over:
                continue
            yield plan, item


def _paths(items: Sequence[PlanItem]) -> set[str]:
    return {entry.path for item in items for entry in item.evidence}


def missing_report(item: PlanItem, plan: Plan, reason: str) -> Report:
    """Return the report of an item that left none which can be used."""
    return _failure(item.connector, item.shard, reason, plan).model_copy(
        update={"item_id": item.item_id, "source": item.source}
    )


def rules_report(trouble: str, plan: Plan) -> Report:
    """Return the report about a site's rules that could not be used."""
    return _failure(SITE_RULES, "rules", trouble, plan)


def _failure(connector: str, shard: str, reason: str, plan: Plan) -> Report:
    """Return the report that nobody could write: a part that failed before it could."""
    return Report(
        item_id=f"{connector}-{shard}",
        connector=connector,
        shard=shard,
        status="error",
        reason=reason,
        extraction_digest=plan.extraction_digest,
    )


def _cut_short(reason: str, plan: Plan) -> Report:
    """Return the report of an event that had to leave something out."""
    update = {"source": record_source(plan.workload), "status": "partial"}
    return _failure(RECORD, "event", reason, plan).model_copy(update=update)


def _noted(plan: Plan, prefix: str) -> list[str]:
    return [note.removeprefix(prefix) for note in plan.notes if note.startswith(prefix)]


def _workflow_failures(errors: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    told = {
        "plan_error": ("plan", "planning failed, so nothing but the event was read"),
        "collect_error": ("collect", "collection as a whole failed"),
    }
    for name, (state, sentence) in told.items():
        error = errors.get(name)
        if isinstance(error, dict):
            yield state, f"{sentence} ({str(error.get('Error', 'unknown error'))[:80]})"
