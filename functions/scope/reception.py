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
from engine.model.workload import Workload


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
    # A scheduler's reason may quote what the program said, and a job's name its command line.
    redactor = Redactor()
    update: dict[str, object] = {"workload": masked(scoped.workload, redactor)}
    if scoped.record is not None:
        update["record"] = redactor.text(scoped.record)
    return scoped.model_copy(update=update)


def masked(workload: Workload, redactor: Redactor) -> Workload:
    """Return a workload without secrets in the words that people choose: name, user, state."""
    words = {name: getattr(workload, name) for name in ("name", "user", "state")}
    update = {
        name: text for name, word in words.items() if word and (text := redactor.text(word)) != word
    }
    return workload.model_copy(update=update) if update else workload
