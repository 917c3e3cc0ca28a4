"""From a queue message to an admission: read the envelope, parse the event, keep the allow-list."""

from pydantic import ValidationError

from connectors.protocol import ConnectorError
from connectors.schedulers import parse_event
from engine.model.event import BusEvent
from functions.scope.admission import Admission


class EventRefusedError(ConnectorError):
    """An event that cannot be admitted: what is wrong with it and what its sender can do."""


def receive(body: str) -> Admission:
    """Return the admission of one message; raises `EventRefusedError`."""
    try:
        event = BusEvent.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the message"
        raise EventRefusedError(
            f"no EventBridge event: {place}: {first['msg']}; put it with put-events"
        ) from error
    return parse_event(event)
