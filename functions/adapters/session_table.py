"""The table's part in sessions: what was given to one, each thing once, and how much in all.

    pk = SESSION#<tenant>#<session>   sk = SESSION | CHUNK#<id> | BATCH#<id> | SAID#<id>

Every read is consistent, so that a verdict covers whatever was accepted before it was asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from connectors.protocol import ConnectorError
from functions.adapters.faults import AWS_ERRORS, error_code
from functions.adapters.results_table import Item, from_wire, refuse, to_wire

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SESSION: Final = "SESSION"


class SessionTakenError(ConnectorError):
    """A session id that is in use already."""


@dataclass(slots=True, frozen=True)
class SessionItems:
    """All that the table knows of a session: its own item, and its parts by kind and id."""

    session: Item
    parts: dict[str, dict[str, Item]]


@dataclass(slots=True, frozen=True)
class SessionTable:
    """Sessions of every tenant; a tenant is a part of every key. Raises `TableBusyError`."""

    client: "DynamoDBClient"
    name: str

    def create(self, tenant: str, session: str, item: Mapping[str, Any]) -> None:
        """Write a new session; raises `SessionTakenError`."""
        whole = {**item, **_key(tenant, session, SESSION), "parts": 0, "bytes": 0}
        try:
            self.client.put_item(
                TableName=self.name,
                Item=to_wire(whole),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except AWS_ERRORS as error:
            if error_code(error) == "ConditionalCheckFailedException":
                raise SessionTakenError(f"session {session} exists already") from error
            refuse(error, f"create session {session}")

    def read(self, tenant: str, session: str) -> SessionItems | None:
        """Return everything of a session, or None where this tenant has no such session."""
        request: dict[str, Any] = {
            "TableName": self.name,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": to_wire({":pk": _key(tenant, session, SESSION)["pk"]}),
            "ConsistentRead": True,
        }
        own: Item | None = None
        parts: dict[str, dict[str, Item]] = {"CHUNK": {}, "BATCH": {}, "SAID": {}}
        try:
            for page in self.client.get_paginator("query").paginate(**request):
                for wired in page["Items"]:
                    item = from_wire(wired)
                    if item["sk"] == SESSION:
                        own = item
                        continue
                    kind, name = item["sk"].split("#", 1)
                    parts[kind][name] = item
        except AWS_ERRORS as error:
            refuse(error, f"read session {session}")
        return None if own is None else SessionItems(own, parts)

    def head(self, tenant: str, session: str) -> Item | None:
        """Return the session's own item alone, or None where this tenant has no such session."""
        try:
            answer = self.client.get_item(
                TableName=self.name,
                Key=to_wire(_key(tenant, session, SESSION)),
                ConsistentRead=True,
            )
        except AWS_ERRORS as error:
            refuse(error, f"read session {session}")
        found = answer.get("Item")
        return None if found is None else from_wire(found)

    def add(
        self,
        tenant: str,
        session: str,
        part: str,
        *,
        item: Mapping[str, Any],
        size: int,
    ) -> bool:
        """Add a part (`CHUNK#<id>`) and count it; False where it is there already.

        Two writes and no transaction: callers may send many parts at once, and transactions on
        one counter would refuse each other. Whoever dies in between leaves a part uncounted.
        """
        try:
            self.client.put_item(
                TableName=self.name,
                Item=to_wire({**item, **_key(tenant, session, part)}),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except AWS_ERRORS as error:
            if error_code(error) == "ConditionalCheckFailedException":
                return False
            refuse(error, f"add to session {session}")
        try:
            self.client.update_item(
                TableName=self.name,
                Key=to_wire(_key(tenant, session, SESSION)),
                UpdateExpression="ADD parts :one, #bytes :size",
                ExpressionAttributeNames={"#bytes": "bytes"},
                ExpressionAttributeValues=to_wire({":one": 1, ":size": size}),
            )
        except AWS_ERRORS as error:
            refuse(error, f"count in session {session}")
        return True


def _key(tenant: str, session: str, sort: str) -> dict[str, str]:
    return {"pk": f"SESSION#{quote(tenant, safe='')}#{session}", "sk": sort}
