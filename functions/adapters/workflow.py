"""The state machine: start one generation, look at it, resume it."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from connectors.protocol import ConnectorError
from functions.adapters.faults import AWS_ERRORS, AwsError, WorkflowBusyError, error_code, is_busy

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

ExecutionState = Literal["absent", "running", "succeeded", "failed"]

_FAILED: Final = frozenset({"FAILED", "TIMED_OUT", "ABORTED"})


class WorkflowRefusedError(ConnectorError):
    """Step Functions refuses the request and a retry will not help."""


@dataclass(slots=True, frozen=True)
class Workflow:
    """One state machine, by its own ARN or an alias's.

    Names are the machine's, whichever of its versions an execution has. Raises
    `WorkflowBusyError` where a retry may help.
    """

    client: "SFNClient"
    state_machine_arn: str

    def start(self, name: str, payload: dict[str, object]) -> bool:
        """Start an execution; False when one of that name exists already."""
        try:
            self.client.start_execution(
                stateMachineArn=self.state_machine_arn,
                name=name,
                input=json.dumps(payload, sort_keys=True),
            )
        except AWS_ERRORS as error:
            if error_code(error) == "ExecutionAlreadyExists":
                return False
            raise _told(error, f"start {name}") from error
        return True

    def state_of(self, name: str) -> ExecutionState:
        """Return what became of the execution called `name`."""
        try:
            answer = self.client.describe_execution(executionArn=self._execution_arn(name))
        except AWS_ERRORS as error:
            if error_code(error) == "ExecutionDoesNotExist":
                return "absent"
            raise _told(error, f"describe {name}") from error
        if answer["status"] in _FAILED:
            return "failed"
        return "succeeded" if answer["status"] == "SUCCEEDED" else "running"

    def redrive(self, name: str) -> bool:
        """Resume a failed execution at the state that failed; False where AWS refuses it.

        Executions can be redriven for 14 days, and not after certain failures
        (docs.aws.amazon.com/step-functions/latest/dg/redrive-executions.html).
        """
        try:
            self.client.redrive_execution(executionArn=self._execution_arn(name))
        except AWS_ERRORS as error:
            if is_busy(error):
                raise _told(error, f"redrive {name}") from error
            return False
        return True

    def _execution_arn(self, name: str) -> str:
        parts = self.state_machine_arn.split(":")
        return ":".join([*parts[:5], "execution", parts[6], name])


def _told(error: AwsError, what: str) -> ConnectorError:
    if is_busy(error):
        return WorkflowBusyError(f"cannot {what} now ({error_code(error)})")
    return WorkflowRefusedError(f"cannot {what} ({error_code(error)}): {error}")
