"""What an attribution took and costs, from the meters that its invocations left. Pure.

Recorded: time, memory and AWS calls of plan, of every collector and of attribute up to here.
Added from what one message takes: admission and announcement, which store no meter, and the
revision that is about to be written. The estimate is for us-east-1 (`prices`).
"""

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Final

from engine.model.envelope import Cost
from engine.model.plan import Report
from functions.adapters.metering import Meter
from functions.attribute import prices

STATES_A_COLLECTION: Final = 8
"""Plan to the next Plan, or to Done; `tests/unit/test_costing.py` counts them in the machine."""
STATES_AN_ITEM: Final = 2
STATES_BEFORE: Final = 1
"""The start of an execution counts as a transition, of a Map's child too."""
ADMISSION: Final = Meter(
    100,
    512,
    {
        "events.PutEvents": 1, "sqs.SendMessage": 1, "sqs.ReceiveMessage": 1,
        "sqs.DeleteMessage": 1, "s3.PutObject": 1, "dynamodb.GetItem": 1, "dynamodb.UpdateItem": 1,
    },
)  # fmt: skip
"""One event, warm (docs/cost.md)."""
ANNOUNCEMENT: Final = Meter(
    100,
    512,
    {
        "s3.PutObject": 1, "dynamodb.PutItem": 2, "dynamodb.TransactWriteItems": 1,
        "dynamodb.GetItem": 1, "s3.GetObject": 1, "sns.Publish": 1,
    },
)  # fmt: skip
"""A revision stored and told."""
_OUTSIDE: Final = frozenset({"static", "workload", "record"})
"""Connectors that ask nobody but the bucket, whose requests the meters count."""
_MICRO: Final = Decimal("0.000001")


@dataclass(slots=True, frozen=True)
class Spent:
    """The meters of one attribution, all collections of its generation; `events` were admitted."""

    collected: Sequence[Meter]
    planned: Sequence[Meter]
    attributed: Meter
    reports: Sequence[Report] = ()
    events: int = 1

    def meters(self) -> list[Meter]:
        """Return every meter that costs something."""
        return [
            *self.collected,
            *self.planned,
            self.attributed,
            *[ADMISSION] * self.events,
            ANNOUNCEMENT,
        ]

    def transitions(self) -> int:
        """Return the states that the workflow entered, without retries."""
        collections = max(1, len(self.planned))
        items = len(self.collected) * (STATES_AN_ITEM + STATES_BEFORE)
        return STATES_BEFORE + collections * STATES_A_COLLECTION + items

    def gb_seconds(self) -> Decimal:
        """Return memory times time over all invocations."""
        return sum(
            (Decimal(each.milliseconds * each.memory_mb) / 1_024_000 for each in self.meters()),
            Decimal(0),
        )

    def usd(self, architecture: str | None = None) -> Decimal:
        """Return the estimate in dollars; `architecture` is that of this machine by default."""
        calls: Counter[str] = Counter()
        for each in self.meters():
            calls.update(each.calls)
        return (
            self.gb_seconds() * prices.GB_SECOND[architecture or _architecture()]
            + prices.INVOCATION * len(self.meters())
            + prices.TRANSITION * self.transitions()
            + calls_usd(calls)
        )

    def requests(self) -> int:
        """Return every request: to AWS, and to the sources that a site configured."""
        ours = sum(sum(each.calls.values()) for each in self.meters())
        theirs = sum(each.requests for each in self.reports if each.connector not in _OUTSIDE)
        return ours + theirs

    def envelope(self) -> Cost:
        """Return what the envelope carries."""
        return Cost(
            bytes_scanned=sum(each.bytes for each in self.reports),
            requests=self.requests(),
            gb_seconds=_text(self.gb_seconds()),
            usd_estimate=_text(self.usd()),
            priced_on=prices.PRICED_ON,
        )

    def timings_ms(self) -> dict[str, int]:
        """Return the time of each phase; collectors run side by side, so theirs is not elapsed."""
        return {
            "attribute": self.attributed.milliseconds,
            "collect_longest": max((each.milliseconds for each in self.collected), default=0),
            "collect_total": sum(each.milliseconds for each in self.collected),
            "plan": sum(each.milliseconds for each in self.planned),
        }


def calls_usd(calls: Mapping[str, int]) -> Decimal:
    """Return the price of AWS calls by `service.Operation`."""
    return sum((prices.CALL.get(name, Decimal(0)) * n for name, n in calls.items()), Decimal(0))


def _architecture() -> str:
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _text(value: Decimal) -> str:
    """Return plain decimal text with at most six places, as canonical JSON holds no floats."""
    short = value.quantize(_MICRO, rounding=ROUND_HALF_EVEN)
    return f"{short:f}".rstrip("0").rstrip(".") or "0"
