"""A table in memory that answers Query and GetItem as DynamoDB does, and counts what it reads.

It knows the key conditions that the client uses and refuses everything else, a scan above all.
`test_reading_results.py` compares its answers with moto's.
"""

import re
from bisect import bisect_left, bisect_right
from typing import Any

PAGE_BYTES = 1_000_000
KEYS = {
    None: ("pk", "sk"),
    "by_job": ("job_key", "ended_key"),
    "by_day": ("day_key", "ended_key"),
    "by_class": ("class_key", "ended_key"),
    "by_node": ("node_key", "ended_key"),
}
CONDITION = re.compile(
    r"(\w+) = (:\w+)(?: AND (?:(\w+) (BETWEEN|<|>=) (:\w+)(?: AND (:\w+))?"
    r"|begins_with\((\w+), (:\w+)\)))?"
)
"""`pk = :k`, `pk = :k AND begins_with(sk, :r)`, `day_key = :k AND ended_key BETWEEN :a AND :b`."""
LAST = "\U0010ffff"


class SortedTable:
    """What the results client uses of a DynamoDB client."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], dict[str, Any]] = {}
        self.partitions: dict[tuple[str | None, str], list[tuple[str, str, str]]] = {}
        self.is_sorted = True
        self.requests = 0
        self.read = 0

    def put(self, item: dict[str, Any]) -> None:
        """Add an item in DynamoDB's own form; its key must be new."""
        key = (item["pk"]["S"], item["sk"]["S"])
        assert key not in self.items, key
        self.items[key] = item
        for index, (hash_name, range_name) in KEYS.items():
            if hash_name in item and range_name in item:
                part = self.partitions.setdefault((index, item[hash_name]["S"]), [])
                part.append((item[range_name]["S"], *key))
        self.is_sorted = False

    def count(self) -> tuple[int, int]:
        """Return requests and items read since the last call."""
        told = (self.requests, self.read)
        self.requests = self.read = 0
        return told

    def get_item(self, *, Key: Any, **_more: Any) -> dict[str, Any]:
        self.requests += 1
        found = self.items.get((Key["pk"]["S"], Key["sk"]["S"]))
        self.read += found is not None
        return {} if found is None else {"Item": found}

    def query(self, **request: Any) -> dict[str, Any]:
        self.requests += 1
        if not self.is_sorted:
            for part in self.partitions.values():
                part.sort()
            self.is_sorted = True
        index = request.get("IndexName")
        values = {k: v["S"] for k, v in request["ExpressionAttributeValues"].items()}
        match = CONDITION.fullmatch(request["KeyConditionExpression"])
        assert match, request["KeyConditionExpression"]
        assert match[1] == KEYS[index][0]
        rows = self.partitions.get((index, values[match[2]]), [])
        low, high = self._bounds(rows, match, values)
        rows = rows[low:high]
        if not request["ScanIndexForward"]:
            rows = rows[::-1]
        start = request.get("ExclusiveStartKey")
        if start is not None:
            place = tuple(start[name]["S"] for name in ("range", "pk", "sk"))
            rows = rows[rows.index(place) + 1 :]
        return self._page(rows, request["Limit"])

    def _bounds(self, rows: list[Any], match: Any, values: dict[str, str]) -> tuple[int, int]:
        if match[7]:
            prefix = values[match[8]]
            return bisect_left(rows, (prefix,)), bisect_left(rows, (prefix + LAST,))
        if not match[3]:
            return 0, len(rows)
        first = values[match[5]]
        if match[4] == "<":
            return 0, bisect_left(rows, (first,))
        if match[4] == ">=":
            return bisect_left(rows, (first,)), len(rows)
        return bisect_left(rows, (first,)), bisect_right(rows, (values[match[6]], LAST))

    def _page(self, rows: list[Any], limit: int) -> dict[str, Any]:
        taken, size = [], 0
        for row in rows[:limit]:
            item = self.items[row[1:]]
            size += len(str(item))
            if size > PAGE_BYTES:
                break
            taken.append((row, item))
        self.read += len(taken)
        page: dict[str, Any] = {"Items": [item for _, item in taken]}
        if len(taken) < len(rows):
            last = taken[-1][0]
            names = ("range", "pk", "sk")
            page["LastEvaluatedKey"] = {n: {"S": v} for n, v in zip(names, last, strict=True)}
        return page
