"""Folding: equal facts become one observation with counts, first, last and samples.

The key is rule, symptom, stream, entity and identity fields, so one million lines of one code
never hide a single line of another. Merging is commutative and associative; which samples are
kept follows time and content, never the order of lines across ranks.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from engine.model.observation import Entity, Observation, Sample

MAX_SAMPLES: Final = 4
MAX_KEYS: Final = 4096  # per signature and stream; beyond it one overflow observation counts on
OVERFLOW: Final = "key_overflow"

_FAR: Final = 1 << 62
_NAMES: Final = itemgetter(0, 1, 2)
Order = tuple[int, int, str, int, str, int]


def fold_key(item: Observation) -> tuple[Any, ...]:
    """What makes two observations the same fact."""
    values = tuple(item.fields.get(name, "") for name in item.identity)
    return (
        item.rule, item.symptom, item.stream, item.entity, item.identity, values,
        item.kind, OVERFLOW in item.flags,
    )  # fmt: skip


def first_order(sample: Sample, rank: int | None) -> Order:
    """First is what is known to have happened by the earliest moment; then content and rank.

    Ordered by the upper bound, so that a line without a stamp of its own, somewhere between its
    neighbours, never hides the stamped line that dates the fact. The place only breaks ties.
    """
    earliest, latest = sample.when.earliest_us, sample.when.latest_us
    return (
        _FAR if latest is None else latest,
        _FAR if earliest is None else earliest,
        sample.text,
        -1 if rank is None else rank,
        sample.origin.uri,
        sample.origin.byte_offset,
    )


def last_order(sample: Sample, rank: int | None) -> Order:
    """Last is what cannot have happened before the latest moment; see `first_order`."""
    earliest, latest = sample.when.earliest_us, sample.when.latest_us
    return (
        -1 if earliest is None else earliest,
        -1 if latest is None else latest,
        sample.text,
        -1 if rank is None else rank,
        sample.origin.uri,
        sample.origin.byte_offset,
    )


def merge(one: Observation, other: Observation) -> Observation:
    """Return both as one; they must have equal keys."""
    rank = one.entity.rank

    def order(sample: Sample) -> Order:
        return first_order(sample, rank)

    leader = min((one, other), key=lambda item: (order(item.first), sorted(item.fields.items())))
    distinct = {order(sample): sample for sample in (*one.samples, *other.samples)}
    kept = [distinct[key] for key in sorted(distinct)][:MAX_SAMPLES]
    return replace(
        leader,
        count=one.count + other.count,
        last=max(one.last, other.last, key=lambda sample: last_order(sample, rank)),
        samples=tuple(kept),
        flags=tuple(sorted({*one.flags, *other.flags})),
        when=leader.first.when,
    )


def fold(items: Iterable[Observation]) -> list[Observation]:
    """Merge equal keys; the result is sorted by key and so depends on no order."""
    found: dict[tuple[Any, ...], Observation] = {}
    for item in items:
        key = fold_key(item)
        found[key] = merge(found[key], item) if key in found else item
    ordered: list[Observation] = []
    for _, group in groupby(sorted(found, key=_NAMES), key=_NAMES):
        keys = list(group)
        if len(keys) > 1:
            keys.sort(key=_rest)
        ordered += [found[key] for key in keys]
    return ordered


def _rest(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """What orders the keys of one rule, symptom and stream."""
    return _values_of(key[3]), key[4:]


def _values_of(entity: Entity) -> list[Any]:
    """All that the entity names, comparable: numbers after an absence."""
    return [
        entity.node, _number(entity.rank), _number(entity.local_rank), _number(entity.pid),
        entity.pod, _number(entity.gpu_index), entity.gpu_pci, entity.gpu_uuid, entity.gpu_serial,
        entity.nic, entity.link, entity.switch, entity.filesystem,
    ]  # fmt: skip


def _number(value: int | None) -> int:
    return -1 if value is None else value
