"""An item handed to a runner outside: what the message says, and what stands if nobody answers.

The message holds no secret of ours and no evidence: addresses that are good for an hour, each for
one object, so that a runner needs no right to the bucket.
"""

from typing import Final

from pydantic import Field

from engine.model.contract import Document
from engine.model.plan import PlanItem, Report
from functions.adapters.keys import (
    capsules_key,
    collected_prefix,
    observations_key,
    report_key,
)
from functions.adapters.object_store import ObjectStore
from functions.collect.receipt import OBSERVATIONS_TYPE, RECEIPT_TYPE, Receipt, store_receipt

SCHEMA: Final = "handover/v1"
EXPIRES_S: Final = 3_600
"""The state that waits for the answer waits no longer (infra/statemachine)."""


class HandOverTask(Document):
    """The input of the state that hands an item over; `failure` is what the workflow caught."""

    attempt_key: str
    generation: int
    collection: int
    plan_key: str
    item: PlanItem
    task_token: str = ""
    failure: dict[str, str] = Field(default={})


class Target(Document):
    """An object that is written once: its key, and the address that takes its bytes."""

    key: str
    put_url: str


class HandOver(Document):
    """handover/v1: one item for a runner outside, with where to read its plan and leave results.

    `observations_get_url` reads what an earlier delivery of the same message has left there;
    `capsules` takes excerpts, absent where none are kept.
    """

    schema_version: str = SCHEMA
    attempt_key: str
    item_id: str
    task_token: str
    plan_url: str
    observations: Target
    observations_get_url: str
    receipt: Target
    capsules: Target | None = None


def make_hand_over(
    task: HandOverTask, store: ObjectStore, *, keeps_capsules: bool = True
) -> HandOver:
    """Return the message for one item."""
    prefix = collected_prefix(task.attempt_key, task.generation, task.collection)
    observations = observations_key(prefix, task.item.item_id, "outside")
    receipt = report_key(prefix, task.item.item_id)
    capsules = capsules_key(task.attempt_key, task.generation, task.collection, task.item.item_id)

    def target(key: str, content_type: str) -> Target:
        url = store.put_once_url(key, content_type=content_type, expires_s=EXPIRES_S)
        return Target(key=key, put_url=url)

    return HandOver(
        attempt_key=task.attempt_key,
        item_id=task.item.item_id,
        task_token=task.task_token,
        plan_url=store.get_url(task.plan_key, expires_s=EXPIRES_S),
        observations=target(observations, OBSERVATIONS_TYPE),
        observations_get_url=store.get_url(observations, expires_s=EXPIRES_S),
        receipt=target(receipt, RECEIPT_TYPE),
        capsules=target(capsules, OBSERVATIONS_TYPE) if keeps_capsules else None,
    )


def note_unanswered(task: HandOverTask, store: ObjectStore, *, extraction_digest: str) -> Receipt:
    """Store that no runner answered, unless one has left its receipt meanwhile."""
    error = task.failure.get("Error", "unknown error")
    prefix = collected_prefix(task.attempt_key, task.generation, task.collection)
    item = task.item
    report = Report(
        item_id=item.item_id,
        connector=item.connector,
        shard=item.shard,
        source=item.source,
        status="error",
        reason=f"the {item.runner} runner did not answer ({error[:80]}); is `rootrank collect "
        "--queue` running there?",
        extraction_digest=extraction_digest,
    )
    return store_receipt(store, prefix, Receipt(report=report))
