"""Schedulers: one module each, which reads that scheduler's events (`FORMS` and `parse`)."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from connectors.schedulers import batch, rootrank_scheduler, sagemaker
from connectors.schedulers.scoped import (
    InvalidEventError,
    ScopedEvent,
    UnfinishedEventError,
    UnknownEventError,
    first_problem,
)
from engine.model.event import BusEvent

__all__ = [
    "REGISTRY",
    "InvalidEventError",
    "ScopedEvent",
    "UnfinishedEventError",
    "UnknownEventError",
    "parse_event",
]

_MODULES: tuple[ModuleType, ...] = (rootrank_scheduler, batch, sagemaker)

REGISTRY: dict[tuple[str, str], Callable[[BusEvent], ScopedEvent]] = {
    form: module.parse for module in _MODULES for form in module.FORMS
}
"""(source, detail-type) to its normaliser; a further scheduler is one module more."""


def parse_event(event: BusEvent | dict[str, Any]) -> ScopedEvent:
    """Return what may be kept of an EventBridge event.

    Raises `UnknownEventError` for a kind that nobody reads, `InvalidEventError` for a broken one,
    its subclass `UnfinishedEventError` for a state change that ends no job.
    """
    if not isinstance(event, BusEvent):
        try:
            event = BusEvent.model_validate(event)
        except ValidationError as error:
            raise InvalidEventError(f"no EventBridge event: {first_problem(error)}") from error
    parse = REGISTRY.get((event.source, event.detail_type))
    if parse is None:
        known = "; ".join(f"{source} / {kind}" for source, kind in sorted(REGISTRY))
        raise UnknownEventError(
            f"no normaliser for {event.source} / {event.detail_type}; known are {known}"
        )
    scoped = parse(event)
    return scoped.model_copy(update={"account": event.account}) if event.account else scoped
