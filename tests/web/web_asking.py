"""Asking pages without a socket."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from functions.query.app import View, build_app
from rootrank.embedded.emulator import LambdaContext

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
