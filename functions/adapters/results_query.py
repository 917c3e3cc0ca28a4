"""The table, read: attempts by job, node, cluster and day, or failure class. Queries, no scans."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from functions.adapters.faults import AWS_ERRORS
from functions.adapters.results_table import CURRENT, DAYS, Item, from_wire, refuse, to_wire

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(slots=True, frozen=True)
class ResultsQuery:
    """Read access to one table; newest first everywhere."""

    client: "DynamoDBClient"
    name: str

    def by_attempt(self, attempt_key: str) -> list[Item]:
        """Return every item of one attempt: claim, CURRENT, revisions, nodes."""
        return list(self._query("pk = :k", {":k": attempt_key}))

    def by_job(self, job_id: str) -> Iterator[Item]:
        """Yield the CURRENT or CLAIM items of every attempt of a job id, on any cluster."""
        yield from self._query("job_key = :k", {":k": job_id}, index="by_job", newest=True)

    def by_node(self, cluster: str, node: str, since: str | None = None) -> Iterator[Item]:
        """Yield node items; `cluster` is `tenant/cluster`, `since` an RFC 3339 time."""
        yield from self._ended("node_key", f"{cluster}/{node}", since, index="by_node")

    def by_class(self, failure_class: str, since: str | None = None) -> Iterator[Item]:
        """Yield CURRENT items of one failure class, over all clusters."""
        yield from self._ended("class_key", failure_class, since, index="by_class")

    def by_day(self, cluster: str, day: str, since: str | None = None) -> Iterator[Item]:
        """Yield CURRENT items of one cluster (`tenant/cluster`) and day."""
        yield from self._ended("day_key", f"{cluster}#{day}", since, index="by_day")

    def days(self, cluster: str | None = None) -> list[tuple[str, str]]:
        """Return `(tenant/cluster, day)` of everything stored, newest day first."""
        if cluster is None:
            found = self._query("pk = :k", {":k": DAYS})
        else:
            values = {":k": DAYS, ":c": f"{cluster}#"}
            found = self._query("pk = :k AND begins_with(sk, :c)", values)
        pairs = [tuple(item["sk"].rsplit("#", 1)) for item in found]
        return sorted(((pair[0], pair[1]) for pair in pairs), key=lambda p: (p[1], p[0]))[::-1]

    def current(self, attempt_key: str) -> Item | None:
        """Return the CURRENT item of an attempt."""
        values = {":k": attempt_key, ":c": CURRENT}
        return next(self._query("pk = :k AND sk = :c", values), None)

    def _ended(self, key: str, value: str, since: str | None, *, index: str) -> Iterator[Item]:
        condition, values = f"{key} = :k", {":k": value}
        if since is not None:
            condition += " AND ended_key >= :since"
            values[":since"] = since
        yield from self._query(condition, values, index=index, newest=True)

    def _query(
        self,
        condition: str,
        values: dict[str, str],
        *,
        index: str | None = None,
        newest: bool = False,
    ) -> Iterator[Item]:
        request: dict[str, Any] = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": to_wire(values),
            "ScanIndexForward": not newest,
        }
        if index is not None:
            request["IndexName"] = index
        try:
            for page in self.client.get_paginator("query").paginate(**request):
                for item in page["Items"]:
                    yield from_wire(item)
        except AWS_ERRORS as error:
            refuse(error, f"query {condition}")
