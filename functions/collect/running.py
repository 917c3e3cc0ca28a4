"""Run one item where the workflow put it: its plan, its connector, its receipt."""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from connectors.protocol import (
    ByteStream,
    Collected,
    Connector,
    SourceNotConfiguredError,
    TransientError,
)
from connectors.schedulers.record import NAME as RECORD
from connectors.schedulers.record import RecordConnector
from connectors.static import NAME as STATIC
from connectors.static import StaticConnector
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.model.contract import Document
from engine.model.moment import parse_rfc3339, to_us
from engine.model.plan import Plan, PlanItem, Report
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook
from functions.adapters.keys import capsules_key, collected_prefix
from functions.adapters.leases import SourceFullError
from functions.adapters.metering import Meter
from functions.adapters.object_store import ObjectRefusedError, ObjectStore
from functions.collect.capsules import item_bytes, store_capsules
from functions.collect.collection import CollectedItem, Collecting, collect_item
from functions.collect.receipt import Receipt, store_collected, store_receipt
from functions.scope.planning import WORKLOAD
from functions.scope.scoping import PlanMissingError, bundle_source, read_plan, workload_of

PATIENT_RETRIES: Final = 2
"""So often the workflow tries an item again before its trouble goes into the report."""
FULL_RETRIES: Final = 20
"""So often it waits for a source that as many ask as a site allows: about a quarter of an hour."""


class CollectTask(Document):
    """The input of one child of the Map."""

    attempt_key: str
    generation: int
    collection: int
    plan_key: str
    item: PlanItem
    retry_count: int = 0


@dataclass(slots=True)
class _Deferred:
    """The item's connector, made when it is read: what making it raises is its own trouble too."""

    store: ObjectStore
    name: str = STATIC

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield the streams of the event's bundle; raises where it names none."""
        if item.base_uri is None:
            raise SourceNotConfiguredError(
                "the event names evidence but no bundle_uri; put the files below bundles/ and "
                "name it"
            )
        source = bundle_source(self.store, item.base_uri)
        yield from StaticConnector(source).open_streams(item, workload, collected)


@dataclass(slots=True, frozen=True)
class Running:
    """Collection over its store. `clock` counts seconds from anywhere.

    `on_capsules` is told how many bytes of capsules an item stored.
    """

    store: ObjectStore
    book: Rulebook
    scanner: Scanner
    clock: Callable[[], float]
    site_connector: Callable[[PlanItem], Connector | None] | None = None
    redactor: Redactor = field(default_factory=Redactor)
    meter: Callable[[], Meter] = Meter
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    gate: Callable[[CollectTask], AbstractContextManager[None]] = lambda _task: nullcontext()
    keeps_capsules: bool = True
    on_capsules: Callable[[int], None] = lambda _size: None

    def run(self, task: CollectTask, *, seconds: int) -> Receipt:
        """Collect the item within `seconds` and return the receipt that stands.

        Raises `TransientError` for the workflow to try again, a bounded number of times.
        """
        plan = read_plan(self.store, task.plan_key)
        if plan is None:
            raise PlanMissingError(f"{task.plan_key}: the item's plan is not stored")
        is_patient = task.retry_count < PATIENT_RETRIES
        deadline = self.clock() + min(
            seconds, task.item.budget.seconds, self._seconds_left(task.item)
        )
        collecting = Collecting(
            book=self.book,
            scanner=self.scanner,
            redactor=self.redactor,
            is_out_of_time=lambda: self.clock() >= deadline,
            is_patient=is_patient,
            capsule_bytes=self._capsule_bytes(task.item, plan),
        )
        prefix = collected_prefix(task.attempt_key, task.generation, task.collection)
        try:
            with self.gate(task):
                collected = collect_item(
                    task.item,
                    workload=workload_of(task.item, plan),
                    connector=self.connector_of(task.item),
                    collecting=collecting,
                )
        except SourceFullError as error:
            if task.retry_count < FULL_RETRIES:
                raise
            report = _unread(task.item, plan, error)
            return store_receipt(self.store, prefix, Receipt(report=report), meter=self.meter())
        try:
            return store_collected(
                self.store,
                prefix,
                report=self._keep(task, collected, is_patient=is_patient),
                observations=collected.observations,
                summaries=collected.summaries,
                meter=self.meter,
            )
        except (TransientError, ObjectRefusedError) as error:
            if isinstance(error, TransientError) and is_patient:
                raise
            report = _unstored(collected.report, error)
            return store_receipt(self.store, prefix, Receipt(report=report), meter=self.meter())

    def _capsule_bytes(self, item: PlanItem, plan: Plan) -> int:
        # What these two read lies in the plan and is read from there again.
        if not self.keeps_capsules or item.connector in (WORKLOAD, RECORD):
            return 0
        return item_bytes(len(plan.items))

    def _keep(self, task: CollectTask, collected: CollectedItem, *, is_patient: bool) -> Report:
        """Store the item's capsules, ahead of the receipt that commits; returns its report."""
        if not collected.capsules:
            return collected.report
        key = capsules_key(task.attempt_key, task.generation, task.collection, task.item.item_id)
        trouble = store_capsules(self.store, key, collected.capsules, is_patient=is_patient)
        if trouble is None:
            self.on_capsules(len(collected.capsules))
            return collected.report
        warnings = (*collected.report.warnings, trouble)
        return collected.report.model_copy(update={"warnings": warnings})

    def _seconds_left(self, item: PlanItem) -> float:
        """Return how long the item may still take before its attempt's deadline."""
        if item.deadline_at is None:
            return math.inf
        left_us = to_us(parse_rfc3339(item.deadline_at)) - to_us(self.now())
        return max(0.0, left_us / 1_000_000)

    def connector_of(self, item: PlanItem) -> Connector | None:
        """Return what reads an item; None where nothing of that name is known."""
        if item.connector == STATIC:
            return _Deferred(self.store)
        if item.connector == RECORD:
            return RecordConnector()
        return None if self.site_connector is None else self.site_connector(item)


def _unread(item: PlanItem, plan: Plan, error: Exception) -> Report:
    return Report(
        item_id=item.item_id,
        connector=item.connector,
        shard=item.shard,
        source=item.source,
        status="error",
        reason=str(error),
        extraction_digest=plan.extraction_digest,
    )


def _unstored(report: Report, error: Exception) -> Report:
    update = {
        "status": "error",
        "reason": f"collected but could not be stored: {error}",
        "observations": 0,
    }
    return report.model_copy(update=update)
