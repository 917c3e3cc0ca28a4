"""EventBridge: events that our own functions put."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import boto3

from connectors.protocol import ConnectorError
from functions.adapters.faults import AWS_ERRORS, BusBusyError, error_code, is_busy

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_events.type_defs import PutEventsRequestEntryTypeDef

_AT_ONCE: Final = 10
"""PutEvents takes so many entries at a time."""


class BusRefusedError(ConnectorError):
    """The bus refuses events and a retry will not help."""


@dataclass(slots=True, frozen=True)
class EventBus:
    """One bus."""

    client: "EventBridgeClient"
    name: str

    def put(self, source: str, detail_type: str, details: Sequence[dict[str, Any]]) -> None:
        """Put events; raises `BusBusyError` where a retry may help, then all are put again."""
        for start in range(0, len(details), _AT_ONCE):
            entries: list[PutEventsRequestEntryTypeDef] = [
                {
                    "Source": source,
                    "DetailType": detail_type,
                    "Detail": json.dumps(detail, sort_keys=True),
                    "EventBusName": self.name,
                }
                for detail in details[start : start + _AT_ONCE]
            ]
            try:
                answer = self.client.put_events(Entries=entries)
            except AWS_ERRORS as error:
                if is_busy(error):
                    raise BusBusyError(f"{self.name}: {error_code(error)}") from error
                raise BusRefusedError(
                    f"cannot put events on {self.name} ({error_code(error)}); check the policy"
                ) from error
            if answer["FailedEntryCount"]:
                codes = sorted({each.get("ErrorCode", "") for each in answer["Entries"]} - {""})
                raise BusBusyError(f"{self.name}: {', '.join(codes)}")


def connect_bus() -> EventBus:
    """Return the bus that the template names."""
    return EventBus(boto3.client("events"), os.environ.get("EVENT_BUS_NAME", "default"))
