"""Opening a session once for one `Idempotency-Key`, by Powertools Idempotency in our own table.

Everything else has a natural key: chunks, observations and statements are named by content, and a
correction by the revision that it corrects.
"""

from collections.abc import Callable
from typing import Any, Final

from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyValidationError,
)

from functions.service.problems import ProblemError

KEY_SECONDS: Final = 86_400


def once(
    store: BasePersistenceLayer,
    create: Callable[[], str],
    *,
    tenant: str,
    key: str | None,
    body: dict[str, Any],
    context: Any,
) -> str:
    """Return what `create` returned for this key before, or call it.

    Raises `ProblemError`: 422 for a key that came with another body, 409 while the first request
    of this key is still at work.
    """
    if key is None:
        return create()
    config = IdempotencyConfig(
        event_key_jmespath="[tenant, key]",
        payload_validation_jmespath="body",
        expires_after_seconds=KEY_SECONDS,
        raise_on_no_idempotency_key=True,
        lambda_context=context,
    )

    @idempotent_function(  # type: ignore[untyped-decorator]
        data_keyword_argument="request",
        config=config,
        persistence_store=store,
        key_prefix="service.session",
    )
    def created(*, request: dict[str, Any]) -> str:
        return create()

    try:
        return str(created(request={"tenant": tenant, "key": key, "body": body}))
    except IdempotencyValidationError as error:
        raise ProblemError(
            422,
            "this Idempotency-Key came with another body before",
            "use a new key for a new request",
        ) from error
    except (IdempotencyAlreadyInProgressError, IdempotencyInconsistentStateError) as error:
        raise ProblemError(
            409,
            "the first request with this Idempotency-Key is still at work",
            "send the same request again in a moment",
            headers={"Retry-After": "1"},
        ) from error
