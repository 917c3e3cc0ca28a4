"""The clients of one function, built once a process and passed in."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import boto3
from botocore.config import Config

from functions.adapters.metering import CallCount, Meter
from functions.adapters.notifier import Notifier
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import ResultsTable
from functions.adapters.settings import Settings, read_settings
from functions.adapters.workflow import Workflow

_PATIENCE: Final = Config(
    connect_timeout=3, read_timeout=30, retries={"mode": "standard", "max_attempts": 4}
)


class Services:
    """What the handlers work with; each client is made when it is first asked for.

    Making one reads the service's description, 20 to 40 ms of a cold start, and no function
    calls all four services.
    """

    def __init__(self, settings: Settings, session: boto3.session.Session) -> None:
        self.settings = settings
        self.calls = CallCount()
        self._session = session
        self.calls.watch(session)

    @cached_property
    def store(self) -> ObjectStore:
        """The stack's bucket."""
        return ObjectStore(self._session.client("s3", config=_PATIENCE), self.settings.bucket)

    @cached_property
    def table(self) -> ResultsTable:
        """The stack's table."""
        client = self._session.client("dynamodb", config=_PATIENCE)
        return ResultsTable(client, self.settings.table)

    @cached_property
    def notifier(self) -> Notifier:
        """The topic of the verdicts."""
        return Notifier(self._session.client("sns", config=_PATIENCE), self.settings.topic_arn)

    @cached_property
    def workflow(self) -> Workflow:
        """The state machine."""
        client = self._session.client("stepfunctions", config=_PATIENCE)
        return Workflow(client, self.settings.state_machine_arn)

    def start_meter(self, memory_mb: int) -> "RunningMeter":
        """Begin to measure an invocation of a function with so much memory."""
        return RunningMeter(self.calls, memory_mb, self.calls.snapshot(), time.monotonic())


@dataclass(slots=True, frozen=True)
class RunningMeter:
    """The meter of an invocation that is not over."""

    calls: CallCount
    memory_mb: int
    before: Mapping[str, int]
    started: float

    def read(self) -> Meter:
        """Return what the invocation took so far."""
        milliseconds = int((time.monotonic() - self.started) * 1000)
        return Meter(milliseconds, self.memory_mb, self.calls.since(self.before))


@cache
def connect() -> Services:
    """Return the services that the environment names; raises `SettingMissingError`."""
    return Services(read_settings(), boto3.session.Session())
