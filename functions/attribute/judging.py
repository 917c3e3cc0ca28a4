"""Judge what was gathered, store the verdict, and move CURRENT to the new revision."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from engine.model.canonical import canonical_json, digest
from engine.model.contract import Document
from engine.model.envelope import Envelope, read_envelope
from engine.model.moment import parse_rfc3339, rfc3339, to_us
from engine.model.plan import ManifestEntry, Plan
from engine.model.verdict import Verdict
from engine.rulebook.book import Rulebook
from functions.adapters.keys import (
    collection_name,
    envelope_key,
    fallback_plan_key,
    manifest_key,
    plan_key,
    verdict_key,
)
from functions.adapters.metering import Meter
from functions.adapters.object_store import ObjectConflictError, ObjectMissingError, ObjectStore
from functions.adapters.results_table import (
    ANNOUNCED,
    CURRENT,
    Item,
    ResultsTable,
    RevisionConflictError,
    RevisionItems,
    revision_key,
)
from functions.attribute.costing import Spent
from functions.attribute.gathering import Gathered, Gathering, rules_report
from functions.attribute.isolation import Attribute, attribute_isolated
from functions.attribute.revision import (
    automation,
    changed_fields,
    index_keys,
    part_items,
    revision_status,
    seen_order,
    table_item,
    written_order,
)
from functions.scope.admission import Scope
from functions.scope.claiming import Claims
from functions.scope.planning import RuleDigests, make_plan
from functions.scope.scoping import ClaimMissingError

MAX_COLLECTIONS: Final = 2
PATIENT_RETRIES: Final = 2
"""So often the workflow tries again before an object that does not answer counts as lost."""
_TRIES: Final = 4
_JSON: Final = "application/json"


class AttributeTask(Document):
    """The input of the attribute state: the workflow's own data and how often it tried."""

    attempt_key: str
    generation: int
    collection: int
    retry_count: int = 0
    workflow: dict[str, Any] = Field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Judged:
    """What attribute hands to the workflow."""

    revision: int
    is_new: bool
    collect_more: bool
    wait_seconds: int


@dataclass(slots=True, frozen=True)
class _Basis:
    """What a revision rests on beside its verdict, and how long it may still take."""

    evidence_digest: str
    cost: Spent
    image: str | None
    grace_seconds: int | None
    deadline_at: str | None


@dataclass(slots=True, frozen=True)
class Judging:
    """Attribution over its stores. `attribute` is the engine."""

    claims: Claims
    store: ObjectStore
    table: ResultsTable
    book: Rulebook
    attribute: Attribute
    now: Callable[[], datetime]
    grace_seconds: int
    result_days: int
    rules_trouble: str | None = None
    meter: Callable[[], Meter] = Meter

    def judge(self, task: AttributeTask) -> tuple[Judged, Verdict]:
        """Attribute one collection; the same task again finds its revision already there."""
        claim = self.claims.table.read_claim(task.attempt_key)
        if claim is None:
            raise ClaimMissingError(f"{task.attempt_key}: nobody claimed it; put its event again")
        scope = self.claims.read_scope(claim)
        plans, entry, meters = self._plans(task, scope)
        gathering = Gathering(self.store, self.book, task.retry_count < PATIENT_RETRIES)
        gathered = gathering.gather(plans, entry, task.workflow)
        gathered.plan_meters += meters
        if self.rules_trouble is not None:
            gathered.reports.append(rules_report(self.rules_trouble, plans[0]))
        case = gathered.case(detection_signal=scope.detection_signal)
        manifest = gathered.manifest(task.collection)
        body = canonical_json(manifest.model_dump(mode="json"))
        evidence_digest = digest(manifest.model_dump(mode="json"))
        name = collection_name(task.generation, task.collection)
        self.store.put_once(
            manifest_key(task.attempt_key, name, evidence_digest), body, content_type=_JSON
        )
        verdict = attribute_isolated(case, self.book, self.attribute)
        document = canonical_json(verdict.model_dump(mode="json"))
        where = verdict_key(task.attempt_key, verdict.attribution_id)
        self.store.put_once(where, document, content_type=_JSON)
        basis = _Basis(
            evidence_digest,
            self._cost(gathered, scope),
            plans[0].workload.image,
            plans[0].grace_seconds,
            plans[0].deadline_at,
        )
        return self._record(task, verdict, basis), verdict

    def _cost(self, gathered: Gathered, scope: Scope) -> Spent:
        return Spent(
            collected=tuple(gathered.meters),
            planned=tuple(gathered.plan_meters),
            attributed=self.meter(),
            reports=tuple(gathered.reports),
            events=1 + len(scope.other_states),
        )

    def _plans(
        self, task: AttributeTask, scope: Scope
    ) -> tuple[list[Plan], ManifestEntry, list[Meter]]:
        plans: list[Plan] = []
        meters: list[Meter] = []
        entry = None
        for collection in range(1, task.collection + 1):
            key = plan_key(task.attempt_key, task.generation, collection)
            try:
                body, stored = self.store.get(key)
            except ObjectMissingError:
                continue
            plans.append(Plan.model_validate_json(body))
            meter = Meter.read(stored.metadata)
            meters += [] if meter is None else [meter]
            entry = ManifestEntry(key=key, version=stored.version, sha256=stored.sha256)
        if entry is not None:
            return plans, entry, meters
        return (*self._plan_of_event(task, scope), meters)

    def _plan_of_event(self, task: AttributeTask, scope: Scope) -> tuple[list[Plan], ManifestEntry]:
        """Plan from the event alone, where planning failed: nothing is collected."""
        digests = RuleDigests.of(self.book)
        plan = make_plan(scope.workload, (), digests=digests, generation=task.generation)
        plan = plan.model_copy(update={"attempt_key": task.attempt_key, "items": ()})
        name = collection_name(task.generation, task.collection)
        key = fallback_plan_key(task.attempt_key, name)
        body = canonical_json(plan.model_dump(mode="json", exclude_unset=True))
        try:
            stored = self.store.put_once(key, body, content_type=_JSON)
        except ObjectConflictError:
            body, stored = self.store.get(key)
            plan = Plan.model_validate_json(body)
        return [plan], ManifestEntry(key=key, version=stored.version, sha256=stored.sha256)

    def _record(self, task: AttributeTask, verdict: Verdict, using: _Basis) -> Judged:
        wait = self.grace_seconds if using.grace_seconds is None else using.grace_seconds
        more = (
            task.collection < MAX_COLLECTIONS
            and bool(verdict.quality.would_change)
            and not self._is_too_late(using.deadline_at, wait)
        )
        order = (task.generation, task.collection)
        for _ in range(_TRIES):
            held = self.table.get(task.attempt_key, CURRENT)
            if held is not None and order < seen_order(held):
                return self._judged(task, held, more=False, wait=wait)
            if held is not None and order == written_order(held):
                return self._judged(task, held, more=more, wait=wait)
            try:
                if held is not None and held["attribution_id"] == verdict.attribution_id:
                    self.table.confirm(task.attempt_key, held, order=order, is_final=not more)
                    return self._judged(task, held, more=more, wait=wait)
                revision = self._move(task, verdict, using, held=held, more=more)
            except RevisionConflictError:
                continue
            return Judged(revision, True, more, wait)
        raise RevisionConflictError(f"{task.attempt_key}: CURRENT moved {_TRIES} times meanwhile")

    def _is_too_late(self, deadline_at: str | None, wait: int) -> bool:
        """Whether a second collection would begin after the attempt's deadline."""
        return deadline_at is not None and to_us(self.now()) + wait * 1_000_000 >= to_us(
            parse_rfc3339(deadline_at)
        )

    def _judged(self, task: AttributeTask, held: Item, *, more: bool, wait: int) -> Judged:
        """Answer with CURRENT as it is; whoever wrote it may have died before it was announced."""
        item = self.table.get(task.attempt_key, revision_key(held["revision"]))
        is_told = item is not None and bool(item.get(ANNOUNCED))
        return Judged(held["revision"], not is_told, more, wait)

    def _move(
        self,
        task: AttributeTask,
        verdict: Verdict,
        using: _Basis,
        *,
        held: Item | None,
        more: bool,
    ) -> int:
        revision = 1 if held is None else held["revision"] + 1
        where = envelope_key(task.attempt_key, revision, using.evidence_digest)
        document = verdict_key(task.attempt_key, verdict.attribution_id)
        now = self.now()
        envelope = self._store_envelope(
            Envelope(
                attempt_key=task.attempt_key,
                revision=revision,
                status=revision_status(
                    is_first=held is None,
                    was_final=held is not None and held["status"] != "provisional",
                    more_to_come=more,
                ),
                supersedes=None if held is None else held["revision"],
                changed=changed_fields(self._held_verdict(held), verdict),
                published_at=rfc3339(to_us(now)),
                locations={"verdict": self.store.uri(document), "envelope": self.store.uri(where)},
                cost=using.cost.envelope(),
                timings_ms=using.cost.timings_ms(),
                manifest_digest=using.evidence_digest,
                verdict=verdict,
            ),
            where,
        )
        expires_at = int(now.timestamp()) + self.result_days * 86_400
        keys = index_keys(envelope)
        cluster, day = keys["day_key"].rsplit("#", 1)
        self.table.note_day(cluster, day, expires_at)
        self.table.move_current(
            revision_items(
                envelope,
                held,
                document=document,
                where=where,
                image=using.image,
                order={"generation": task.generation, "collection": task.collection},
                expires_at=expires_at,
            )
        )
        return revision

    def _store_envelope(self, envelope: Envelope, key: str) -> Envelope:
        """Store an envelope and return the one that stands: an earlier try's time is kept."""
        body = canonical_json(envelope.model_dump(mode="json"))
        try:
            self.store.put_once(key, body, content_type=_JSON)
        except ObjectConflictError:
            return Envelope.model_validate_json(self.store.get(key)[0])
        return envelope

    def _held_verdict(self, held: Item | None) -> Verdict | None:
        if held is None:
            return None
        try:
            body, _ = self.store.get(held["envelope_key"])
        except ObjectMissingError:
            return None
        return read_envelope(json.loads(body)).verdict


def revision_items(
    envelope: Envelope,
    held: Item | None,
    *,
    document: str,
    where: str,
    order: dict[str, int],
    expires_at: int,
    image: str | None = None,
) -> RevisionItems:
    """Return what the transaction writes for one revision."""
    parts = part_items(envelope)
    item = table_item(envelope, verdict_key=document, envelope_key=where, image=image)
    item |= index_keys(envelope) | order
    item |= {"expires_at": expires_at, "indexed_parts": sorted(parts)}
    item |= automation(envelope.verdict, held)
    return RevisionItems(
        attempt_key=envelope.attempt_key,
        revision=envelope.revision,
        item=item,
        parts={sk: part | {"expires_at": expires_at} for sk, part in parts.items()},
        stale_parts=tuple(sk for sk in (held or {}).get("indexed_parts", ()) if sk not in parts),
    )
