"""The clients of one function, built once a process and passed in."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
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


@dataclass(slots=True, frozen=True)
class Services:
    """What the handlers work with."""

    settings: Settings
    store: ObjectStore
    table: ResultsTable
    notifier: Notifier
    workflow: Workflow
    calls: CallCount = field(default_factory=CallCount)

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
    """Build the clients from the environment; raises `SettingMissingError`."""
    settings = read_settings()
    session = boto3.session.Session()
    calls = CallCount()
    calls.watch(session)
    return Services(
        settings=settings,
        store=ObjectStore(session.client("s3", config=_PATIENCE), settings.bucket),
        table=ResultsTable(session.client("dynamodb", config=_PATIENCE), settings.table),
        notifier=Notifier(session.client("sns", config=_PATIENCE), settings.topic_arn),
        workflow=Workflow(
            session.client("stepfunctions", config=_PATIENCE), settings.state_machine_arn
        ),
        calls=calls,
    )
