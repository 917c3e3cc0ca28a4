"""The table, read: attempts by job, node, GPU, cluster and day, or failure class. No scans.

Every question is a range of one partition, newest first, in pages: what is read depends on what
is asked for, never on how much is stored (docs/storage.md).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from functions.adapters.faults import AWS_ERRORS
from functions.adapters.results_table import (
    CALENDAR,
    CURRENT,
    DAYS,
    Item,
    from_wire,
    gpu_key,
    node_key,
    refuse,
    to_wire,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PAGE_ITEMS: Final = 60
"""Items that one request asks for; an item may have 50 KB and an answer has at most 1 MB."""
_FIRST: Final = "\x01"
"""Sorts before every key; DynamoDB takes no empty text in a key condition."""
_LAST: Final = "\U0010ffff"


@dataclass(slots=True, frozen=True)
class Span:
    """A stretch of `ended_key`: from `since` on, and strictly before `before`; both may be open."""

    since: str | None = None
    before: str | None = None


_ALWAYS: Final = Span()


@dataclass(slots=True, frozen=True)
class ResultsQuery:
    """Read access to one table; newest first everywhere."""

    client: "DynamoDBClient"
    name: str
    page_items: int = PAGE_ITEMS

    def by_attempt(self, attempt_key: str) -> list[Item]:
        """Return every item of one attempt: claim, CURRENT, revisions, nodes, GPUs."""
        return list(self._query("pk = :k", {":k": attempt_key}))

    def revisions(self, attempt_key: str) -> list[Item]:
        """Return the revisions of one attempt, newest first."""
        values = {":k": attempt_key, ":r": "REV#"}
        return list(self._query("pk = :k AND begins_with(sk, :r)", values, newest=True))

    def by_job(
        self, job_id: str, span: Span = _ALWAYS, *, names: Sequence[str] = ()
    ) -> Iterator[Item]:
        """Yield the CURRENT or CLAIM items of every attempt of a job id, on any cluster.

        With `names` the items hold these attributes alone, where they have them.
        """
        yield from self._ended("job_key", job_id, span, index="by_job", names=names)

    def by_node(self, cluster: str, node: str, span: Span = _ALWAYS) -> Iterator[Item]:
        """Yield a node's parts; `cluster` is `tenant/cluster`."""
        yield from self._ended("node_key", node_key(cluster, node), span, index="by_node")

    def by_gpu(self, cluster: str, name: str, span: Span = _ALWAYS) -> Iterator[Item]:
        """Yield a GPU's parts by its serial number or UUID, in one cluster (`tenant/cluster`)."""
        yield from self._ended("node_key", gpu_key(cluster, name), span, index="by_node")

    def by_class(self, failure_class: str, span: Span = _ALWAYS) -> Iterator[Item]:
        """Yield CURRENT items of one failure class, over all clusters."""
        yield from self._ended("class_key", failure_class, span, index="by_class")

    def by_day(
        self, cluster: str, day: str, span: Span = _ALWAYS, *, names: Sequence[str] = ()
    ) -> Iterator[Item]:
        """Yield CURRENT items of one cluster (`tenant/cluster`) and day, of `names` where given."""
        yield from self._ended("day_key", f"{cluster}#{day}", span, index="by_day", names=names)

    def days(
        self, cluster: str | None = None, *, first: str = _FIRST, last: str = _LAST
    ) -> Iterator[tuple[str, str]]:
        """Yield `(tenant/cluster, day)` of what is stored, newest day first, both bounds included.

        Without a cluster the pairs of one day follow each other, in descending order.
        """
        if cluster is None:
            values = {":k": CALENDAR, ":a": first, ":b": last + _LAST}
            for item in self._between(values):
                day, _, found = item["sk"].partition("#")
                yield found, day
            return
        values = {":k": DAYS, ":a": f"{cluster}#{first}", ":b": f"{cluster}#{last}"}
        for item in self._between(values):
            yield cluster, item["sk"].rsplit("#", 1)[1]

    def clusters(self, tenant: str | None = None) -> Iterator[str]:
        """Yield every `tenant/cluster` with results, in order: one item read for each."""
        prefix = "" if tenant is None else f"{tenant}/"
        after = prefix
        while True:
            values = {":k": DAYS, ":a": after or _FIRST, ":b": prefix + _LAST}
            found = next(self._query("pk = :k AND sk BETWEEN :a AND :b", values, limit=1), None)
            if found is None:
                return
            cluster = found["sk"].rsplit("#", 1)[0]
            yield cluster
            after = f"{cluster}#{_LAST}"

    def current(self, attempt_key: str) -> Item | None:
        """Return the CURRENT item of an attempt, read consistently."""
        try:
            answer = self.client.get_item(
                TableName=self.name,
                Key=to_wire({"pk": attempt_key, "sk": CURRENT}),
                ConsistentRead=True,
            )
        except AWS_ERRORS as error:
            refuse(error, f"read {attempt_key}")
        found = answer.get("Item")
        return None if found is None else from_wire(found)

    def _between(self, values: dict[str, str]) -> Iterator[Item]:
        return self._query("pk = :k AND sk BETWEEN :a AND :b", values, newest=True)

    def _ended(
        self, key: str, value: str, span: Span, *, index: str, names: Sequence[str] = ()
    ) -> Iterator[Item]:
        condition, values = f"{key} = :k", {":k": value}
        if span.since is not None and span.before is not None:
            if span.since >= span.before:
                return
            condition += " AND ended_key BETWEEN :since AND :before"
            values |= {":since": span.since, ":before": span.before}
        elif span.since is not None:
            condition += " AND ended_key >= :since"
            values[":since"] = span.since
        elif span.before is not None:
            condition += " AND ended_key < :before"
            values[":before"] = span.before
        wanted = {*names, "ended_key"} if names else ()
        for item in self._query(condition, values, index=index, newest=True, names=wanted):
            if item["ended_key"] != span.before:
                yield item

    def _query(
        self,
        condition: str,
        values: dict[str, str],
        *,
        index: str | None = None,
        newest: bool = False,
        limit: int | None = None,
        names: Collection[str] = (),
    ) -> Iterator[Item]:
        request: dict[str, Any] = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_wire(values),
            "ScanIndexForward": not newest,
            "Limit": limit or self.page_items,
        }
        if index is not None:
            request["IndexName"] = index
        if names:
            # Every name by a placeholder: DynamoDB reserves words such as `end` and `domain`.
            aliases = {f"#{number}": name for number, name in enumerate(sorted(names))}
            request["ProjectionExpression"] = ", ".join(aliases)
            request["ExpressionAttributeNames"] = aliases
        try:
            while True:
                page = self.client.query(**request)
                for item in page["Items"]:
                    yield from_wire(item)
                if "LastEvaluatedKey" not in page:
                    return
                request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        except AWS_ERRORS as error:
            refuse(error, f"query {condition}")
