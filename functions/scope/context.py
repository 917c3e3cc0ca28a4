"""Context events over the bucket: kept when they arrive, read when an attempt is planned."""

from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError

from connectors.schedulers.context import (
    BLOCK_EXPIRY,
    ContextEvent,
    context_keys,
    hour_prefix,
    hours_of,
    join_context,
    subject_of,
)
from connectors.schedulers.record import NAME as RECORD
from connectors.schedulers.record import NODE, QUERY, bounded
from engine.model.canonical import canonical_json, short_id
from engine.model.plan import PlanItem, Window
from engine.model.workload import Workload
from functions.adapters.object_store import ObjectConflictError, ObjectMissingError, ObjectStore
from functions.scope.admission import Scope

MAX_EVENTS: Final = 500
"""So many context events of one attempt are read; more of the same say nothing more."""
MAX_NODE_ITEMS: Final = 16
_RESERVATION: Final = "cr-"


def keep_context(store: ObjectStore, event: ContextEvent) -> None:
    """Store a context event once under each of its subjects."""
    body = canonical_json(event.model_dump(mode="json"))
    for key in context_keys(event):
        try:
            store.put_once(key, body, content_type="application/json")
        except ObjectConflictError:
            continue


def read_context(store: ObjectStore, scope: Scope) -> dict[str, list[ContextEvent]]:
    """Return the context events that concern an attempt, by node ("" for all of it)."""
    workload = scope.workload
    if workload.end is None:
        return {}
    instances = instances_of(workload, scope)
    wanted = {*instances.values(), workload.cluster}
    found: dict[str, ContextEvent] = {}
    for hour in hours_of(workload.start, workload.end):
        for key, _ in store.list_objects(hour_prefix(scope.account or "default", hour)):
            subject = subject_of(key)
            if subject not in wanted and not subject.startswith(_RESERVATION):
                continue
            if len(found) >= MAX_EVENTS:
                break
            try:
                event = ContextEvent.model_validate_json(store.get(key)[0])
            except (ObjectMissingError, ValidationError):
                continue
            if subject in wanted or event.detail_type == BLOCK_EXPIRY:
                found[event.model_dump_json()] = event
    return join_context(
        [found[name] for name in sorted(found)],
        instances=instances,
        cluster=workload.cluster,
        start=workload.start,
        end=workload.end,
    )


def instances_of(workload: Workload, scope: Scope) -> dict[str, str]:
    """Return the instance id of each node that is known: told, or in the node's own name."""
    known = dict(scope.instance_ids)
    for node in workload.nodes:
        at = node.find("i-")
        name = node[at:].split(".", 1)[0]
        # EKS on HyperPod calls its nodes hyperpod-i-0123456789abcdef0.
        if at >= 0 and (at == 0 or node[at - 1] == "-") and _is_hex(name[2:]):
            known.setdefault(node, name)
    return known


def context_items(
    joined: dict[str, list[ContextEvent]], windows: Sequence[Window]
) -> list[PlanItem]:
    """Return an item for each node with context events; beyond some nodes one for the rest."""
    texts: dict[str, list[str]] = {}
    for number, (node, events) in enumerate(joined.items()):
        name = node if number < MAX_NODE_ITEMS else ""
        texts.setdefault(name, []).extend(event.text() for event in events)
    items = []
    for number, (node, lines) in enumerate(sorted(texts.items())):
        text = bounded(sorted(set(lines)))
        query = {QUERY: text, NODE: node} if node else {QUERY: text}
        items.append(
            PlanItem(
                item_id=short_id("i", RECORD, "context", node, text),
                connector=RECORD,
                shard=f"context-{number:03d}",
                source="scheduler",
                windows=tuple(windows),
                query=query,
            )
        )
    return items


def _is_hex(text: str) -> bool:
    return 8 <= len(text) <= 17 and all(char in "0123456789abcdef" for char in text)
