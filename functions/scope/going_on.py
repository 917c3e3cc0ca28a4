"""The second collection goes on where the first one's budget ended, instead of beginning anew."""

from collections.abc import Sequence
from typing import Final

from connectors.telemetry.files import NAME as FILES
from engine.model.canonical import short_id
from engine.model.plan import PlanItem

_PARTS: Final = frozenset({"part", "texts"})
"""`query` keys of log stores that say which part of a window is read, and how."""

Left = tuple[PlanItem, str]
"""An item of an earlier collection and the cursor that it left."""


def go_on(made: Sequence[PlanItem], left: Sequence[Left]) -> list[PlanItem]:
    """Return the items of a second collection: those that would read again what is read go on.

    What goes on is narrowed to what the new item was asked for, and keeps its own windows, which
    its cursor is a place in.
    """
    found: dict[str, PlanItem] = {}
    for item in made:
        rest = [(each, cursor) for each, cursor in left if _place(each) == _place(item)]
        for each, cursor in rest:
            asked = "" if item.request is None else item.request.model_dump_json()
            identity = short_id("i", each.item_id, cursor, asked)
            update = {"item_id": identity, "cursor": cursor, "request": item.request}
            found[identity] = each.model_copy(update=update)
        if not rest:
            found[item.item_id] = item
    return [found[key] for key in sorted(found)]


def _place(item: PlanItem) -> tuple[str, str | None, tuple[tuple[str, str], ...]]:
    """Return what two items of one source share, whichever part of a window they read."""
    skipped = frozenset() if item.connector == FILES else _PARTS
    query = tuple(sorted((k, v) for k, v in item.query.items() if k not in skipped))
    return item.connector, item.source, query
