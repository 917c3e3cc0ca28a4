"""What the template tells the functions, read from the environment once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from connectors.protocol import ConnectorError


class SettingMissingError(ConnectorError):
    """A variable that the template sets is not there."""


@dataclass(slots=True, frozen=True)
class Settings:
    """Names of the stack's resources and its few choices; days and seconds as named."""

    bucket: str
    table: str
    topic_arn: str
    state_machine_arn: str
    grace_seconds: int
    result_days: int
    rules_artifact: str | None
    site_rules: str = ""
    runner_queue_url: str = ""
    capsule_days: int = 90


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings; raises `SettingMissingError` naming the variable that is not set."""
    env = os.environ if environment is None else environment
    return Settings(
        bucket=_required(env, "BUCKET_NAME"),
        table=_required(env, "TABLE_NAME"),
        topic_arn=_required(env, "TOPIC_ARN"),
        state_machine_arn=env.get("STATE_MACHINE_ARN", ""),
        grace_seconds=int(env.get("GRACE_SECONDS", "300")),
        result_days=int(env.get("RESULT_DAYS", "400")),
        rules_artifact=env.get("RULES_ARTIFACT"),
        site_rules=env.get("SITE_RULES", ""),
        runner_queue_url=env.get("RUNNER_QUEUE_URL", ""),
        capsule_days=int(env.get("CAPSULE_DAYS", "90")),
    )


def _required(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise SettingMissingError(
            f"environment variable {name} is not set; template.yaml sets it for every function"
        )
    return value
