"""The state machine's adapter: which execution a name means."""

from typing import Any, cast

import pytest

from functions.adapters.workflow import Workflow

MACHINE = "arn:aws:states:eu-west-1:123456789012:stateMachine:rootrank-attribution"


class Machines:
    """Remembers what was described."""

    def __init__(self) -> None:
        self.described: list[str] = []

    def describe_execution(self, *, executionArn: str) -> dict[str, str]:
        self.described.append(executionArn)
        return {"status": "SUCCEEDED"}


@pytest.mark.parametrize("arn", [MACHINE, f"{MACHINE}:live", f"{MACHINE}:7"])
def test_an_execution_is_the_machines_whichever_version_it_was_started_with(arn: str) -> None:
    machines = Machines()
    assert Workflow(cast(Any, machines), arn).state_of("a1-g1") == "succeeded"
    assert machines.described == [
        "arn:aws:states:eu-west-1:123456789012:execution:rootrank-attribution:a1-g1"
    ]
