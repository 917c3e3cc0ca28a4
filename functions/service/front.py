"""The one way in: who is calling, is the body sound, which route; and every error as a problem."""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.event_handler.openapi.exceptions import (
    RequestUnsupportedContentType,
    RequestValidationError,
    ResponseValidationError,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError

from connectors.protocol import ConnectorError, TransientError
from functions.service.access import CallerUnknownError, RightMissingError, caller_of
from functions.service.openapi import methods_of, query_names
from functions.service.problems import FieldError, ProblemError, missing, respond
from functions.service.routes import build_app
from functions.service.service import Service

logger = Logger(service="rootrank", child=True)

MAX_BODY_BYTES: Final = 6 * 1024**2
"""Lambda takes no more; what reaches the local server is measured by the same."""
_MAX_DEPTH: Final = 32
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Front:
    """Answers API Gateway's HTTP API events (payload version 2.0)."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._app = build_app(service)
        _handle_errors(self._app)

    def answer(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Return the proxy response; never raises."""
        path = str(event.get("rawPath") or "/")
        try:
            caller = caller_of(event, self._service.access)
            sound = {**event, **_sound_body(event, path)}
            self._app.context["caller"] = caller
            answer: dict[str, Any] = self._app.resolve(sound, context)
        except Exception as error:  # noqa: BLE001  whatever happens, the caller gets a problem
            answer = _proxy(respond(_problem_of(error), path))
        return _guarded(answer)


def _guarded(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep answers out of caches and away from sniffing."""
    headers = {**answer.get("headers", {}), "Cache-Control": "no-store"}
    headers["X-Content-Type-Options"] = "nosniff"
    return {**answer, "headers": headers}


def _proxy(response: Response[Any]) -> dict[str, Any]:
    return {
        "statusCode": response.status_code,
        "headers": {"Content-Type": str(response.content_type), **response.headers},
        "body": response.body,
        "isBase64Encoded": False,
    }


def _sound_body(event: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the event's body as JSON text that every later reader agrees on.

    Raises `ProblemError`: the framework would take a form for JSON, a list's first element for the
    object, NaN for a number, and give up on deep nesting.
    """
    http = (event.get("requestContext") or {}).get("http") or {}
    method = str(http.get("method") or "GET").upper()
    if method not in methods_of(path):
        _no_route(method, path)
    _check_query(event, query_names(method, path))
    if method not in _WITH_BODY:
        return {"body": None, "isBase64Encoded": False}
    headers = {str(k).lower(): str(v) for k, v in (event.get("headers") or {}).items()}
    kind, _, parameters = headers.get("content-type", "").lower().partition(";")
    charset = parameters.replace(" ", "").strip('"')
    if kind.strip() != "application/json" or charset not in ("", "charset=utf-8"):
        raise ProblemError(
            415,
            f"Content-Type is {headers.get('content-type', 'missing')!r}",
            "send JSON in UTF-8 with Content-Type: application/json",
        )
    return {"body": json.dumps(_object(_text(event))), "isBase64Encoded": False}


def _no_route(method: str, path: str) -> NoReturn:
    allowed = methods_of(path)
    if not allowed:
        raise ProblemError(404, f"no resource {path[:200]}", "docs/rest.md lists what there is")
    raise ProblemError(
        405,
        f"{path[:200]} has no {method[:20]}",
        f"use {', '.join(allowed)}",
        headers={"Allow": ", ".join(allowed)},
    )


def _check_query(event: Mapping[str, Any], known: frozenset[str]) -> None:
    """Refuse what no parameter takes: a filter with a slip of the pen would find everything."""
    given = set(event.get("queryStringParameters") or {})
    unknown = sorted(given - known)
    if unknown:
        raise ProblemError(
            400,
            "the query has parameters that this resource does not take",
            f"use {', '.join(sorted(known)) or 'none'}",
            errors=[FieldError(where=f"query.{name[:64]}", why="unknown") for name in unknown],
        )


def _text(event: Mapping[str, Any]) -> str:
    body = event.get("body")
    if not isinstance(body, str) or not body:
        raise ProblemError(400, "the request has no body", "send a JSON object")
    try:
        data = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
        if len(data) > MAX_BODY_BYTES:
            raise ProblemError(
                413,
                f"the body has {len(data)} bytes, {MAX_BODY_BYTES} are taken",
                "announce large chunks at /uploads and send them to the URL that comes back",
            )
        return data.decode()
    except (binascii.Error, UnicodeError) as error:
        raise ProblemError(400, "the body is not UTF-8", "send JSON in UTF-8") from error


def _object(text: str) -> dict[str, Any]:
    """Return the body's object. A whole number may be spelled `1.0`, as JSON allows."""
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_number)
        depth = _depth(value)
        # A lone half of a surrogate pair is JSON, and no text.
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError, OverflowError) as error:
        raise ProblemError(
            400,
            "the body is no JSON that this service reads",
            "send one JSON object in UTF-8, without lone surrogates",
            errors=[FieldError(where="body", why=str(error)[:300])],
        ) from error
    if not isinstance(value, dict) or depth > _MAX_DEPTH:
        raise ProblemError(
            400, "the body is no JSON object", "send the object that the API describes"
        )
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _number(digits: str) -> int | float:
    number = float(digits)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _depth(value: Any) -> int:
    """Return how deep a value nests, counted no further than is allowed."""
    depth, level = 0, [value]
    while level and depth <= _MAX_DEPTH:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        depth, level = depth + 1, inner
    return depth


def _handle_errors(app: APIGatewayHttpResolver) -> None:
    """Answer every error that a route or the framework raises."""

    def told(error: Exception) -> Response[Any]:
        return respond(_problem_of(error), app.current_event.path)

    app.exception_handler([Exception])(told)
    # Looked up by the nearest class: the framework answers its own kinds otherwise.
    app.exception_handler(
        [ProblemError, RequestValidationError, RequestUnsupportedContentType, NotFoundError]
    )(told)


def _problem_of(error: Exception) -> ProblemError:
    """Return what the caller is told of an error; what is ours is logged and kept to ourselves."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, RequestValidationError | RequestUnsupportedContentType):
        return _invalid(error)
    if isinstance(error, CallerUnknownError | RightMissingError):
        return ProblemError(403, str(error), "ask whoever runs the service for access")
    if isinstance(error, TransientError):
        logger.warning("busy", extra={"reason": str(error)})
        return ProblemError(
            503, "storage does not answer now", "send it again", headers={"Retry-After": "2"}
        )
    if isinstance(error, IdempotencyPersistenceLayerError):
        logger.exception("idempotency cannot be kept")
        return ProblemError(
            503, "the table does not answer now", "send it again", headers={"Retry-After": "2"}
        )
    if isinstance(error, NotFoundError):
        return missing("such resource")
    what = "stored data or a policy" if isinstance(error, ConnectorError) else "an error of ours"
    if isinstance(error, ResponseValidationError):
        what = "an answer that is not what the API describes"
    logger.exception("request failed")
    return ProblemError(500, f"the request failed on {what}", "tell whoever runs the service")


def _invalid(error: RequestValidationError | RequestUnsupportedContentType) -> ProblemError:
    listed = error.errors()
    errors = [
        FieldError(where=".".join(str(part) for part in each["loc"]), why=str(each["msg"]))
        for each in listed
    ]
    if listed and all(each["loc"][:1] == ("path",) for each in listed):
        return missing("such id")
    first = f": {errors[0].where} {errors[0].why}" if errors else ""
    return ProblemError(
        400,
        f"{len(errors)} parts of the request are not as described{first}",
        "mend the named parts; docs/openapi.json describes every field",
        errors=errors,
    )
