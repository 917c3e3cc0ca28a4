"""What `sources.yaml` says of logs and metrics. Every field is in docs/sites.md."""

import re
from typing import Annotated, Final

import re2
from pydantic import BaseModel, Field, field_validator, model_validator

from connectors.endpoint import HttpEndpoint, Secret
from engine.model.contract import StrictDocument
from engine.model.moment import zone
from engine.model.plan import Budget
from engine.model.vocabulary import Runner, Source, Trust

CLUSTER: Final = "cluster"
"""`query` key of every item of a site: the cluster whose settings it is read with."""

_NAME: Final = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}$")
"""A label's name, for Prometheus and Loki alike."""

SourceName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]


class FileSource(StrictDocument):
    """Files below a folder (also FSx, EFS, NFS) or an `s3://bucket/prefix`.

    In `patterns`, relative to `root`: globs, `{rank}` and `{node}` (which label the file), and
    `{job_id} {array_job_id} {user} {name} {attempt} {namespace}` of the job.
    """

    name: SourceName = "files"
    root: str
    patterns: tuple[str, ...] = Field(min_length=1)
    source: Source = "applog"
    timezone: str | None = None
    rotated: bool = True
    parallel: Annotated[int, Field(ge=1, le=16)] = 4
    range_bytes: Annotated[int, Field(ge=65_536, le=67_108_864)] = 2_097_152
    budget: Budget = Budget()
    runner: Runner | None = None

    @field_validator("root")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not value.startswith(("/", "s3://")):
            raise ValueError("must be an absolute folder or s3://bucket/prefix")
        return value.rstrip("/") or "/"

    @field_validator("patterns")
    @classmethod
    def _inside(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            if each.startswith("/") or ".." in each.split("/") or not each.strip():
                raise ValueError(f"{each!r} must stay below root")
        return value

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        zone(value)
        return value


class ServiceEndpoint(HttpEndpoint):
    """An HTTP service with bearer (`token`) or basic (`user`, `password`) credentials."""

    user: str | None = None
    password: Secret | None = None
    budget: Budget = Budget(bytes=1024**3, seconds=300, requests=2_000)
    runner: Runner | None = None

    @model_validator(mode="after")
    def _one_way_in(self) -> "ServiceEndpoint":
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together")
        if self.user is not None and self.token is not None:
            raise ValueError("give either token or user and password")
        return self


class SigV4(StrictDocument):
    """Requests signed for AWS, with the credentials of whoever runs the connector."""

    region: str
    service: str = "aps"


class PrometheusSource(ServiceEndpoint):
    """Prometheus, or what speaks its HTTP API.

    `labels` maps the label that a rule's query names for the node (`Hostname`, `instance`,
    `node`) to this site's, `values` a fixed label's values (`job: {node: node-exporter}`);
    `matchers` are added to every query; `node_suffix` is what may follow
    the node's name in the label.
    """

    labels: dict[str, str] = Field(default={})
    values: dict[str, dict[str, str]] = Field(default={})
    matchers: dict[str, str] = Field(default={})
    node_suffix: str = r"([.:].*)?"
    raw_seconds: Annotated[int, Field(ge=60, le=86_400)] = 21_600
    sigv4: SigV4 | None = None

    @field_validator("labels", "matchers")
    @classmethod
    def _label_names(cls, value: dict[str, str]) -> dict[str, str]:
        return require_labels(value)


class LokiStream(StrictDocument):
    """One kind of stream: how the job's are chosen, and which labels say whose they are.

    `match` takes `{job_id} {user} {name} {attempt} {namespace}` in its values; `node_label` and
    `rank_label` label what comes and, where `by_node` says so, choose the job's nodes.
    """

    source: Source = "applog"
    trust: Trust | None = None
    match: dict[str, str] = Field(min_length=1)
    by_node: bool = False
    node_label: str | None = None
    rank_label: str | None = None
    pod_label: str | None = None
    container_label: str | None = None
    timezone: str | None = None

    @field_validator("match")
    @classmethod
    def _label_names(cls, value: dict[str, str]) -> dict[str, str]:
        return require_labels(value)

    @model_validator(mode="after")
    def _knows_nodes(self) -> "LokiStream":
        if self.by_node and self.node_label is None:
            raise ValueError("by_node needs node_label")
        return self


class LokiSource(ServiceEndpoint):
    """Grafana Loki. `tenant` goes into X-Scope-OrgID; `page_lines` is the limit of one request."""

    tenant: str | None = None
    streams: tuple[LokiStream, ...] = Field(min_length=1)
    page_lines: Annotated[int, Field(ge=10, le=100_000)] = 5_000
    max_streams: Annotated[int, Field(ge=1, le=100_000)] = 2_000


class CloudWatchGroup(StrictDocument):
    """One log group, and the names of a job's streams in it: patterns as those of files.

    `pushdown`: before the tail only lines that some rule could match are asked for.
    """

    name: SourceName
    group: Annotated[str, Field(min_length=1, max_length=512)]
    streams: tuple[str, ...] = Field(min_length=1)
    source: Source = "applog"
    timezone: str | None = None
    pushdown: bool = True

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        zone(value)
        return value


class SpokeRole(StrictDocument):
    """A role of another account that is taken for reading; its owner chose the external id."""

    arn: str = Field(pattern=r"^arn:[a-z-]+:iam::[0-9]{12}:role/[\w+=,.@/-]+$")
    external_id: str = Field(min_length=2, max_length=1224)


class CloudWatchSource(StrictDocument):
    """CloudWatch Logs of one region, with the credentials of whoever runs the connector.

    With `role` as that role, in its account.
    """

    region: str
    role: SpokeRole | None = None
    groups: tuple[CloudWatchGroup, ...] = Field(min_length=1)
    budget: Budget = Budget(bytes=1024**3, seconds=300, requests=2_000)
    runner: Runner | None = None


class PodLogs(StrictDocument):
    """Which pods are a job's: labels whose values take the job's templates."""

    match: dict[str, str] = Field(default={"job-name": "{job_id}"}, min_length=1)
    budget: Budget = Budget(bytes=1024**3, seconds=300, requests=2_000)
    runner: Runner | None = None


class Redaction(StrictDocument):
    """What a site masks beyond the secrets that are always masked."""

    patterns: tuple[str, ...] = ()
    emails: bool = False
    home_paths: bool = False

    @field_validator("patterns")
    @classmethod
    def _compiles(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            try:
                re.compile(each)
                # RE2 takes no back-references and the like, which can take for ever.
                re2.compile(each)
            except (re.error, re2.error) as error:
                raise ValueError(f"{each!r} is no pattern ({error})") from error
        return value


def require_labels(value: dict[str, str]) -> dict[str, str]:
    """Return labels whose names are legal; raises `ValueError`."""
    for name in value:
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is no label name")
    return value


MODELS: Final[tuple[type[BaseModel], ...]] = (
    FileSource, ServiceEndpoint, SigV4, PrometheusSource, LokiStream, LokiSource,
    CloudWatchGroup, CloudWatchSource, PodLogs, Redaction,
)  # fmt: skip
