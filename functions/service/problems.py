"""Every error as problem+json (RFC 9457): what, where, why, and what to do next."""

from collections.abc import Sequence
from typing import Any, Final

from aws_lambda_powertools.event_handler import Response
from pydantic import BaseModel, Field

PROBLEM_JSON: Final = "application/problem+json"
_MAX_ERRORS: Final = 20

TITLES: Final[dict[int, str]] = {
    400: "The request is not what the API describes",
    401: "The request is not authenticated",
    403: "The caller may not do this",
    404: "There is no such thing for this caller",
    405: "The resource has no such method",
    409: "The request contradicts what is there",
    413: "The request is too large",
    415: "The body is not JSON",
    422: "The request is well formed and cannot be carried out",
    500: "The service failed",
    503: "The service is busy",
}


class FieldError(BaseModel):
    """One thing that is wrong with a request, and where."""

    where: str
    why: str


class Problem(BaseModel):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    title: str = Field(description="What went wrong, the same for every case of its kind.")
    status: int
    detail: str = Field(description="Why it went wrong here.")
    instance: str = Field(default="", description="The path that was asked for.")
    todo: str = Field(default="", description="What to do next.")
    errors: list[FieldError] = Field(default=[])


class ProblemError(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        detail: str,
        todo: str,
        *,
        errors: Sequence[FieldError] = (),
        headers: dict[str, str] | None = None,
    ):
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.todo = todo
        self.errors = list(errors[:_MAX_ERRORS])
        self.headers = headers or {}

    def problem(self, instance: str) -> Problem:
        """Return the document for the path that was asked for."""
        return Problem(
            title=TITLES[self.status],
            status=self.status,
            detail=self.detail,
            instance=instance,
            todo=self.todo,
            errors=self.errors,
        )


def respond(error: ProblemError, instance: str) -> Response[Any]:
    """Return the response for an error."""
    headers: Any = dict(error.headers)
    return Response(
        status_code=error.status,
        content_type=PROBLEM_JSON,
        body=error.problem(instance).model_dump_json(),
        headers=headers,
    )


def missing(what: str) -> ProblemError:
    """Return the one answer for what does not exist and for what is another tenant's."""
    return ProblemError(404, f"no {what}", "check the id; ids are valid for one tenant only")
