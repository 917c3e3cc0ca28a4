"""The evidence of stored plans, extracted once more with other rules.

From its source: what still lies in the bucket is collected again. From capsules: of what does not,
and of a site's own sources, which are not asked again, the excerpts that were kept. What is
neither there is reported as missing.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from connectors.schedulers.record import NAME as RECORD
from connectors.static import NAME as STATIC
from engine.extract.capsule import CapsuleStream
from engine.extract.fold import fold
from engine.extract.redact import Redactor
from engine.extract.scanner import Scanner
from engine.extract.session import ExtractContext, extract_capsule
from engine.model.plan import ManifestEntry, Plan, PlanItem, Report
from engine.rulebook.book import Rulebook
from functions.adapters.keys import capsules_key
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.attribute.gathering import Gathered, Gathering, items_of, missing_report
from functions.collect.capsules import kept_lines, read_capsules
from functions.collect.collection import CollectedItem, Collecting, collect_item
from functions.collect.running import Running
from functions.scope.planning import WORKLOAD
from functions.scope.scoping import workload_of

IN_PLAN: Final = frozenset({WORKLOAD, RECORD})
"""Connectors that need nothing but the plan."""
_GONE: Final = "neither it nor an excerpt of it is stored"
_LATE: Final = "there was no time left to read its excerpts"


@dataclass(slots=True)
class Again:
    """What was read. `recalled` and `left_out` are connectors: read from capsules, not at all."""

    gathered: Gathered
    recalled: set[str] = field(default_factory=set)
    left_out: set[str] = field(default_factory=set)
    kept: int = 0
    of: int = 0

    def told(self) -> str | None:
        """Return what was not read whole, as a sentence; None where everything was."""
        parts = []
        if self.recalled:
            extent = f", {self.kept} of {self.of} lines of long ones" if self.of else ""
            parts.append(f"from excerpts: {', '.join(sorted(self.recalled))}{extent}")
        if self.left_out:
            parts.append(f"not asked again: {', '.join(sorted(self.left_out))}")
        return "; ".join(parts) or None


@dataclass(slots=True, frozen=True)
class ReadingAgain:
    """Reads the evidence of plans with `book`; the scanner is made when it is first needed.

    Capsules that are left when the time is out count as not there.
    """

    store: ObjectStore
    book: Rulebook
    scanner: Callable[[], Scanner]
    is_out_of_time: Callable[[], bool] = lambda: False

    def gather(self, plans: list[Plan], *, from_capsules: bool) -> Again:
        """Read every item; with `from_capsules` the bundle is not touched."""
        entry = ManifestEntry(key="", sha256="")
        again = Again(Gathering(self.store, self.book, False).begin(plans, entry, {}))
        for plan, item in items_of(plans):
            if item.connector in IN_PLAN or (item.connector == STATIC and not from_capsules):
                _add(again, self._collect(plan, item))
            else:
                self._recall(again, plan, item)
        return again

    def _collect(self, plan: Plan, item: PlanItem) -> CollectedItem:
        if item.base_uri is not None:
            item = item.model_copy(update={"base_uri": self.store.uri(key_of(item.base_uri))})
        running = Running(self.store, self.book, self.scanner(), time.monotonic)
        return collect_item(
            item,
            workload=workload_of(item, plan),
            connector=running.connector_of(item),
            collecting=Collecting(book=self.book, scanner=self.scanner()),
        )

    def _recall(self, again: Again, plan: Plan, item: PlanItem) -> None:
        """Read an item's capsules."""
        if self.is_out_of_time():
            _leave_out(again, plan, item, _LATE)
            return
        key = capsules_key(plan.attempt_key, plan.generation, plan.collection, item.item_id)
        try:
            streams, report = read_capsules(self.store.get(key)[0])
        except ObjectMissingError:
            _leave_out(again, plan, item, _GONE)
            return
        except ValueError as error:
            _leave_out(again, plan, item, f"its excerpts cannot be read ({error})")
            return
        again.recalled.add(item.connector)
        kept, of = kept_lines(streams)
        again.kept += kept
        again.of += of
        _add(again, self._extract(plan, item, streams, report))

    def _extract(
        self, plan: Plan, item: PlanItem, streams: list[CapsuleStream], report: Report
    ) -> CollectedItem:
        context = ExtractContext(
            book=self.book,
            scanner=self.scanner(),
            workload=workload_of(item, plan),
            connector=item.connector,
            extraction_digest=self.book.extraction_digest,
            redactor=Redactor(),
        )
        found = [extract_capsule(stream, context) for stream in streams]
        observations = fold([each for one in found for each in one.observations])
        summaries = [each for one in found for each in one.summaries]
        return CollectedItem(
            observations, summaries, _partial(report, streams, self.book, len(observations))
        )


def _leave_out(again: Again, plan: Plan, item: PlanItem, reason: str) -> None:
    again.left_out.add(item.connector)
    again.gathered.reports.append(missing_report(item, plan, reason))


def _add(again: Again, collected: CollectedItem) -> None:
    again.gathered.observations += collected.observations
    again.gathered.streams += collected.summaries
    again.gathered.reports.append(collected.report)


def _partial(
    report: Report, streams: list[CapsuleStream], book: Rulebook, observations: int
) -> Report:
    """Return the report of what was collected then, with what of it can still be read."""
    update = {"extraction_digest": book.extraction_digest, "observations": observations}
    kept, of = kept_lines(streams)
    if all(each.is_whole for each in streams):
        return report.model_copy(update=update)
    reasons = [*([report.reason] if report.reason else [])]
    reasons.append(f"read from excerpts, {kept} of {of} lines")
    return report.model_copy(update={**update, "status": "partial", "reason": "; ".join(reasons)})


def key_of(uri: str) -> str:
    """Return the key of `s3://bucket/key`: a bucket that was restored has another name."""
    return uri.removeprefix("s3://").partition("/")[2]
