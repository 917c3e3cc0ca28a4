"""What moto 5.2 does again and again, done once: the same answers for less work.

- A query sorts every item of the table before it looks at the key that was asked for.
- Each request to S3 loads the module of its routes from disk, twice.
- Each task of a workflow makes a client of its own, and parses the machine's JSON paths again.

Without these a burst of events takes longer with the square of what the table holds.
"""

import copy
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import moto.s3.urls
from jsonpath_ng.ext.parser import parse
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.s3.models import S3Backend
from moto.stepfunctions.parser.asl.component.state.exec.state_map.item_reader.eval import (
    resource_eval_s3,
)
from moto.stepfunctions.parser.asl.component.state.exec.state_task import lambda_eval_utils
from moto.stepfunctions.parser.asl.utils import json_path
from moto.stepfunctions.parser.asl.utils.boto_client import boto_client_for


def shortcuts() -> list[tuple[Any, str, Any]]:
    """Return owner, attribute and replacement of each; the caches live as long as they do."""
    client = _kept(boto_client_for)
    return [
        (Table, "query", _narrowed(Table.query)),
        (S3Backend, "_url_module", moto.s3.urls),
        (lambda_eval_utils, "boto_client_for", client),
        (resource_eval_s3, "boto_client_for", client),
        (json_path, "parse", cache(parse)),
    ]


def _narrowed(query: Callable[..., Any]) -> Callable[..., Any]:
    """Return moto's query of a table, asked of the items alone that have the wanted key."""

    def narrowed(table: Table, hash_key: Any, *args: Any, **named: Any) -> Any:
        wanted = named.get("hash_key_conditions")
        if not table.has_range_key or not wanted:
            return query(table, hash_key, *args, **named)
        view = copy.copy(table)
        view.items = _having(table, *wanted[0])
        return query(view, hash_key, *args, **named)

    return narrowed


def _having(table: Table, name: str, value: DynamoType) -> Any:
    """Return the items with such an attribute, by partition; of the table's own key just one."""
    if name == table.hash_key_attr:
        return {value: table.items[value]} if value in table.items else {}
    found: dict[DynamoType, dict[DynamoType, Item]] = defaultdict(dict)
    for partition, items in list(table.items.items()):
        for key, item in items.items():
            held = item.attrs.get(name)
            if held is not None and held.value == value.value:
                found[partition][key] = item
    return found


def _kept(make: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[tuple[str, str], Any] = {}

    def client_for(region: str, service: str, state_credentials: Any = None) -> Any:
        if (region, service) not in kept:
            kept[region, service] = make(region, service, state_credentials)
        return kept[region, service]

    return client_for
