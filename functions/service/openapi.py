"""The OpenAPI 3.1 document, generated from the routes and the models.

`python -m functions.service.openapi docs/openapi.json` writes it; a test fails when it drifts.
"""

import json
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from aws_lambda_powertools.event_handler.openapi.models import (
    HTTPBearer,
    SecurityScheme,
    Tag,
)

from functions.service.routes import build_app
from functions.service.service import Service

_VERSION: Final = "1.0.0"
_ABOUT: Final = (
    "Says why a distributed AI training job failed. Open a session, add what you have in any "
    "order, and read the verdict at any moment; or list what the pipeline found. Errors are "
    "problem+json (RFC 9457). The tenant comes from the caller's identity; ids of another tenant "
    "do not exist."
)
_SCHEMES: Final[dict[str, SecurityScheme]] = {
    "jwt": HTTPBearer(scheme="bearer", bearerFormat="JWT"),
}
_IAM: Final = {
    "type": "apiKey",
    "name": "Authorization",
    "in": "header",
    "description": "AWS Signature Version 4, service execute-api.",
    "x-amazon-apigateway-authtype": "awsSigv4",
}
_UNUSED: Final = ("HTTPValidationError", "ValidationError")


@cache
def document() -> dict[str, Any]:
    """Return the document."""
    # No route is called to describe it, so no part of the service is needed.
    app = build_app(cast(Service, None))
    text = app.get_openapi_json_schema(
        title="rootrank attribution service",
        version=_VERSION,
        openapi_version="3.1.0",
        description=_ABOUT,
        tags=[Tag(name=name) for name in ("sessions", "results", "recovery")],
        security_schemes=_SCHEMES,
        security=[{"jwt": []}],
    )
    made: dict[str, Any] = json.loads(text)
    made["components"]["securitySchemes"]["iam"] = _IAM
    made["security"] = [{"iam": []}, {"jwt": []}]
    for operation in _operations(made):
        if _is_default(operation):
            del operation["responses"]["422"]
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _present(parameter["schema"])
    for name in _UNUSED:
        made["components"]["schemas"].pop(name, None)
    return made


def _operations(made: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in made["paths"].values() for operation in path.values()]


def _is_default(operation: dict[str, Any]) -> bool:
    """Whether a 422 is the one that the framework adds to every route."""
    return "HTTPValidationError" in json.dumps(operation["responses"].get("422", {}))


def _present(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a parameter's schema as of one that is given: absent is not null in a URL."""
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(options) != 1:
        return schema
    return {**{key: each for key, each in schema.items() if key != "anyOf"}, **options[0]}


def methods_of(path: str) -> tuple[str, ...]:
    """Return the methods that a path has, none where there is no such path."""
    for template, operations in document()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            return tuple(sorted(method.upper() for method in operations))
    return ()


def query_names(method: str, path: str) -> frozenset[str]:
    """Return the query parameters that an operation has."""
    for template, operations in document()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path):
            parameters = operations.get(method.lower(), {}).get("parameters", ())
            return frozenset(each["name"] for each in parameters if each["in"] == "query")
    return frozenset()


def text() -> str:
    """Return the document as the committed file holds it."""
    return json.dumps(document(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
