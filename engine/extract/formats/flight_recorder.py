"""PyTorch flight-recorder dumps: one pickle or JSON document per rank.

The rank is not in the dump; it comes from the label, or from the file's name. Process-group ids
are each rank's own, so groups are known by description and member ranks.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from engine.extract.fact import fact_line
from engine.extract.formats.jsontext import JsonValue, as_dict, as_items
from engine.extract.formats.plain_pickle import read_plain_pickle
from engine.extract.formats.sheet import FAMILIES, Line, Sheet, clean
from engine.model.observation import Entity, When

MAX_ENTRIES: Final = 100_000
_FILE_RANK = re.compile(r"(\d{1,6})(?:\.(?:pkl|pickle|json|bin))?(?:\.gz|\.zst)?$")
_RANGE = re.compile(r"\d{1,9}")


def is_dump(value: Any) -> TypeGuard[dict[str, Any]]:
    """Whether parsed data has the keys of a flight-recorder dump."""
    return (
        isinstance(value, dict)
        and ("pg_config" in value or "pg_status" in value)
        and isinstance(value.get("entries", []), list)
    )


def read_dump_pickle(sheet: Sheet) -> bool:
    """Read the whole source as one pickled dump; return whether it was one.

    Raises `NotPlainError`.
    """
    value = read_plain_pickle(sheet.data)
    if not is_dump(value):
        return False
    whole = Line(1, 0, len(sheet.data), "")
    _add_dump(sheet, value, lines=[whole])
    return True


def read_dump_json(sheet: Sheet, documents: Sequence[JsonValue]) -> None:
    """Consume every JSON dump among `documents`."""
    for document in documents:
        if is_dump(document.value):
            sheet.consume(*document.indexes)
            _add_dump(sheet, document.value, lines=document.lines[:1])


def _rank_of(sheet: Sheet, dump: dict[str, Any]) -> int | None:
    if len(sheet.label.ranks) == 1:
        return sheet.label.ranks[0]
    if isinstance(dump.get("rank"), int):
        return int(dump["rank"])
    match = _FILE_RANK.search(sheet.label.uri.rsplit("/", 1)[-1])
    return int(match[1]) if match else None


def _add_dump(sheet: Sheet, dump: dict[str, Any], *, lines: Sequence[Line]) -> None:
    rank = _rank_of(sheet, dump)
    node = sheet.label.nodes[0] if len(sheet.label.nodes) == 1 else ""
    if not node and rank is not None:
        node = next((each.node for each in sheet.workload.ranks if each.rank == rank), "")
    entity = Entity(node=node, rank=rank)
    config = {str(key): as_dict(each) for key, each in as_dict(dump.get("pg_config")).items()}
    entries = [as_dict(each) for each in as_items(dump.get("entries"))[:MAX_ENTRIES]]
    names = _names_of_ids(dump, config, entries)
    status = as_dict(dump.get("pg_status"))
    seen = {_group_name(entry) for entry in entries}
    for pg_id in sorted(status, key=_as_number):
        name = names.get(str(pg_id), "")
        counters = as_dict(status[pg_id])
        count = sum(1 for entry in entries if _group_name(entry) == name) if name in seen else 0
        values = _group(config, name, entries) | {
            "rank": rank,
            "last_enqueued": counters.get("last_enqueued_collective"),
            "last_started": counters.get("last_started_collective"),
            "last_completed": counters.get("last_completed_collective"),
            "entries": count,
        }
        _add(sheet, "fr.rank", values, lines=lines, entity=entity, when=When())
    if not status:
        values = {"rank": rank, "entries": str(len(entries))}
        _add(sheet, "fr.rank", values, lines=lines, entity=entity, when=When())
    for entry in _first_blocked(entries):
        values = _group(config, _group_name(entry), entries) | {
            "rank": rank,
            "seq": _sequence(entry),
            "op": clean(entry.get("profiling_name")),
            "state": clean(entry.get("state")),
            "sizes": _sizes(entry.get("input_sizes")),
            "timeout_ms": entry.get("timeout_ms"),
        }
        created = entry.get("time_created_ns")
        us = created // 1000 if isinstance(created, int) and created > 10**17 else None
        when = When() if us is None else When(us, us, "record", node)
        _add(sheet, "fr.blocked", values, lines=lines, entity=entity, when=when)


def _add(
    sheet: Sheet,
    family: str,
    values: dict[str, Any],
    *,
    lines: Sequence[Line],
    entity: Entity,
    when: When,
) -> None:
    ordered = {key: clean(values.get(key)) for key in FAMILIES[family]}
    excerpt = fact_line(family, **ordered)
    sheet.add(family, values, lines=lines, entity=entity, when=when, excerpt=excerpt)


def _group(
    config: dict[str, dict[str, Any]], name: str, entries: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    body = config.get(name, {})
    description = clean(body.get("desc"))
    if not description:
        pairs = (as_items(each.get("process_group")) for each in entries)
        description = next((clean(p[1]) for p in pairs if len(p) > 1 and str(p[0]) == name), "")
    return {"pg": name, "pg_desc": description, "members": _members(body.get("ranks"))}


def _group_name(entry: dict[str, Any]) -> str:
    group = entry.get("process_group")
    return clean(group[0]) if isinstance(group, list | tuple) and group else ""


def _names_of_ids(
    dump: dict[str, Any], config: dict[str, dict[str, Any]], entries: Sequence[dict[str, Any]]
) -> dict[str, str]:
    """Map each local group id to its global name.

    Entries carry both. Status carries ids and config names only, both in order of creation, so
    equal lengths that agree with every entry settle the rest.
    """
    known = {str(entry.get("pg_id")): _group_name(entry) for entry in entries}
    ids = sorted((str(key) for key in as_dict(dump.get("pg_status"))), key=_as_number)
    ordered = dict(zip(ids, sorted(config, key=_as_number), strict=False))
    if len(ids) == len(config) and all(ordered.get(key) == known[key] for key in known if key):
        return ordered
    return {"0": "0", **known} if "0" in config else known


def _as_number(text: Any) -> tuple[int, str]:
    shown = str(text)
    return (int(shown), "") if shown.isdigit() and len(shown) < 18 else (10**18, shown)


def _first_blocked(entries: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return each group's first uncompleted entry, in group order."""
    first: dict[tuple[str, bool], dict[str, Any]] = {}
    for entry in entries:
        if entry.get("state") == "completed" or entry.get("retired") is True:
            continue
        key = (_group_name(entry), bool(entry.get("is_p2p")))
        held = first.get(key)
        if held is None or _sequence(entry) < _sequence(held):
            first[key] = entry
    return [first[key] for key in sorted(first)]


def _sequence(entry: dict[str, Any]) -> int:
    key = "p2p_seq_id" if entry.get("is_p2p") else "collective_seq_id"
    value = entry.get(key)
    return value if isinstance(value, int) else 0


def _sizes(value: Any) -> str:
    dimensions = [each for each in as_items(value) if isinstance(each, list | tuple)]
    return ";".join(
        "x".join(str(size) for size in each if isinstance(size, int)) for each in dimensions[:8]
    )


def _members(value: Any) -> str:
    """Return ranks as compact ranges, `0-3,8`, of a list or of a text that holds one."""
    if isinstance(value, str):
        numbers = [int(each) for each in _RANGE.findall(value[:200_000])]
    else:
        numbers = [each for each in as_items(value) if isinstance(each, int)]
    pieces: list[str] = []
    ordered = sorted(set(numbers))
    start = previous = -2
    for number in [*ordered, -1]:
        if number == previous + 1 and previous >= 0:
            previous = number
            continue
        if previous >= 0:
            pieces.append(str(start) if start == previous else f"{start}-{previous}")
        start = previous = number
    return ",".join(pieces)
