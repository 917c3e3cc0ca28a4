"""Where the objects of an attempt live in the bucket; docs/storage.md explains them."""

from typing import Final

RESERVED: Final = frozenset({"bundles", "context", "map-runs", "rules", "sessions", "site"})
"""First key segments that are no tenant: callers' bundles, context events, Step Functions' own
results, the site's rules, what callers gave to sessions, and the site file."""
EVIDENCE: Final = "evidence"
CAPSULE: Final = "capsule"
RESULT: Final = "result"
_LIFETIMES: Final = {"plans": EVIDENCE, "collected": EVIDENCE, "capsules": CAPSULE}
PLAN_NAME: Final = "/plan.json"
_FOLDER: Final = 5
"""Segments of an attempt's key; the next one is the folder."""


def lifetime_tag(key: str) -> str:
    """Return the tag that the bucket's lifecycle goes by, as S3 takes tags in a request.

    `evidence` goes after EvidenceDays, `capsule` after CapsuleDays, `result` after ResultDays; a
    site's rules and its site file have no tag and stay. Prefixes cannot tell them apart: the first
    segment is the tenant's name. A plan is a result: without it no capsule can be judged.
    """
    if key.startswith(("context/", "sessions/")):
        return f"lifetime={EVIDENCE}"
    if key.endswith(PLAN_NAME):
        return f"lifetime={RESULT}"
    folder = "".join(key.split("/")[_FOLDER : _FOLDER + 1])
    return f"lifetime={_LIFETIMES.get(folder, RESULT)}"


def event_key(attempt_key: str, event_digest: str) -> str:
    """Return the key of one admitted event."""
    return f"{attempt_key}/events/{_short(event_digest)}.json"


def collection_name(generation: int, collection: int) -> str:
    """Return the folder name of one collection of one generation."""
    return f"g{generation:04d}-c{collection}"


def plan_key(attempt_key: str, generation: int, collection: int) -> str:
    """Return the key of the plan document."""
    return f"{attempt_key}/plans/{collection_name(generation, collection)}{PLAN_NAME}"


def items_key(attempt_key: str, generation: int, collection: int) -> str:
    """Return the key of the array that the Map reads."""
    return f"{attempt_key}/plans/{collection_name(generation, collection)}/items.json"


def collected_prefix(attempt_key: str, generation: int, collection: int) -> str:
    """Return the prefix below which the collectors of one collection write."""
    return f"{attempt_key}/collected/{collection_name(generation, collection)}/"


def report_key(prefix: str, item_id: str) -> str:
    """Return the key of an item's receipt: its report and what it stored."""
    return f"{prefix}{item_id}.report.json"


def observations_key(prefix: str, item_id: str, sha256: str) -> str:
    """Return the key of an item's observations, named by content: no two writers collide."""
    return f"{prefix}{item_id}-{_short(sha256)}.jsonl.zst"


def capsules_key(attempt_key: str, generation: int, collection: int, item_id: str) -> str:
    """Return the key of an item's capsules."""
    name = collection_name(generation, collection)
    return f"{attempt_key}/capsules/{name}/{item_id}.jsonl.zst"


def manifest_key(attempt_key: str, name: str, manifest_digest: str) -> str:
    """Return the key of a manifest; `name` is the collection's."""
    return f"{attempt_key}/manifests/{name}-{_short(manifest_digest)}.json"


def fallback_plan_key(attempt_key: str, name: str) -> str:
    """Return the key of the plan that attribution makes where planning failed."""
    return f"{attempt_key}/manifests/{name}-plan.json"


def verdict_key(attempt_key: str, attribution_id: str) -> str:
    """Return the key of a verdict document, named by its own digest."""
    return f"{attempt_key}/verdicts/{_short(attribution_id)}.json"


def envelope_key(attempt_key: str, revision: int, manifest_digest: str) -> str:
    """Return the key of a revision's envelope."""
    return f"{attempt_key}/revisions/{revision:06d}-{_short(manifest_digest)}.json"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:16]
