"""An address in `sources.yaml`, and where its secrets are: never in the file itself."""

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from engine.model.contract import StrictDocument


class Secret(StrictDocument):
    """Where a token is: a file, an environment variable, or the ARN of an AWS secret."""

    file: str | None = None
    env: str | None = None
    arn: Annotated[str, Field(pattern=r"^arn:[a-z-]+:(secretsmanager|ssm):")] | None = None

    @model_validator(mode="after")
    def _one(self) -> "Secret":
        if [self.file, self.env, self.arn].count(None) != 2:
            raise ValueError("give one of file, env and arn")
        return self


class HttpEndpoint(StrictDocument):
    """An address with what it takes to be let in. Seconds for one answer."""

    url: str
    token: Secret | None = None
    ca_file: str | None = None
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0

    @field_validator("url")
    @classmethod
    def _http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://", "unix:")):
            raise ValueError("must start with http://, https:// or unix:")
        return value.rstrip("/")
