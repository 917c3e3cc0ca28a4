"""The table of a state folder, read where it lies: Query and GetItem over its lines.

It knows the key conditions that `functions.adapters.results_query` uses and refuses everything
else, a scan above all; a test holds its answers against moto's. Reading needs no emulator, so
`show`, `list` and the web view start at once.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any, Final

WireItem = dict[str, Any]
"""An item as DynamoDB's JSON has it: `{"pk": {"S": "..."}}`."""

_PAGE_BYTES: Final = 1_000_000
_KEYS: Final = {
    None: ("pk", "sk"),
    "by_job": ("job_key", "ended_key"),
    "by_day": ("day_key", "ended_key"),
    "by_class": ("class_key", "ended_key"),
    "by_node": ("node_key", "ended_key"),
}
"""Hash and range key of the table and of its indexes, as template.yaml has them."""
_CONDITION: Final = re.compile(
    r"(\w+) = (:\w+)(?: AND (?:(\w+) (BETWEEN|<|>=) (:\w+)(?: AND (:\w+))?"
    r"|begins_with\((\w+), (:\w+)\)))?"
)
"""`pk = :k`, `pk = :k AND begins_with(sk, :r)`, `day_key = :k AND ended_key BETWEEN :a AND :b`."""
_AFTER_ALL: Final = "\U0010ffff"


class UnknownConditionError(ValueError):
    """A key condition that this table does not know."""


class FolderTable:
    """What reading results needs of a DynamoDB client. `requests` and `read` count, for tests."""

    def __init__(self, items: Iterable[WireItem]):
        self._items: dict[tuple[str, str], WireItem] = {}
        self._partitions: dict[tuple[str | None, str], list[tuple[str, str, str]]] = {}
        self.requests = 0
        self.read = 0
        for item in items:
            key = (item["pk"]["S"], item["sk"]["S"])
            self._items[key] = item
            for index, (hash_name, range_name) in _KEYS.items():
                if hash_name in item and range_name in item:
                    rows = self._partitions.setdefault((index, item[hash_name]["S"]), [])
                    rows.append((item[range_name]["S"], *key))
        for rows in self._partitions.values():
            rows.sort()

    def get_item(self, *, Key: WireItem, **_more: Any) -> dict[str, Any]:  # noqa: N803
        """Return one item as GetItem does."""
        self.requests += 1
        found = self._items.get((Key["pk"]["S"], Key["sk"]["S"]))
        self.read += found is not None
        return {} if found is None else {"Item": found}

    def query(self, **request: Any) -> dict[str, Any]:
        """Return a page of one partition as Query does; raises `UnknownConditionError`."""
        self.requests += 1
        index = request.get("IndexName")
        match = _CONDITION.fullmatch(request["KeyConditionExpression"])
        if match is None or match[1] != _KEYS[index][0]:
            raise UnknownConditionError(request["KeyConditionExpression"])
        values = {k: v["S"] for k, v in request["ExpressionAttributeValues"].items()}
        rows = self._partitions.get((index, values[match[2]]), [])
        low, high = _bounds(rows, match, values)
        rows = rows[low:high] if request["ScanIndexForward"] else rows[low:high][::-1]
        if start := request.get("ExclusiveStartKey"):
            place = (start["range"]["S"], start["pk"]["S"], start["sk"]["S"])
            rows = rows[rows.index(place) + 1 :]
        return self._page(rows, request["Limit"])

    def _page(self, rows: list[tuple[str, str, str]], limit: int) -> dict[str, Any]:
        taken: list[WireItem] = []
        size = 0
        for _, pk, sk in rows[:limit]:
            item = self._items[pk, sk]
            size += len(str(item))
            if taken and size > _PAGE_BYTES:
                break
            taken.append(item)
        self.read += len(taken)
        page: dict[str, Any] = {"Items": taken}
        if len(taken) < len(rows):
            last = dict(zip(("range", "pk", "sk"), rows[len(taken) - 1], strict=True))
            page["LastEvaluatedKey"] = {name: {"S": value} for name, value in last.items()}
        return page


def _bounds(
    rows: list[tuple[str, str, str]], match: re.Match[str], values: dict[str, str]
) -> tuple[int, int]:
    """Return where the rows that satisfy the range condition begin and end."""
    if match[7]:
        prefix = values[match[8]]
        return _left(rows, prefix), _left(rows, prefix + _AFTER_ALL)
    if not match[3]:
        return 0, len(rows)
    first = values[match[5]]
    if match[4] == "<":
        return 0, _left(rows, first)
    if match[4] == ">=":
        return _left(rows, first), len(rows)
    return _left(rows, first), bisect_right(rows, (values[match[6]], _AFTER_ALL, ""))


def _left(rows: list[tuple[str, str, str]], value: str) -> int:
    return bisect_left(rows, (value, "", ""))
