"""Traces, and the only place that knows of them: each call of a handler, and its calls to AWS.

What a handler returns is not recorded. Where traces are off (the template's parameter `Tracing`),
and outside of Lambda, nothing is imported for them: that would cost a cold start 80 ms.
"""

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aws_lambda_powertools.utilities.typing import LambdaContext

if TYPE_CHECKING:
    from aws_lambda_powertools import Tracer

Answer = TypeVar("Answer")
Handler = Callable[[dict[str, Any], LambdaContext], Answer]


def is_traced() -> bool:
    """Whether this process is a function whose calls are to be traced."""
    is_off = os.environ.get("POWERTOOLS_TRACE_DISABLED", "").lower() in ("true", "1")
    return "LAMBDA_TASK_ROOT" in os.environ and not is_off


@cache
def _tracer() -> "Tracer":
    from aws_lambda_powertools import Tracer  # noqa: PLC0415  only where it is used

    return Tracer(patch_modules=("botocore",))


def traced(handler: Handler[Answer]) -> Handler[Answer]:
    """Return the handler with a trace of each call, where traces are on."""

    @wraps(handler)
    def call(event: dict[str, Any], context: LambdaContext) -> Answer:
        if not is_traced():
            return handler(event, context)
        recorded = _tracer().capture_lambda_handler(handler, capture_response=False)
        return cast(Answer, recorded(event, context))

    return call
