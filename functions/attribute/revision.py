"""Envelopes, table items and messages of a revision. Pure: the clock's reading is passed in."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.history import shared_things
from engine.model.canonical import canonical_json, short_id
from engine.model.envelope import Envelope
from engine.model.verdict import Action, AffectedEntity, AffectedNode, Verdict
from engine.model.vocabulary import EntityRole, RevisionStatus
from functions.adapters.results_table import gpu_key, node_key

ITEM_BYTES: Final = 50_000
"""Ceiling of a table item (CONTRACTS, section 2); beyond it lists become counts."""
MESSAGE_BYTES: Final = 64_000
_COMPARED: Final = (
    "terminal_state", "manifestation", "domain", "failure_class", "root_causes",
    "affected_nodes", "affected_ranks", "quality", "summary", "actions", "workload", "history",
)  # fmt: skip
_INDEXED_NODES: Final = 64
_INDEXED_GPU_NAMES: Final = 24
_NAMED_THINGS: Final = 32
_NAME_CHARACTERS: Final = 128
_ROLE_ORDER: Final[dict[EntityRole, int]] = {
    "culprit": 0, "suspect": 1, "victim": 2, "observed": 3,
}  # fmt: skip


def changed_fields(before: Verdict | None, after: Verdict) -> tuple[str, ...]:
    """Return the names of the fields that a reader would notice to differ."""
    if before is None:
        return ()
    return tuple(name for name in _COMPARED if getattr(before, name) != getattr(after, name))


def table_item(
    envelope: Envelope, *, verdict_key: str, envelope_key: str, image: str | None = None
) -> dict[str, Any]:
    """Return the light item: scalars, causes, culprits, actions and where the document is.

    `image` and `named` are what later attempts compare with theirs (`functions.scope.past`).
    """
    verdict = envelope.verdict
    workload = verdict.workload
    item: dict[str, Any] = {
        "attempt_key": envelope.attempt_key,
        "revision": envelope.revision,
        "status": envelope.status,
        "supersedes": envelope.supersedes,
        "published_at": envelope.published_at,
        "manifest_digest": envelope.manifest_digest,
        "attribution_id": verdict.attribution_id,
        "verdict_key": verdict_key,
        "envelope_key": envelope_key,
        "job_id": workload.job_id,
        "scheduler": workload.scheduler,
        "cluster": f"{workload.tenant}/{workload.cluster}",
        "name": workload.name,
        "user": workload.user,
        "start": workload.start,
        "end": workload.end,
        "terminal_state": verdict.terminal_state,
        "manifestation": verdict.manifestation,
        "domain": verdict.domain,
        "failure_class": verdict.failure_class,
        "quality": verdict.quality.level,
        "summary": verdict.summary,
        "root_causes": [_cause(each) for each in verdict.model_dump(mode="json")["root_causes"]],
        "culprits": [each.node for each in verdict.affected_nodes if each.role == "culprit"],
        "suspects": [each.node for each in verdict.affected_nodes if each.role == "suspect"],
        "image": image,
        "named": list(named_things(verdict)) or None,
        "actions": [each.model_dump(mode="json") for each in verdict.actions],
        "would_change": [each.model_dump(mode="json") for each in verdict.quality.would_change],
        "rules_version": verdict.rules.version,
        "usd_estimate": envelope.cost.usd_estimate,
    }
    return _within(item, ITEM_BYTES, ("would_change", "actions", "suspects", "root_causes"))


def named_things(verdict: Verdict) -> tuple[str, ...]:
    """Return the switches and file systems that a verdict's cause names and jobs can share."""
    ids: dict[str, set[str]] = {"switch": set(), "filesystem": set()}
    for each in verdict.affected_entities:
        if each.kind in ids and each.role in ("culprit", "suspect"):
            ids[each.kind].add(each.id)
    found = shared_things(verdict.domain, verdict.failure_class, ids["switch"], ids["filesystem"])
    return tuple(sorted(found)[:_NAMED_THINGS])


def index_keys(envelope: Envelope) -> dict[str, str]:
    """Return the keys that put CURRENT into the indexes (docs/storage.md)."""
    workload = envelope.verdict.workload
    ended = workload.end or workload.start or envelope.published_at
    return {
        "job_key": workload.job_id,
        "day_key": f"{workload.tenant}/{workload.cluster}#{ended[:10]}",
        "class_key": envelope.verdict.failure_class,
        "ended_key": f"{ended}#{envelope.attempt_key}",
    }


def written_order(item: Mapping[str, Any]) -> tuple[int, int]:
    """Return generation and collection that wrote a revision."""
    return item["generation"], item["collection"]


def seen_order(item: Mapping[str, Any]) -> tuple[int, int]:
    """Return the newest generation and collection that CURRENT holds good for."""
    return max(
        written_order(item), (item.get("seen_generation", 0), item.get("seen_collection", 0))
    )


def automation(verdict: Verdict, held: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Return which actions automation may take for this revision, and for all so far.

    What an earlier revision of the attempt announced is not announced again: a correction must
    not drain a node twice.
    """
    before = held or {}
    earlier = set(before.get("automation_announced", ()))
    if "automation_announced" not in before:  # a revision of an older release, or none
        earlier |= {
            automation_key(Action.model_validate(each))
            for each in before.get("actions", ())
            if each["evidence_supports_automation"]
        }
    supported = {
        automation_key(action) for action in verdict.actions if action.evidence_supports_automation
    }
    return {
        "automation_new": sorted(supported - earlier),
        "automation_announced": sorted(supported | earlier),
    }


def automation_key(action: Action) -> str:
    """Return what tells one automated action of an attempt from another."""
    return f"{action.action} {action.target or ''}".rstrip()


def indexed_nodes(verdict: Verdict) -> dict[str, AffectedNode]:
    """Return the nodes that get an index item: those to act on first, and not all victims."""
    ranked = sorted(verdict.affected_nodes, key=lambda each: (_ROLE_ORDER[each.role], each.node))
    return {each.node: each for each in ranked[:_INDEXED_NODES]}


def indexed_gpus(verdict: Verdict) -> dict[str, AffectedEntity]:
    """Return the GPUs that get an index item, under each name that goes with them to other slots.

    A serial number and a UUID do; a PCI address and an index are the slot's.
    """
    gpus = [each for each in verdict.affected_entities if each.kind == "gpu"]
    found: dict[str, AffectedEntity] = {}
    for gpu in sorted(gpus, key=lambda each: (_ROLE_ORDER[each.role], each.id, each.node or "")):
        for name in (gpu.serial, gpu.uuid):
            if name and len(name) <= _NAME_CHARACTERS and len(found) < _INDEXED_GPU_NAMES:
                found.setdefault(name, gpu)
    return found


def part_items(envelope: Envelope) -> dict[str, dict[str, Any]]:
    """Return the index items of who had a part in an attempt, by sort key."""
    verdict = envelope.verdict
    cluster = f"{verdict.workload.tenant}/{verdict.workload.cluster}"
    told = {
        "attempt_key": envelope.attempt_key,
        "revision": envelope.revision,
        "title": next((each.title for each in verdict.root_causes if each.primary), None),
        "ended_key": index_keys(envelope)["ended_key"],
        "cluster": cluster,
        "job_id": verdict.workload.job_id,
        "name": verdict.workload.name,
        "scheduler": verdict.workload.scheduler,
        "end": verdict.workload.end,
        "domain": verdict.domain,
        "failure_class": verdict.failure_class,
        "quality": verdict.quality.level,
        "terminal_state": verdict.terminal_state,
        "summary": verdict.summary,
    }
    parts: dict[str, dict[str, Any]] = {}
    for name, node in indexed_nodes(verdict).items():
        key = node_key(cluster, name)
        parts[f"NODE#{name}"] = {**told, "node_key": key, "node": name, "role": node.role}
    for name, gpu in indexed_gpus(verdict).items():
        names = {"index": gpu.index, "pci": gpu.pci, "uuid": gpu.uuid, "serial": gpu.serial}
        parts[f"GPU#{name}"] = {
            **told,
            "node_key": gpu_key(cluster, name),
            "node": gpu.node,
            "role": gpu.role,
            "gpu": {kind: value for kind, value in names.items() if value is not None},
        }
    return parts


def message(
    envelope: Envelope, *, verdict_uri: str, automated: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what subscribers get: conclusions and nodes to act on, no log excerpts.

    `automated` are the keys of the actions that automation may take now, for the first time.
    """
    verdict = envelope.verdict
    nodes = [each for each in verdict.affected_nodes if each.role in ("culprit", "suspect")]
    body: dict[str, Any] = {
        "schema_version": "attribution-message/v1",
        "attempt_key": envelope.attempt_key,
        "revision": envelope.revision,
        "status": envelope.status,
        "supersedes": envelope.supersedes,
        "changed": list(envelope.changed),
        "published_at": envelope.published_at,
        "attribution_id": verdict.attribution_id,
        "workload": verdict.workload.model_dump(mode="json", exclude={"nodes"}),
        "terminal_state": verdict.terminal_state,
        "manifestation": verdict.manifestation,
        "domain": verdict.domain,
        "failure_class": verdict.failure_class,
        "quality": verdict.quality.level,
        "root_causes": [
            {"title": each.title, "domain": each.domain, "primary": each.primary}
            for each in verdict.root_causes
        ],
        "nodes": [
            {"node": each.node, "instance_id": each.instance_id, "role": each.role}
            for each in nodes
        ],
        "actions": [each.model_dump(mode="json") for each in verdict.actions],
        "automation": [
            {"key": key, "deduplication_id": deduplication_id(envelope.attempt_key, key)}
            for key in automated
        ],
        "incident_id": verdict.history.incident_id,
        "verdict_uri": verdict_uri,
    }
    return _within(body, MESSAGE_BYTES, ("root_causes", "actions", "nodes"))


def deduplication_id(attempt_key: str, key: str) -> str:
    """Return the id of one automated action of one attempt: the same in every message."""
    return short_id("act", attempt_key, key)


def message_attributes(
    envelope: Envelope, automated: Sequence[str] | None = None
) -> dict[str, str]:
    """Return the attributes that subscribers filter on, all String (CONTRACTS, section 4).

    `automated` are the actions that no earlier revision announced; by default all count. A
    correction supports automation only where it has such an action: it starts nothing twice.
    """
    verdict = envelope.verdict
    supported = any(action.evidence_supports_automation for action in verdict.actions)
    if envelope.status == "correction" and automated is not None:
        supported = bool(automated)
    attributes = {
        "cluster": verdict.workload.cluster,
        "tenant": verdict.workload.tenant,
        "scheduler": verdict.workload.scheduler,
        "terminal_state": verdict.terminal_state,
        "domain": verdict.domain,
        "failure_class": verdict.failure_class,
        "quality": verdict.quality.level,
        "status": envelope.status,
        "automation_supported": "true" if supported else "false",
    }
    if verdict.history.incident_id:
        attributes["incident_id"] = verdict.history.incident_id
    return attributes


def revision_status(*, is_first: bool, was_final: bool, more_to_come: bool) -> RevisionStatus:
    """Return what a new revision is: final evidence is corrected, never quietly replaced."""
    if was_final and not is_first:
        return "correction"
    return "provisional" if more_to_come else "final"


def _cause(cause: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("cause_id", "primary", "symptom", "rule", "domain", "title", "quality")
    return {**{name: cause[name] for name in kept}, "entity": cause["entity"]["id"]}


def _within(body: dict[str, Any], ceiling: int, lists: tuple[str, ...]) -> dict[str, Any]:
    """Replace lists by their counts, in the order given, until the body fits."""
    for name in lists:
        if len(canonical_json(body)) <= ceiling:
            return body
        body = {**body, name: [], f"{name}_omitted": len(body[name])}
    return body
