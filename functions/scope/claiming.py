"""Claim an attempt for an event and see that exactly one workflow works on its newest state."""

from dataclasses import dataclass
from typing import Any, Final, Literal

from connectors.protocol import ConnectorError
from connectors.schedulers.scoped import ScopedEvent
from engine.model.canonical import canonical_json
from engine.model.identity import attempt_key, execution_name
from engine.model.moment import rfc3339, to_us
from engine.model.workload import Workload
from functions.adapters.keys import RESERVED, event_key
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import Claim, ClaimChangedError, ResultsTable
from functions.adapters.workflow import Workflow
from functions.scope.admission import Scope, event_digest, is_success, merge

Outcome = Literal["started", "duplicate", "noted", "light", "redriven", "revised"]

MAX_EVENTS: Final = 64
"""Distinct events of one attempt that are kept; a source that sends more repeats itself."""
_TRIES: Final = 8


class TenantReservedError(ConnectorError):
    """A tenant whose name is a reserved prefix of the bucket."""


@dataclass(slots=True, frozen=True)
class Claimed:
    """What became of one event."""

    attempt_key: str
    generation: int
    outcome: Outcome


@dataclass(slots=True, frozen=True)
class Claims:
    """Claims as they were made."""

    store: ObjectStore
    table: ResultsTable

    def read_scope(self, claim: Claim) -> Scope:
        """Return what all events of a claim say together."""
        return merge(self.events_of(claim))

    def events_of(self, claim: Claim) -> list[ScopedEvent]:
        """Return the events of a claim, as they were kept."""
        keys = [event_key(claim.attempt_key, name) for name in sorted(claim.events)]
        return [ScopedEvent.model_validate_json(self.store.get(key)[0]) for key in keys]


@dataclass(slots=True, frozen=True)
class Admission:
    """What claims attempts, and starts their workflows."""

    claims: Claims
    workflow: Workflow

    def admit(self, event: ScopedEvent) -> Claimed:
        """Record the event and start what it needs; the same event again changes nothing.

        Raises `TransientError`s, after which the queue delivers the event again.
        """
        key = attempt_key(event.workload)
        if key.split("/", 1)[0] in RESERVED:
            raise TenantReservedError(
                f"tenant {event.workload.tenant!r} is a reserved name; choose another"
            )
        name = event_digest(event)
        body = canonical_json(event.model_dump(mode="json", exclude_unset=True))
        self.claims.store.put_once(event_key(key, name), body, content_type="application/json")
        for _ in range(_TRIES):
            try:
                return self._claim(key, name, event)
            except ClaimChangedError:
                continue
        raise ClaimChangedError(f"{key}: claimed by others {_TRIES} times in a row")

    def _claim(self, key: str, name: str, event: ScopedEvent) -> Claimed:
        held = self.claims.table.read_claim(key)
        if held is None:
            scope = merge([event])
            claim = Claim(key, 1, frozenset({name}), 1)
            self.claims.table.write_claim(claim, _attributes(key, scope))
            return self._start(claim, scope, "started")
        if name in held.events or len(held.events) >= MAX_EVENTS:
            return self._start(held, self.claims.read_scope(held), "duplicate")
        before = self.claims.events_of(held)
        scope = merge([*before, event])
        changed = scope != merge(before)
        claim = Claim(key, held.generation + int(changed), held.events | {name}, held.version + 1)
        self.claims.table.write_claim(claim, _attributes(key, scope))
        return self._start(claim, scope, "revised" if changed else "noted")

    def _start(self, claim: Claim, scope: Scope, outcome: Outcome) -> Claimed:
        key = claim.attempt_key
        if is_success(scope) and not scope.evidence and scope.bundle_uri is None:
            return Claimed(key, claim.generation, "light")
        name = execution_name(key, claim.generation)
        payload = {"attempt_key": key, "generation": claim.generation, "collection": 1}
        if self.workflow.start(name, payload):
            return Claimed(key, claim.generation, outcome)
        if self.workflow.state_of(name) != "failed":
            return Claimed(key, claim.generation, outcome)
        if self.workflow.redrive(name):
            return Claimed(key, claim.generation, "redriven")
        following = Claim(key, claim.generation + 1, claim.events, claim.version + 1)
        self.claims.table.write_claim(following, _attributes(key, scope))
        return self._start(following, scope, outcome)


def ended_key(key: str, workload: Workload) -> str:
    """Return the sort key of the indexes: when the attempt ended, then which it is."""
    moment = workload.end or workload.start
    return f"{'' if moment is None else rfc3339(to_us(moment))}#{key}"


def _attributes(key: str, scope: Scope) -> dict[str, Any]:
    workload = scope.workload
    return {
        "job_key": workload.job_id,
        "ended_key": ended_key(key, workload),
        "state": workload.state or "",
        "is_light": is_success(scope) and not scope.evidence and scope.bundle_uri is None,
        "cluster": f"{workload.tenant}/{workload.cluster}",
        "scheduler": workload.scheduler,
    }
