"""HTTP requests as API Gateway hands them on (payload version 2.0), and its answers as HTTP."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

LOCAL_CALLER: Final = "arn:aws:iam::000000000000:role/local"
"""Who every request on loopback comes from; the local mapping gives it one tenant."""
MAX_QUERY_FIELDS: Final = 50


class RequestLineError(ValueError):
    """A request target that cannot be read."""


@dataclass(slots=True, frozen=True)
class HttpAnswer:
    """A proxy response as bytes."""

    status: int
    headers: dict[str, str]
    body: bytes


def proxy_event(
    method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes | None
) -> dict[str, Any]:
    """Return the event of one request; raises `RequestLineError`."""
    try:
        parts = urlsplit(target)
        fields = parse_qsl(parts.query, keep_blank_values=True, max_num_fields=MAX_QUERY_FIELDS)
    except ValueError as error:
        raise RequestLineError(str(error)) from error
    path = unquote(parts.path) or "/"
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]},{value}" if key in joined else value
    query: dict[str, str] = {}
    for name, value in fields:
        query[name] = f"{query[name]},{value}" if name in query else value
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": parts.query,
        "headers": joined,
        "requestContext": {
            "stage": "$default",
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1"},
            "authorizer": {"iam": {"userArn": LOCAL_CALLER}},
        },
        "isBase64Encoded": False,
    }
    if query:
        event["queryStringParameters"] = query
    if body is not None:
        event |= _body(body)
    return event


def http_answer(answer: Mapping[str, Any]) -> HttpAnswer:
    """Return what goes over the wire of a proxy response."""
    text = str(answer.get("body") or "")
    body = base64.b64decode(text) if answer.get("isBase64Encoded") else text.encode()
    headers = {str(name): str(value) for name, value in answer.get("headers", {}).items()}
    return HttpAnswer(int(answer["statusCode"]), headers, body)


def _body(data: bytes) -> dict[str, Any]:
    try:
        return {"body": data.decode()}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(data).decode(), "isBase64Encoded": True}
