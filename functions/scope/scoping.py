"""From a claimed attempt to its stored plan: events, bundle, rules, and what is left to collect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from connectors.bundle import BundleError, LoadedBundle, load_bundle_from
from connectors.protocol import ConnectorError, TransientError
from connectors.schedulers.record import NAME as RECORD
from connectors.schedulers.record import QUERY as RECORD_QUERY
from connectors.static import expand_evidence
from engine.model.canonical import canonical_json, short_id
from engine.model.contract import Document
from engine.model.evidence_request import EvidenceRequest
from engine.model.moment import rfc3339, to_us
from engine.model.plan import MAX_ITEMS, Plan, PlanItem
from engine.model.verdict import PastVerdict
from engine.model.vocabulary import Source
from engine.model.workload import EvidenceSource, Workload
from functions.adapters.keys import collected_prefix, items_key, plan_key
from functions.adapters.metering import Meter
from functions.adapters.object_store import (
    ObjectConflictError,
    ObjectMissingError,
    ObjectStore,
    PrefixSource,
)
from functions.adapters.results_table import CURRENT, ResultsTable
from functions.collect.receipt import read_receipts
from functions.scope.admission import Scope, complete
from functions.scope.affordable import USD_PER_GB, Affordable, afford, limited
from functions.scope.claiming import Claims
from functions.scope.context import context_items, read_context
from functions.scope.going_on import Left, go_on
from functions.scope.past import Past
from functions.scope.planning import RuleDigests, make_plan
from functions.scope.terms import Terms

PAYLOAD_BYTES: Final = 240_000
"""An item as JSON: a child's input, 262,144 bytes at most, holds little else
(docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html)."""
_KUBERNETES: Final = frozenset({"kubernetes", "kueue"})
LOST: Final = "lost: "
"""Notes that start so say what a bundle does not tell."""
UNREAD: Final = "unread: "
"""Notes that start so say what could not be read at all."""
CUT: Final = "cut: "
"""Notes that start so say what the event of the scheduler lacks, because it had to fit."""
_LACKING: Final = {
    "objects": "objects of the job",
    "nodes": "the states of its nodes",
    "scontrol": "the controller's text",
    "instance_ids": "the machines of its nodes",
    "ranks": "where each rank ran",
    "workload.nodes": "the end of the list of its nodes",
}
INFERRED: Final = "inferred: the attempt's description was read from its logs"
"""The note of a bundle without `workload.yaml`."""


SiteItems = Callable[[Plan, Sequence[EvidenceRequest]], Sequence[PlanItem]]
"""What a site's own sources add to a plan."""


def no_site(plan: Plan, requests: Sequence[EvidenceRequest]) -> Sequence[PlanItem]:
    """Add nothing: no site file is configured."""
    return ()


def _left_out(items: Sequence[PlanItem]) -> tuple[str, ...]:
    more = len(items) - MAX_ITEMS
    return (f"{UNREAD}{more} items are beyond the {MAX_ITEMS} of a plan",) if more > 0 else ()


def _cut(scope: Scope, workload: Workload, *, told: int) -> tuple[str, ...]:
    """Return a note on what the event lacks, less what a bundle or the scheduler made up for."""
    regained = set()
    if len(workload.nodes) > told:
        regained.add("workload.nodes")
    if workload.ranks:
        regained.add("ranks")
    lacking = [_LACKING[name] for name in scope.left_out if name not in regained]
    if not lacking:
        return ()
    return (f"{CUT}the scheduler's event was too large for the bus and lacks {', '.join(lacking)}",)


class ClaimMissingError(ConnectorError):
    """A workflow for an attempt that nobody claimed."""


class PlanMissingError(ConnectorError):
    """An item whose plan is not stored."""


class PlanTask(Document):
    """The input of the plan state."""

    attempt_key: str
    generation: int
    collection: int


@dataclass(slots=True, frozen=True)
class Scoped:
    """What plan hands to the workflow."""

    plan_key: str
    items_key: str
    item_count: int


@dataclass(slots=True, frozen=True)
class Scoping:
    """Planning over its stores."""

    claims: Claims
    store: ObjectStore
    table: ResultsTable
    load_digests: Callable[[], RuleDigests]
    site_items: SiteItems = no_site
    ask_scheduler: Callable[[Workload], Workload] = lambda workload: workload
    mask: Callable[[Workload], Workload] = lambda workload: workload
    past: Past | None = None
    terms: Callable[[Workload], Terms] = lambda _workload: Terms()
    meter: Callable[[], Meter] = Meter
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def scope(self, task: PlanTask) -> Scoped:
        """Make and store the plan of one collection; a plan that is stored already stands."""
        key = task.attempt_key
        where = plan_key(key, task.generation, task.collection)
        stored = read_plan(self.store, where)
        if stored is None:
            stored = self._store(where, self._plan(task))
        items = [item.model_dump(mode="json", exclude_unset=True) for item in stored.items]
        listed = items_key(key, task.generation, task.collection)
        self.store.put_once(listed, canonical_json(items), content_type="application/json")
        return Scoped(where, listed, len(items))

    def _plan(self, task: PlanTask) -> Plan:
        claim = self.table.read_claim(task.attempt_key)
        if claim is None:
            raise ClaimMissingError(f"{task.attempt_key}: nobody claimed it; put its event again")
        scope = self.claims.read_scope(claim)
        told = len(scope.workload.nodes)
        scope = scope.model_copy(update={"workload": self.ask_scheduler(scope.workload)})
        bundle, notes = self._bundle(scope)
        workload, evidence = scope.workload, scope.evidence
        if bundle is not None:
            workload = complete(scope, bundle.workload)
            absent = (each for each in bundle.declared if each.path in bundle.missing)
            evidence = (*scope.evidence, *bundle.evidence, *absent)
        workload = self.mask(workload)
        terms = self.terms(workload)
        requests: tuple[EvidenceRequest, ...] = ()
        earlier = self._earlier(task)
        spent_bytes = 0
        if earlier:
            requests = self._requests(task)
            evidence, spent_bytes = self._uncollected(task, earlier)
        sizes = None if bundle is None else bundle.sizes
        bought = self._afford(evidence, sizes, terms=terms, spent_bytes=spent_bytes)
        plan = make_plan(
            workload,
            bought.evidence,
            digests=self.load_digests(),
            base_uri=scope.bundle_uri,
            generation=task.generation,
            collection=task.collection,
            requests=requests,
            sizes=sizes,
        )
        items = (*plan.items, *_state_items(scope, plan.items))
        if not earlier and scope.record is not None:
            items = (*items, record_item(scope.record, plan))
        if not earlier:
            context = read_context(self.store, scope.model_copy(update={"workload": workload}))
            items = (*items, *context_items(context, plan.windows))
        if not earlier or requests:
            site_items = go_on(self.site_items(plan, requests), self._left(task, earlier))
            items = (*items, *limited(site_items, bought.bytes_left))
        cut = () if earlier else _cut(scope, workload, told=told)
        notes = (*plan.notes, *bought.notes, *notes, *cut, *_left_out(items))
        update: dict[str, Any] = {"attempt_key": task.attempt_key, "notes": notes}
        update |= self._given(task.attempt_key, workload, terms=terms, earlier=earlier)
        deadline_at = update.get("deadline_at")
        if deadline_at is not None:
            items = tuple(each.model_copy(update={"deadline_at": deadline_at}) for each in items)
        items, unnamed = within_payload(items[:MAX_ITEMS])
        update |= {"items": items, "notes": (*notes, *unnamed)}
        return plan.model_copy(update=update)

    def _afford(
        self,
        evidence: Sequence[EvidenceSource],
        sizes: Mapping[str, int] | None,
        *,
        terms: Terms,
        spent_bytes: int,
    ) -> Affordable:
        """Return what the cluster's budget buys of the evidence, less what was read already."""
        if terms.budget_usd is None:
            return Affordable(tuple(evidence))
        left = terms.budget_usd - USD_PER_GB * spent_bytes / 1024**3
        if sizes is None:
            return afford(evidence, {}, left)
        found, missing = expand_evidence(list(evidence), list(sizes))
        absent = [entry for entry in evidence if entry.path in set(missing)]
        return afford([*found, *absent], sizes, left)

    def _given(
        self, key: str, workload: Workload, *, terms: Terms, earlier: Sequence[Plan]
    ) -> dict[str, Any]:
        """Return what the plan carries beside its items; nothing where nothing was given."""
        given: dict[str, Any] = {}
        if past := self._history(key, workload, earlier):
            given["history"] = tuple(each.model_dump(mode="json") for each in past)
        if terms.grace_seconds is not None:
            given["grace_seconds"] = terms.grace_seconds
        if earlier and earlier[0].deadline_at is not None:
            given["deadline_at"] = earlier[0].deadline_at
        elif terms.deadline_seconds is not None and not earlier:
            until = self.now() + timedelta(seconds=terms.deadline_seconds)
            given["deadline_at"] = rfc3339(to_us(until))
        return given

    def _history(
        self, key: str, workload: Workload, earlier: Sequence[Plan]
    ) -> Sequence[PastVerdict]:
        """Return the snapshot of the first collection, and what a later one adds to it."""
        if self.past is None:
            return ()
        if not earlier:
            return self.past.of(key, workload)
        current = self.table.get(key, CURRENT)
        if current is None:
            return ()
        known = [each for plan in earlier for each in plan.history]
        cause = (current["domain"], current["failure_class"])
        return self.past.since(key, workload, known=known, cause=cause)

    def _bundle(self, scope: Scope) -> tuple[LoadedBundle | None, tuple[str, ...]]:
        if scope.bundle_uri is None:
            return None, ()
        try:
            source = bundle_source(self.store, scope.bundle_uri)
            bundle = load_bundle_from(source, name=scope.workload.job_id)
        except TransientError:
            raise
        except (BundleError, ConnectorError) as error:
            if isinstance(error.__cause__, TransientError):
                raise error.__cause__ from error
            return None, (f"{UNREAD}the bundle could not be read: {error}",)
        notes = tuple(f"{LOST}{note}" for note in bundle.notes)
        return bundle, (*notes, INFERRED) if bundle.is_inferred else notes

    def _requests(self, task: PlanTask) -> tuple[EvidenceRequest, ...]:
        current = self.table.get(task.attempt_key, CURRENT) or {}
        return tuple(
            EvidenceRequest.model_validate(each) for each in current.get("would_change", ())
        )

    def _earlier(self, task: PlanTask) -> list[Plan]:
        """Return the plans of earlier collections; none where planning failed before."""
        numbers = range(1, task.collection)
        keys = [plan_key(task.attempt_key, task.generation, number) for number in numbers]
        return [plan for plan in (read_plan(self.store, key) for key in keys) if plan is not None]

    def _uncollected(
        self, task: PlanTask, earlier: Sequence[Plan]
    ) -> tuple[tuple[EvidenceSource, ...], int]:
        """Return the evidence of earlier items without a usable report, and the bytes read."""
        left: list[EvidenceSource] = []
        read_bytes = 0
        for plan in earlier:
            prefix = collected_prefix(task.attempt_key, task.generation, plan.collection)
            receipts = read_receipts(self.store, prefix, plan.items)
            for item in plan.items:
                receipt = receipts.get(item.item_id)
                read_bytes += 0 if receipt is None else receipt.report.bytes
                if receipt is None or receipt.report.status == "error":
                    left += item.evidence
        return tuple(left), read_bytes

    def _left(self, task: PlanTask, earlier: Sequence[Plan]) -> list[Left]:
        """Return the earlier items of sources that a budget ended, with their cursors."""
        found: list[Left] = []
        for plan in earlier:
            prefix = collected_prefix(task.attempt_key, task.generation, plan.collection)
            items = [item for item in plan.items if not item.evidence]
            receipts = read_receipts(self.store, prefix, items)
            for item in items:
                receipt = receipts.get(item.item_id)
                if receipt is not None and receipt.report.cursor is not None:
                    found.append((item, receipt.report.cursor))
        return found

    def _store(self, key: str, plan: Plan) -> Plan:
        body = canonical_json(plan.model_dump(mode="json", exclude_unset=True))
        try:
            self.store.put_once(
                key, body, content_type="application/json", metadata=self.meter().metadata()
            )
        except ObjectConflictError:
            return read_plan(self.store, key) or plan
        return plan


def within_payload(items: Sequence[PlanItem]) -> tuple[tuple[PlanItem, ...], tuple[str, ...]]:
    """Return items that a child of the Map can be handed, and notes on what had to go.

    Only a bundle of more than a hundred thousand files comes to that.
    """
    fitting, notes = [], []
    for item in items:
        left = list(item.evidence)
        while left and len(item.model_dump_json(exclude_unset=True)) > PAYLOAD_BYTES:
            left = left[: len(left) * 3 // 4]
            item = item.model_copy(update={"evidence": tuple(left)})  # noqa: PLW2901
        fitting.append(item)
        if gone := len(items[len(fitting) - 1].evidence) - len(left):
            notes.append(f"{UNREAD}{gone} {item.source} files are beyond what one plan can name")
    return tuple(fitting), tuple(notes)


def bundle_source(store: ObjectStore, uri: str) -> PrefixSource:
    """Return the blob source of a bundle in our bucket.

    Raises `ConnectorError` for any other place: an event must not make us read what its sender
    may not.
    """
    allowed = store.uri("bundles/")
    if not uri.startswith(allowed) or len(uri) == len(allowed):
        raise ConnectorError(f"bundle_uri {uri!r} is not below {allowed}; copy the bundle there")
    return PrefixSource(store, uri.removeprefix(store.uri("")).rstrip("/") + "/")


def read_plan(store: ObjectStore, key: str) -> Plan | None:
    """Return a stored plan, or None where there is none."""
    try:
        return Plan.model_validate_json(store.get(key)[0])
    except ObjectMissingError:
        return None


def workload_of(item: PlanItem, plan: Plan) -> Workload:
    """Return the workload that an item speaks of: another state where the item carries one."""
    if "state" not in item.query:
        return plan.workload
    update = {"state": item.query["state"] or None, "exit_code": item.query["exit_code"] or None}
    return plan.workload.model_copy(update=update)


def record_source(workload: Workload) -> Source:
    """Return which source an event of the workload's scheduler is."""
    return "kubernetes" if workload.scheduler in _KUBERNETES else "scheduler"


def record_item(record: str, plan: Plan) -> PlanItem:
    """Return the item that reads what the scheduler said in its event."""
    return PlanItem(
        item_id=short_id("i", RECORD, record),
        connector=RECORD,
        shard="record",
        source=record_source(plan.workload),
        windows=plan.windows,
        query={RECORD_QUERY: record},
    )


def _state_items(scope: Scope, items: Sequence[PlanItem]) -> list[PlanItem]:
    """Return an item for each further state that an event reported."""
    stated = next((item for item in items if item.shard == "state"), None)
    if stated is None:
        return []
    return [
        stated.model_copy(
            update={
                "item_id": f"{stated.item_id}-{number}",
                "shard": f"state-{number}",
                "query": {"state": state, "exit_code": exit_code},
            }
        )
        for number, (state, exit_code) in enumerate(scope.other_states, start=2)
    ]
