"""CloudWatch Logs as its connector asks it."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import boto3
from botocore.config import Config

from connectors.protocol import (
    ConnectorError,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.telemetry.cloudwatch import LogEvent
from connectors.telemetry.settings import SpokeRole
from functions.adapters.faults import AWS_ERRORS, AwsError, error_code, is_busy
from functions.adapters.patience import patiently

_REFUSED: Final = frozenset({"AccessDeniedException", "UnrecognizedClientException",
                             "ExpiredTokenException", "InvalidSignatureException",
                             "NoCredentialsError"})  # fmt: skip
_PATIENCE: Final = Config(
    connect_timeout=5, read_timeout=30, retries={"mode": "adaptive", "max_attempts": 5}
)


@dataclass(slots=True, frozen=True)
class CloudWatchLogs:
    """One account and region. `pause` sleeps seconds."""

    client: Any
    pause: Callable[[float], None] = time.sleep

    def stream_names(
        self, group: str, prefix: str, most: int, on_request: Callable[[], None]
    ) -> list[str]:
        """Return names of streams, sorted, at most `most`."""
        wanted: dict[str, Any] = {"logGroupName": group}
        if prefix:
            wanted["logStreamNamePrefix"] = prefix
        names: list[str] = []
        while len(names) < most:
            on_request()
            ask = partial(self.client.describe_log_streams, **wanted)
            answer = self._asked(ask, group, holds="logStreams")
            names += [str(each["logStreamName"]) for each in answer["logStreams"]]
            if not answer.get("nextToken"):
                break
            wanted["nextToken"] = answer["nextToken"]
        return sorted(names)[:most]

    def page(
        self,
        group: str,
        stream: str,
        start_ms: int,
        end_ms: int,
        *,
        token: str | None,
        pattern: str | None = None,
    ) -> tuple[list[LogEvent], str | None]:
        """Return a page of `[start, end)` in time order, and the token of the next."""
        if pattern is not None:
            return self._filtered(group, stream, (start_ms, end_ms), pattern, token)
        wanted: dict[str, Any] = {
            "logGroupName": group,
            "logStreamName": stream,
            "startTime": start_ms,
            "endTime": end_ms,
            "startFromHead": True,
        }
        if token is not None:
            wanted["nextToken"] = token
        ask = partial(self.client.get_log_events, **wanted)
        answer = self._asked(ask, f"{group} {stream}", holds="events")
        events = [LogEvent(int(e["timestamp"]), str(e["message"])) for e in answer["events"]]
        return events, answer.get("nextForwardToken")

    def _filtered(
        self, group: str, stream: str, bounds: tuple[int, int], pattern: str, token: str | None
    ) -> tuple[list[LogEvent], str | None]:
        wanted: dict[str, Any] = {
            "logGroupName": group,
            "logStreamNames": [stream],
            "startTime": bounds[0],
            "endTime": bounds[1] - 1,  # inclusive here, where GetLogEvents leaves it out
            "filterPattern": pattern,
        }
        if token is not None:
            wanted["nextToken"] = token
        ask = partial(self.client.filter_log_events, **wanted)
        answer = self._asked(ask, f"{group} {stream}", holds="events")
        events = [
            LogEvent(int(each["timestamp"]), str(each["message"]), str(each["eventId"]))
            for each in answer["events"]
        ]
        return events, answer.get("nextToken")

    def _asked(
        self, ask: Callable[[], dict[str, Any]], where: str, *, holds: str
    ) -> dict[str, Any]:
        """Return an answer; AWS's client takes one that broke off for an empty one."""

        def once() -> dict[str, Any]:
            try:
                answer = ask()
            except AWS_ERRORS as error:
                raise _told(error, where) from error
            if holds not in answer:
                raise SourceUnreachableError(f"cloudwatch {where}: the answer broke off")
            return answer

        return patiently(once, self.pause)


def _told(error: AwsError, where: str) -> ConnectorError:
    code = error_code(error)
    shown = f"cloudwatch {where}: {code}"
    if code == "ResourceNotFoundException":
        return SourceAbsentError(f"{shown}; check the name of the group and the region")
    if code in _REFUSED:
        return SourceRefusedError(
            f"{shown}; allow logs:DescribeLogStreams, logs:GetLogEvents and logs:FilterLogEvents"
        )
    if is_busy(error):
        return SourceBusyError(shown)
    return SourceUnreachableError(shown)


def open_logs(region: str) -> CloudWatchLogs:
    """Return CloudWatch Logs of a region, patient with throttling (25 requests a second)."""
    return CloudWatchLogs(boto3.client("logs", region_name=region, config=_PATIENCE))


def open_logs_as(region: str, role: SpokeRole) -> CloudWatchLogs:
    """Return CloudWatch Logs of another account, as a role there; raises `SourceRefusedError`.

    What the role gives holds for an hour, longer than any collector works.
    """
    try:
        answer = boto3.client("sts", region_name=region, config=_PATIENCE).assume_role(
            RoleArn=role.arn, RoleSessionName="rootrank", ExternalId=role.external_id
        )
    except AWS_ERRORS as error:
        if is_busy(error):
            raise SourceBusyError(f"sts: {error_code(error)}") from error
        raise SourceRefusedError(
            f"{role.arn}: cannot be taken ({error_code(error)}); check its trust and external id"
        ) from error
    found = answer["Credentials"]
    client = boto3.client(
        "logs",
        region_name=region,
        config=_PATIENCE,
        aws_access_key_id=found["AccessKeyId"],
        aws_secret_access_key=found["SecretAccessKey"],
        aws_session_token=found["SessionToken"],
    )
    return CloudWatchLogs(client)
