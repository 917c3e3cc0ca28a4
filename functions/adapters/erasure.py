"""Everything of one attempt, removed for good: table items, objects and their old versions.

The claim goes first, so that nothing new begins; a workflow that still runs finds none and stops.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from connectors.protocol import ConnectorError
from functions.adapters.faults import AWS_ERRORS, AwsError, error_code
from functions.adapters.results_table import CALENDAR, CLAIM, DAYS, to_wire

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

_AT_ONCE: Final = 1000
"""DeleteObjects takes so many keys at a time."""


class ErasureError(ConnectorError):
    """Something that could not be deleted, or looked for."""


@dataclass(slots=True, frozen=True)
class Erased:
    """How much there was, or is where nothing is deleted."""

    items: int = 0
    objects: int = 0
    versions: int = 0

    def __add__(self, other: "Erased") -> "Erased":
        return Erased(
            self.items + other.items,
            self.objects + other.objects,
            self.versions + other.versions,
        )


@dataclass(slots=True, frozen=True)
class Erasure:
    """Deletes from one bucket and table; with `is_trial` it only counts."""

    s3: "S3Client"
    dynamodb: "DynamoDBClient"
    bucket: str
    table: str
    is_trial: bool = True

    def attempts_below(self, prefix: str) -> list[str]:
        """Return the attempt keys below `tenant/` or `tenant/cluster/scheduler/job/`, sorted."""
        found: set[str] = set()
        for key, _ in self._versions(prefix):
            parts = key.split("/")
            if len(parts) > 5:
                found.add("/".join(parts[:5]))
        return sorted(found)

    def erase_attempt(self, attempt_key: str) -> Erased:
        """Delete one attempt: its table items and everything below its prefix."""
        keys = self._items_of(attempt_key)
        for sk in sorted(keys, key=lambda each: (each != CLAIM, each)):
            self._delete_item(attempt_key, sk)
        return Erased(items=len(keys)) + self.erase_objects(f"{attempt_key}/")

    def erase_days(self, clusters: set[str]) -> Erased:
        """Delete that clusters (`tenant/cluster`) had results on days."""
        count = 0
        for cluster in sorted(clusters):
            for sk in self._items_of(DAYS, begin=f"{cluster}#"):
                day = sk.rsplit("#", 1)[1]
                self._delete_item(DAYS, sk)
                self._delete_item(CALENDAR, f"{day}#{cluster}")
                count += 2
        return Erased(items=count)

    def erase_objects(self, prefix: str) -> Erased:
        """Delete every object and old version below a prefix, delete markers too."""
        keys: set[str] = set()
        batch: list[Any] = []
        versions = 0
        for key, version in self._versions(prefix):
            keys.add(key)
            versions += 1
            batch.append({"Key": key, "VersionId": version})
            if len(batch) == _AT_ONCE:
                self._delete_objects(batch)
                batch = []
        if batch:
            self._delete_objects(batch)
        return Erased(objects=len(keys), versions=versions)

    def _versions(self, prefix: str) -> Iterator[tuple[str, str]]:
        try:
            pages = self.s3.get_paginator("list_object_versions").paginate(
                Bucket=self.bucket, Prefix=prefix
            )
            for page in pages:
                for each in page.get("Versions", []):
                    yield each["Key"], each["VersionId"]
                for marker in page.get("DeleteMarkers", []):
                    yield marker["Key"], marker["VersionId"]
        except AWS_ERRORS as error:
            raise _told(error, f"list s3://{self.bucket}/{prefix}") from error

    def _items_of(self, pk: str, begin: str = "") -> list[str]:
        condition, values = "pk = :k", {":k": pk}
        if begin:
            condition += " AND begins_with(sk, :b)"
            values[":b"] = begin
        try:
            pages = self.dynamodb.get_paginator("query").paginate(
                TableName=self.table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=to_wire(values),
                ProjectionExpression="sk",
                ConsistentRead=True,
            )
            return [str(item["sk"]["S"]) for page in pages for item in page["Items"]]
        except AWS_ERRORS as error:
            raise _told(error, f"query {pk}") from error

    def _delete_item(self, pk: str, sk: str) -> None:
        if self.is_trial:
            return
        try:
            self.dynamodb.delete_item(TableName=self.table, Key=to_wire({"pk": pk, "sk": sk}))
        except AWS_ERRORS as error:
            raise _told(error, f"delete {pk} {sk}") from error

    def _delete_objects(self, batch: list[Any]) -> None:
        if self.is_trial:
            return
        try:
            answer = self.s3.delete_objects(
                Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True}
            )
        except AWS_ERRORS as error:
            raise _told(error, f"delete {len(batch)} objects") from error
        if errors := answer.get("Errors"):
            raise ErasureError(
                f"{len(errors)} objects were not deleted, such as {errors[0].get('Key')} "
                f"({errors[0].get('Code')}); allow s3:DeleteObjectVersion and run it again"
            )


def _told(error: AwsError, what: str) -> ErasureError:
    return ErasureError(f"cannot {what} ({error_code(error)}); check the permissions and try again")
