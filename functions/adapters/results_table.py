"""The table, written: claims of attempts, and revisions behind one CURRENT pointer.

Keys and access patterns are in docs/storage.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NoReturn

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.exceptions import ClientError

from connectors.protocol import ConnectorError, TransientError
from functions.adapters.faults import AWS_ERRORS, AwsError, TableBusyError, error_code, is_busy

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.type_defs import TransactWriteItemTypeDef

Item = dict[str, Any]

CLAIM: Final = "CLAIM"
CURRENT: Final = "CURRENT"
ANNOUNCED: Final = "announced"
"""Attribute of a revision that subscribers were told of, at least once."""
DAYS: Final = "DAYS"
"""Partition of `<tenant>/<cluster>#<day>`: which days a cluster has results on."""
CALENDAR: Final = "CALENDAR"
"""Partition of `<day>#<tenant>/<cluster>`: which clusters have results on a day."""
INDEX_KEYS: Final = frozenset({"job_key", "day_key", "class_key", "node_key", "ended_key"})
"""Attributes that put an item into an index; old revisions are in none."""
MAX_PARTS: Final = 90
"""TransactWriteItems takes at most 100 items; revision and pointer are two of them."""

_TO_WIRE: Final = TypeSerializer()
_FROM_WIRE: Final = TypeDeserializer()


class TableRefusedError(ConnectorError):
    """DynamoDB refuses the request and a retry will not help."""


class ClaimChangedError(TransientError):
    """Somebody else changed the claim in between; read it again."""


class RevisionConflictError(TransientError):
    """CURRENT is no longer the revision that this one was to follow; judge again."""


@dataclass(slots=True, frozen=True)
class Claim:
    """Who works on an attempt. `events` are digests of the admissions seen, `version` a lock."""

    attempt_key: str
    generation: int
    events: frozenset[str]
    version: int


@dataclass(slots=True, frozen=True)
class RevisionItems:
    """What one transaction writes: the revision, the pointer, and who had a part, by sort key."""

    attempt_key: str
    revision: int
    item: Item
    parts: dict[str, Item] = field(default_factory=dict)
    stale_parts: tuple[str, ...] = ()


def to_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item as the service takes it."""
    return {key: _TO_WIRE.serialize(value) for key, value in item.items() if value is not None}


def from_wire(item: Mapping[str, Any]) -> Item:
    """Return an item as the service gives it, with numbers as int."""
    return {key: _plain(_FROM_WIRE.deserialize(value)) for key, value in item.items()}


def node_key(cluster: str, node: str) -> str:
    """Return the index key of a node's parts; `cluster` is `tenant/cluster`."""
    return f"{cluster}/{node}"


def gpu_key(cluster: str, name: str) -> str:
    """Return the index key of a GPU's parts, by serial number or UUID; no node has such a name."""
    return f"{cluster}#gpu/{name}"


def revision_key(revision: int) -> str:
    """Return the sort key of a revision."""
    return f"REV#{revision:06d}"


@dataclass(slots=True, frozen=True)
class ResultsTable:
    """One table. Raises `TableBusyError` where a retry may help."""

    client: "DynamoDBClient"
    name: str

    def get(self, pk: str, sk: str) -> Item | None:
        """Return one item, read consistently."""
        try:
            answer = self.client.get_item(
                TableName=self.name, Key=to_wire({"pk": pk, "sk": sk}), ConsistentRead=True
            )
        except AWS_ERRORS as error:
            refuse(error, f"read {pk} {sk}")
        found = answer.get("Item")
        return None if found is None else from_wire(found)

    def read_claim(self, attempt_key: str) -> Claim | None:
        """Return the claim of an attempt, or None where nobody claimed it."""
        item = self.get(attempt_key, CLAIM)
        if item is None:
            return None
        return Claim(
            attempt_key, item["generation"], frozenset(item.get("events", ())), item["version"]
        )

    def write_claim(self, claim: Claim, attributes: Mapping[str, Any]) -> None:
        """Write a claim whose predecessor has the version before; `ClaimChangedError` if not.

        A first claim has version 1 and needs that there is none.
        """
        names = {f"#{index}": name for index, name in enumerate(sorted(attributes))}
        values: Item = {f":{key[1:]}": attributes[name] for key, name in names.items()}
        assignments = [f"{key} = :{key[1:]}" for key in names]
        assignments += ["generation = :generation", "version = :version", "events = :events"]
        values |= {":generation": claim.generation, ":version": claim.version}
        values[":events"] = set(claim.events)
        if claim.version == 1:
            condition = "attribute_not_exists(pk)"
        else:
            condition = "version = :before"
            values[":before"] = claim.version - 1
        request: dict[str, Any] = {
            "TableName": self.name,
            "Key": to_wire({"pk": claim.attempt_key, "sk": CLAIM}),
            "UpdateExpression": "SET " + ", ".join(assignments),
            "ConditionExpression": condition,
            "ExpressionAttributeValues": to_wire(values),
        }
        if names:
            request["ExpressionAttributeNames"] = names
        try:
            self.client.update_item(**request)
        except AWS_ERRORS as error:
            if error_code(error) == "ConditionalCheckFailedException":
                raise ClaimChangedError(f"{claim.attempt_key}: claim changed meanwhile") from error
            refuse(error, f"claim {claim.attempt_key}")

    def note_day(self, cluster: str, day: str, expires_at: int) -> None:
        """Remember that a cluster (`tenant/cluster`) has results on a day (`YYYY-MM-DD`)."""
        for pk, sk in ((DAYS, f"{cluster}#{day}"), (CALENDAR, f"{day}#{cluster}")):
            item = {"pk": pk, "sk": sk, "expires_at": expires_at}
            try:
                self.client.put_item(TableName=self.name, Item=to_wire(item))
            except AWS_ERRORS as error:
                refuse(error, f"note {cluster} {day}")

    def move_current(self, items: RevisionItems) -> None:
        """Store revision n and point CURRENT to it, only if CURRENT is n - 1.

        Raises `RevisionConflictError` when it is not: nothing is written then.
        """
        pk = items.attempt_key
        pointer: TransactWriteItemTypeDef = {
            "Put": {
                "TableName": self.name,
                "Item": to_wire({**items.item, "pk": pk, "sk": CURRENT}),
                "ConditionExpression": "attribute_not_exists(pk)",
            }
        }
        if items.revision > 1:
            pointer["Put"]["ConditionExpression"] = "revision = :before"
            pointer["Put"]["ExpressionAttributeValues"] = to_wire({":before": items.revision - 1})
        bare = {key: value for key, value in items.item.items() if key not in INDEX_KEYS}
        writes: list[TransactWriteItemTypeDef] = [
            pointer,
            {
                "Put": {
                    "TableName": self.name,
                    "Item": to_wire({**bare, "pk": pk, "sk": revision_key(items.revision)}),
                    "ConditionExpression": "attribute_not_exists(pk)",
                }
            },
        ]
        writes += self._part_writes(items)
        try:
            self.client.transact_write_items(TransactItems=writes)
        except AWS_ERRORS as error:
            self._explain_cancellation(
                error, pk, f"CURRENT is not revision {items.revision - 1} any more"
            )

    def confirm(
        self, attempt_key: str, held: Mapping[str, Any], *, order: tuple[int, int], is_final: bool
    ) -> None:
        """Note that CURRENT holds good for a newer generation and collection too.

        `held` is CURRENT as it was read; a provisional revision becomes final where `is_final`.
        Raises `RevisionConflictError` where CURRENT is another revision by now.
        """
        settles = is_final and held["status"] == "provisional"
        values: Item = {
            ":revision": held["revision"], ":generation": order[0], ":collection": order[1],
        }  # fmt: skip
        change = "SET seen_generation = :generation, seen_collection = :collection"
        writes: list[TransactWriteItemTypeDef] = [
            {
                "Update": {
                    "TableName": self.name,
                    "Key": to_wire({"pk": attempt_key, "sk": CURRENT}),
                    "UpdateExpression": change + (", #status = :final" if settles else ""),
                    "ConditionExpression": "revision = :revision",
                    "ExpressionAttributeValues": to_wire(
                        values | ({":final": "final"} if settles else {})
                    ),
                }
            }
        ]
        if settles:
            writes[0]["Update"]["ExpressionAttributeNames"] = {"#status": "status"}
            writes.append(
                {
                    "Update": {
                        "TableName": self.name,
                        "Key": to_wire({"pk": attempt_key, "sk": revision_key(held["revision"])}),
                        "UpdateExpression": "SET #status = :final",
                        "ConditionExpression": "attribute_exists(pk)",
                        "ExpressionAttributeNames": {"#status": "status"},
                        "ExpressionAttributeValues": to_wire({":final": "final"}),
                    }
                }
            )
        try:
            self.client.transact_write_items(TransactItems=writes)
        except AWS_ERRORS as error:
            self._explain_cancellation(error, attempt_key, f"CURRENT is not {held['revision']}")

    def note_announced(self, attempt_key: str, revision: int) -> None:
        """Remember that a revision was announced."""
        try:
            self.client.update_item(
                TableName=self.name,
                Key=to_wire({"pk": attempt_key, "sk": revision_key(revision)}),
                UpdateExpression="SET #announced = :true",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeNames={"#announced": ANNOUNCED},
                ExpressionAttributeValues=to_wire({":true": True}),
            )
        except AWS_ERRORS as error:
            if error_code(error) != "ConditionalCheckFailedException":  # deleted meanwhile
                refuse(error, f"note revision {revision} of {attempt_key}")

    def _part_writes(self, items: RevisionItems) -> "Iterable[TransactWriteItemTypeDef]":
        for sk in sorted(items.parts)[:MAX_PARTS]:
            item = {**items.parts[sk], "pk": items.attempt_key, "sk": sk}
            yield {"Put": {"TableName": self.name, "Item": to_wire(item)}}
        room = MAX_PARTS - len(items.parts)
        for sk in sorted(items.stale_parts)[: max(0, room)]:
            key = to_wire({"pk": items.attempt_key, "sk": sk})
            yield {"Delete": {"TableName": self.name, "Key": key}}

    def _explain_cancellation(self, error: AwsError, attempt_key: str, conflict: str) -> NoReturn:
        if isinstance(error, ClientError) and error_code(error) == "TransactionCanceledException":
            codes = {
                str(reason.get("Code")) for reason in error.response.get("CancellationReasons", ())
            }
            if "ConditionalCheckFailed" in codes:
                raise RevisionConflictError(f"{attempt_key}: {conflict}") from error
            if codes & {"TransactionConflict", "ThrottlingError"}:
                raise TableBusyError(f"{attempt_key}: {', '.join(sorted(codes))}") from error
        refuse(error, f"store a revision of {attempt_key}")


def refuse(error: AwsError, what: str) -> NoReturn:
    """Raise our name for a failure of the table."""
    if is_busy(error):
        raise TableBusyError(f"cannot {what} now ({error_code(error)})") from error
    raise TableRefusedError(f"cannot {what} ({error_code(error)}): {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, set):
        return {_plain(inner) for inner in value}
    if hasattr(value, "as_integer_ratio") and not isinstance(value, int | float):
        return int(value)
    return value
