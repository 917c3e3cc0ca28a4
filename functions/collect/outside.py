"""Runs handed-over items where the logs are: takes one, reads its plan, collects, leaves results.

The receipt is written once, as everywhere: what was delivered twice is collected twice and counted
once.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import ValidationError

from connectors.protocol import Connector, ConnectorError
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.model.canonical import digest_bytes
from engine.model.plan import ManifestEntry, Plan, PlanItem, Report
from engine.rulebook.book import Rulebook
from functions.adapters.keys import CAPSULE, EVIDENCE
from functions.collect.capsules import item_bytes
from functions.collect.collection import CollectedItem, Collecting, collect_item
from functions.collect.handover import HandOver
from functions.collect.receipt import (
    OBSERVATIONS_TYPE,
    RECEIPT_TYPE,
    Receipt,
    packed,
    receipt_bytes,
)
from functions.scope.scoping import workload_of

BEAT_S: Final = 40.0


class HandOverError(ConnectorError):
    """A hand-over that cannot be run at all."""


class Objects(Protocol):
    """Objects by address."""

    def get(self, url: str, /) -> bytes:
        """Return an object."""

    def put_once(
        self, url: str, body: bytes, *, content_type: str, lifetime: str = EVIDENCE
    ) -> bool:
        """Write an object; False where it is there already. `lifetime` is its tag's value."""


class Waiting(Protocol):
    """The workflow that waits; each answers False where it waits no more."""

    def beat(self, token: str) -> bool:
        """Say that the work goes on."""

    def succeed(self, token: str, output: str) -> bool:
        """Give the answer."""

    def fail(self, token: str, error: str, cause: str) -> bool:
        """Say that there will be none."""


@dataclass(slots=True, frozen=True)
class OutsideRunner:
    """Collection beside the logs. `clock` counts seconds from anywhere."""

    objects: Objects
    book: Rulebook
    scanner: Scanner
    redactor: Redactor
    connector_of: Callable[[PlanItem], Connector | None]
    clock: Callable[[], float]

    def run(self, handed: HandOver, *, seconds: float) -> Report:
        """Collect one item and leave its receipt; returns the report that was made here.

        Raises `HandOverError` where the item cannot be found, and the errors of `objects`.
        """
        plan, item = self._item(handed)
        if plan.extraction_digest != self.book.extraction_digest:
            report = self._refused(item, plan)
            self._leave(handed, Receipt(report=report))
            return report
        deadline = self.clock() + min(seconds, item.budget.seconds)
        collected = collect_item(
            item,
            workload=workload_of(item, plan),
            connector=self.connector_of(item),
            collecting=Collecting(
                book=self.book,
                scanner=self.scanner,
                redactor=self.redactor,
                is_out_of_time=lambda: self.clock() >= deadline,
                capsule_bytes=item_bytes(len(plan.items)) if handed.capsules else 0,
            ),
        )
        report = self._keep(handed, collected)
        entry = self._put(handed, collected)
        self._leave(handed, Receipt(report=report, observations=entry))
        return report

    def _item(self, handed: HandOver) -> tuple[Plan, PlanItem]:
        try:
            plan = Plan.model_validate_json(self.objects.get(handed.plan_url))
        except ValidationError as error:
            raise HandOverError(f"{handed.item_id}: its plan cannot be read") from error
        for item in plan.items:
            if item.item_id == handed.item_id:
                return plan, item
        raise HandOverError(f"{handed.item_id}: its plan does not name it")

    def _refused(self, item: PlanItem, plan: Plan) -> Report:
        return Report(
            item_id=item.item_id,
            connector=item.connector,
            shard=item.shard,
            source=item.source,
            status="error",
            reason=f"the {item.runner} runner has rules {self.book.version}, the plan wants "
            f"{plan.rules_version}: install the same release and give the same --rules",
            extraction_digest=plan.extraction_digest,
        )

    def _keep(self, handed: HandOver, collected: CollectedItem) -> Report:
        """Leave the capsules; no verdict waits for them, so trouble is only told."""
        report, target = collected.report, handed.capsules
        if target is None or not collected.capsules:
            return report
        body = collected.capsules
        try:
            self.objects.put_once(
                target.put_url, body, content_type=OBSERVATIONS_TYPE, lifetime=CAPSULE
            )
        except ConnectorError as error:
            warnings = (*report.warnings, f"no capsules were stored: {error}")
            return report.model_copy(update={"warnings": warnings})
        return report

    def _put(self, handed: HandOver, collected: CollectedItem) -> ManifestEntry | None:
        body = packed(collected.observations, collected.summaries)
        if not body:
            return None
        target = handed.observations
        if not self.objects.put_once(target.put_url, body, content_type=OBSERVATIONS_TYPE):
            # An earlier delivery got this far: what it left is as good, and cannot be replaced.
            body = self.objects.get(handed.observations_get_url)
        return ManifestEntry(key=target.key, sha256=digest_bytes(body))

    def _leave(self, handed: HandOver, receipt: Receipt) -> None:
        self.objects.put_once(
            handed.receipt.put_url, receipt_bytes(receipt), content_type=RECEIPT_TYPE
        )


def read_hand_over(body: str) -> HandOver:
    """Return the hand-over of a message; raises `HandOverError`."""
    try:
        return HandOver.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise HandOverError(f"a message that is no hand-over ({place}: {first['msg']})") from error


def answer(
    handed: HandOver,
    runner: OutsideRunner,
    waiting: Waiting,
    *,
    seconds: float,
    renew: Callable[[], None] = lambda: None,
) -> Report | None:
    """Run one hand-over while the workflow hears of it; None where it waits no more.

    Raises `TransientError` for whoever delivers to deliver it again; any other trouble is told to
    the workflow.
    """
    if not waiting.beat(handed.task_token):
        return None
    with _beating(handed, waiting, renew):
        try:
            report = runner.run(handed, seconds=seconds)
        except HandOverError as error:
            waiting.fail(handed.task_token, type(error).__name__, str(error))
            raise
    text = f'{{"item_id": "{report.item_id}", "status": "{report.status}"}}'
    waiting.succeed(handed.task_token, text)
    return report


@contextmanager
def _beating(handed: HandOver, waiting: Waiting, renew: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def beat() -> None:
        while not done.wait(BEAT_S):
            try:
                waiting.beat(handed.task_token)
                renew()
            except ConnectorError:
                # The next beat may come through; without any the workflow goes on alone.
                continue

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
