"""What a run is doing, one line a step, for a person who waits."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from rootrank.embedded.emulator import Invocation

_QUIET_STATES = frozenset({"AnythingToCollect", "AnythingToPublish", "WouldMoreChangeIt"})
_TOLD_OF = {
    "Plan": "planning what to collect",
    "Collect": "collecting",
    "Attribute": "reasoning over the evidence",
    "Publish": "publishing",
    "WaitForEvidence": "waiting for late evidence",
    "NextCollection": "second collection: what would change the verdict",
    "AttributeFailed": "no verdict could be stored",
    "PublishFailed": "the verdict is stored but not announced",
}


@dataclass(slots=True)
class ProgressLines:
    """Prints progress to `out`. Made before the handlers' output is redirected."""

    out: TextIO = field(default_factory=lambda: sys.stderr)
    started: float = field(default_factory=time.monotonic)
    items: int = 0

    def __call__(self, what: str, details: Mapping[str, Any]) -> None:
        """Tell one step."""
        if what == "state" and details["name"] not in _QUIET_STATES:
            name = details["name"]
            self.line("state", f"{name}: {_TOLD_OF[name]}" if name in _TOLD_OF else name)
        elif what == "execution" and details["status"] != "SUCCEEDED":
            self.line("workflow", f"ended as {details['status']}")
        elif what == "invocation":
            self._invocation(details["invocation"])

    def line(self, what: str, text: str) -> None:
        """Print one line with the seconds since the start."""
        seconds = time.monotonic() - self.started
        print(f"{seconds:6.1f}s  {what:<9} {text}", file=self.out, flush=True)

    def _invocation(self, invocation: Invocation) -> None:
        if invocation.error is not None:
            self.line("function", f"{invocation.function} failed: {invocation.error}"[:300])
        elif isinstance(invocation.event, dict) and "item" in invocation.event:
            self.items += 1
            item, answer = invocation.event["item"], invocation.answer or {}
            told = f"{item['connector']} {item['shard']}: {answer.get('status')}"
            self.line("item", f"{self.items} done, {told}")
