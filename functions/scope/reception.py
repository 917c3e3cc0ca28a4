"""From a queue message to the scoped event: the allow-list and nothing else goes on."""

from pydantic import ValidationError

from connectors.schedulers import parse_event
from connectors.schedulers.scoped import InvalidEventError, ScopedEvent, first_problem
from engine.extract.redact import Redactor
from engine.model.event import BusEvent


def receive(body: str) -> ScopedEvent:
    """Return the scoped event of one message; raises `ConnectorError`s that say what is wrong."""
    try:
        event = BusEvent.model_validate_json(body)
    except ValidationError as error:
        raise InvalidEventError(
            f"no EventBridge event: {first_problem(error)}; put it with put-events"
        ) from error
    scoped = parse_event(event)
    if scoped.record is None:
        return scoped
    # A scheduler's reason may quote what the program said, secrets included.
    return scoped.model_copy(update={"record": Redactor().text(scoped.record)})
