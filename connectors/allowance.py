"""What one item may still spend: requests, bytes and seconds, counted where they are spent."""

from collections.abc import Callable
from dataclasses import dataclass, field

from connectors.protocol import BudgetSpentError
from engine.model.plan import Budget


@dataclass(slots=True)
class Allowance:
    """A budget that is used up; `clock` counts seconds from anywhere.

    Every request is counted before it is made, so a budget is kept to within one answer.
    """

    budget: Budget
    clock: Callable[[], float]
    requests: int = 0
    bytes: int = 0
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.budget.seconds

    def take_request(self, what: str) -> None:
        """Count one request; raises `BudgetSpentError` where none is left."""
        if self.requests >= self.budget.requests:
            raise BudgetSpentError(f"{what}: all {self.budget.requests} requests are used")
        if self.bytes >= self.budget.bytes:
            raise BudgetSpentError(f"{what}: all {self.budget.bytes} bytes are used")
        if self.seconds_left <= 0:
            raise BudgetSpentError(f"{what}: all {self.budget.seconds} seconds are used")
        self.requests += 1

    def take_bytes(self, count: int) -> None:
        """Count bytes that came in."""
        self.bytes += count

    @property
    def bytes_left(self) -> int:
        """How many bytes may still come in, at least 0."""
        return max(0, self.budget.bytes - self.bytes)

    @property
    def seconds_left(self) -> float:
        """How many seconds are left, at least 0."""
        return max(0.0, self._until - self.clock())
