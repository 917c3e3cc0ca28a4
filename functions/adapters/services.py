"""The clients of one function, built once a process and passed in."""

from dataclasses import dataclass
from functools import cache
from typing import Final

import boto3
from botocore.config import Config

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


@cache
def connect() -> Services:
    """Build the clients from the environment; raises `SettingMissingError`."""
    settings = read_settings()
    session = boto3.session.Session()
    return Services(
        settings=settings,
        store=ObjectStore(session.client("s3", config=_PATIENCE), settings.bucket),
        table=ResultsTable(session.client("dynamodb", config=_PATIENCE), settings.table),
        notifier=Notifier(session.client("sns", config=_PATIENCE), settings.topic_arn),
        workflow=Workflow(
            session.client("stepfunctions", config=_PATIENCE), settings.state_machine_arn
        ),
    )
