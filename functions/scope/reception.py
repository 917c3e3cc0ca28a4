"""From a queue message to the scoped event: the allow-list and nothing else goes on."""

from pydantic import ValidationError

from connectors.schedulers import parse_event
from connectors.schedulers.context import ContextEvent, is_context, parse_context
from connectors.schedulers.scoped import (
    InvalidEventError,
    ScopedEvent,
    UnfinishedEventError,
    first_problem,
)
from engine.extract.redact import Redactor
from engine.model.event import BusEvent


def receive(body: str) -> ScopedEvent:
    """Return the scoped event of one message; raises `ConnectorError`s that say what is wrong."""
    return _scoped(_event(body))


def receive_any(body: str) -> ScopedEvent | ContextEvent:
    """Return what one message is: the end of a job, or a context event.

    Raises `UnfinishedEventError` for a context event that speaks of nothing in particular.
    """
    event = _event(body)
    if not is_context(event.source, event.detail_type):
        return _scoped(event)
    context = parse_context(event)
    if context is None:
        raise UnfinishedEventError(f"{event.detail_type}: names no time, machine or cluster")
    return context


def _event(body: str) -> BusEvent:
    try:
        return BusEvent.model_validate_json(body)
    except ValidationError as error:
        raise InvalidEventError(
            f"no EventBridge event: {first_problem(error)}; put it with put-events"
        ) from error


def _scoped(event: BusEvent) -> ScopedEvent:
    scoped = parse_event(event)
    if scoped.record is None:
        return scoped
    # A scheduler's reason may quote what the program said, secrets included.
    return scoped.model_copy(update={"record": Redactor().text(scoped.record)})
