"""The queue between the workflow and runners outside, and the workflow that waits for them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config

from connectors.protocol import ConnectorError, TransientError
from functions.adapters.faults import AWS_ERRORS, AwsError, error_code, is_busy

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_stepfunctions import SFNClient

LEASE_S: Final = 120
"""How long a taken message stays hidden; a runner at work renews it each third of that."""
_GONE: Final = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})
_MAX_CAUSE: Final = 1_000


class QueueBusyError(TransientError):
    """SQS or Step Functions throttles, is unavailable or could not be reached."""


class QueueRefusedError(ConnectorError):
    """The queue, or the workflow, refuses and a retry will not help."""


@dataclass(slots=True, frozen=True)
class Taken:
    """A message and what it takes to renew or drop it."""

    body: str
    handle: str


@dataclass(slots=True, frozen=True)
class RunnerQueue:
    """One queue of hand-overs."""

    client: "SQSClient"
    url: str

    def send(self, body: str) -> None:
        """Put a message on the queue."""
        try:
            self.client.send_message(QueueUrl=self.url, MessageBody=body)
        except AWS_ERRORS as error:
            raise _told(error, f"send to {self.url}") from error

    def take(self, wait_s: int) -> Taken | None:
        """Wait for a message, at most 20 seconds; None where none came."""
        try:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=1,
                WaitTimeSeconds=wait_s,
                VisibilityTimeout=LEASE_S,
            )
        except AWS_ERRORS as error:
            raise _told(error, f"read {self.url}") from error
        found = [
            Taken(each.get("Body", ""), each.get("ReceiptHandle", ""))
            for each in answer.get("Messages", ())
        ]
        return found[0] if found else None

    def renew(self, taken: Taken) -> None:
        """Keep a message hidden for another `LEASE_S`."""
        try:
            self.client.change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=taken.handle, VisibilityTimeout=LEASE_S
            )
        except AWS_ERRORS as error:
            raise _told(error, f"renew a message of {self.url}") from error

    def drop(self, taken: Taken) -> None:
        """Take a message off the queue for good."""
        try:
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=taken.handle)
        except AWS_ERRORS as error:
            raise _told(error, f"drop a message of {self.url}") from error


@dataclass(slots=True, frozen=True)
class WaitingWorkflow:
    """The workflow that waits for an answer under a token."""

    client: "SFNClient"

    def beat(self, token: str) -> bool:
        """Say that the work goes on; False where nobody waits for it any more."""
        return self._send(lambda: self.client.send_task_heartbeat(taskToken=token))

    def succeed(self, token: str, output: str) -> bool:
        """Give the answer; False where nobody waits for it any more."""
        return self._send(lambda: self.client.send_task_success(taskToken=token, output=output))

    def fail(self, token: str, error: str, cause: str) -> bool:
        """Say that there will be no answer."""
        return self._send(
            lambda: self.client.send_task_failure(
                taskToken=token, error=error, cause=cause[:_MAX_CAUSE]
            )
        )

    def _send(self, send: Any) -> bool:
        try:
            send()
        except AWS_ERRORS as error:
            if error_code(error) in _GONE:
                return False
            raise _told(error, "answer the workflow") from error
        return True


def _told(error: AwsError, what: str) -> ConnectorError:
    if is_busy(error):
        return QueueBusyError(f"cannot {what} now ({error_code(error)})")
    return QueueRefusedError(f"cannot {what} ({error_code(error)}); check the runner's role")


def region_of(url: str) -> str | None:
    """Return the region that a queue's address names, None where it names none."""
    parts = url.partition("://")[2].partition("/")[0].split(".")
    return parts[1] if len(parts) > 3 and parts[0] == "sqs" else None


def open_queue(url: str) -> RunnerQueue:
    """Return a queue with the credentials of this process; the region is the address's own."""
    config = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard"})
    try:
        return RunnerQueue(boto3.client("sqs", region_name=region_of(url), config=config), url)
    except AWS_ERRORS as error:
        raise _told(error, f"read {url}") from error


def open_workflow(role_arn: str = "", region: str | None = None) -> WaitingWorkflow:
    """Return the workflow's door; with `role_arn` as that role, in the account that waits.

    Step Functions takes a token only from principals of the account that made it.
    """
    more: dict[str, Any] = {"region_name": region}
    try:
        if role_arn:
            sts = boto3.client("sts", region_name=region)
            answer = sts.assume_role(RoleArn=role_arn, RoleSessionName="rootrank-spoke")
            found = answer["Credentials"]
            more |= {
                "aws_access_key_id": found["AccessKeyId"],
                "aws_secret_access_key": found["SecretAccessKey"],
                "aws_session_token": found["SessionToken"],
            }
        return WaitingWorkflow(boto3.client("stepfunctions", **more))
    except AWS_ERRORS as error:
        raise _told(error, "reach the workflow") from error
