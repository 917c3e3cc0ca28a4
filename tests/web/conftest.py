"""A table and a bucket from the template, filled with the samples."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from web_samples import Shelf

from functions.query.app import View, build_app
from rootrank.embedded.emulator import LambdaContext
from rootrank.embedded.stack import open_empty_storage

Ask = Callable[..., Any]


class Answer:
    """What a page answered."""

    def __init__(self, told: dict[str, Any]):
        self.status: int = told["statusCode"]
        self.headers: dict[str, str] = told["headers"]
        self.body: str = told["body"]


def asker(view: View) -> Ask:
    """Ask pages without a socket: `ask("/node", name="node-003")`."""
    app = build_app(view)
    context: Any = LambdaContext("query", 1024, "arn:aws:lambda:local")

    def ask(path: str, **query: str) -> Answer:
        event: dict[str, Any] = {
            "version": "2.0", "rawPath": path, "rawQueryString": "", "headers": {},
            "requestContext": {"stage": "$default", "http": {"method": "GET", "path": path}},
            "queryStringParameters": query or None, "isBase64Encoded": False,
        }  # fmt: skip
        return Answer(app.resolve(event, context))

    return ask


def at_noon() -> datetime:
    """The clock of these tests: an hour after the samples' end."""
    return datetime(2026, 1, 31, 13, tzinfo=UTC)


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """An empty table and bucket, for modules that put their own things there."""
    with open_empty_storage(tmp_path_factory.mktemp("shelf")) as names:
        yield Shelf(boto3.client("dynamodb"), boto3.client("s3"), names.table, names.bucket)
