"""`sources.yaml`: which sources a site has, typed and checked with line and column.

Secrets are never in the file: a token is read from a file or an environment variable when needed.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from connectors.endpoint import HttpEndpoint, Secret
from connectors.protocol import ConnectorError
from connectors.site_overrides import OverrideError, overridden
from connectors.strict_yaml import Placed, StrictYamlError, read_yaml
from connectors.telemetry.settings import (
    MODELS,
    CloudWatchSource,
    FileSource,
    LokiSource,
    PodLogs,
    PrometheusSource,
    Redaction,
)
from engine.model.contract import StrictDocument
from engine.model.plan import Budget
from engine.model.vocabulary import Runner
from engine.model.workload import as_list, nodes_of

VERSION: Final = 1
NO_OVERRIDES: Final[Mapping[str, str]] = MappingProxyType({})


class SiteError(ConnectorError):
    """A `sources.yaml` that cannot be used; all its problems, one a line."""


class SlurmCommands(StrictDocument):
    """Slurm's own programs on this machine (a login node, or the controller)."""

    kind: Literal["commands"] = "commands"
    sacct: str = "sacct"
    scontrol: str = "scontrol"
    conf: str | None = None
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0


class SlurmRest(HttpEndpoint):
    """slurmrestd. The newest of `versions` that it knows is used."""

    kind: Literal["rest"] = "rest"
    user: str | None = None
    versions: tuple[str, ...] = ()


class KubernetesApi(HttpEndpoint):
    """A Kubernetes API server; `namespaces` empty means all that the token may read."""

    kind: Literal["api"] = "api"
    namespaces: tuple[str, ...] = ()


class InCluster(StrictDocument):
    """The API server of the pod that this runs in, with the pod's own service account."""

    kind: Literal["in_cluster"] = "in_cluster"
    namespaces: tuple[str, ...] = ()
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0


class Kubeconfig(StrictDocument):
    """A kubeconfig file; programs in it (`exec`) are run only where `allow_exec` says so."""

    kind: Literal["kubeconfig"] = "kubeconfig"
    path: str
    context: str | None = None
    namespaces: tuple[str, ...] = ()
    allow_exec: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 30.0


SlurmSource = Annotated[SlurmCommands | SlurmRest, Field(discriminator="kind")]
KubernetesSource = Annotated[KubernetesApi | InCluster | Kubeconfig, Field(discriminator="kind")]


_Limit = Annotated[int, Field(ge=1, le=200)] | None


class AtOnce(StrictDocument):
    """How many collectors may ask a source at once, over all attempts, by connector."""

    slurm: _Limit = None
    kubernetes: _Limit = None
    files: _Limit = None
    prometheus: _Limit = None
    loki: _Limit = None
    cloudwatch: _Limit = None
    pod_logs: _Limit = None


class Switch(StrictDocument):
    """A switch and the nodes below it, as host lists: jobs with failed nodes below one share it."""

    name: str = Field(min_length=1, max_length=128)
    nodes: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(min_length=1)

    @field_validator("nodes")
    @classmethod
    def _spelled_out(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return nodes_of(value)


class Cluster(StrictDocument):
    """One cluster under the name that its events carry.

    `runner` says where its items run: in the stack, in an account of its own, or beside the logs.
    """

    name: str = Field(min_length=1, max_length=128)
    runner: Runner = "lambda"
    runner_queue: Annotated[str, Field(pattern=r"^https?://\S+$")] | None = None
    slurm: SlurmSource | None = None
    kubernetes: KubernetesSource | None = None
    files: tuple[FileSource, ...] = ()
    prometheus: PrometheusSource | None = None
    loki: LokiSource | None = None
    cloudwatch: CloudWatchSource | None = None
    pod_logs: PodLogs | None = None
    switches: tuple[Switch, ...] = ()
    budget: Budget = Budget()
    tenant: str | None = Field(default=None, min_length=1, max_length=128)
    grace_seconds: int | None = Field(default=None, ge=0, le=3600)
    deadline_seconds: int | None = Field(default=None, ge=60, le=14_400)
    budget_usd: Decimal | None = Field(default=None, ge=Decimal("0.002"), le=100)
    at_once: AtOnce = AtOnce()

    @model_validator(mode="after")
    def _distinct_files(self) -> "Cluster":
        names = [each.name for each in self.files]
        if len(set(names)) < len(names):
            raise ValueError("two entries of files share one name")
        if self.pod_logs is not None and self.kubernetes is None:
            raise ValueError("pod_logs are read through kubernetes, which is not given")
        switches = [each.name for each in self.switches]
        if len(set(switches)) < len(switches):
            raise ValueError("a switch is named twice")
        return self

    def above(self, nodes: Iterable[str]) -> dict[str, list[str]]:
        """Return the switches above any of the nodes, each with those of them below it, sorted."""
        wanted = set(nodes)
        found = {each.name: sorted(wanted.intersection(each.nodes)) for each in self.switches}
        return {name: below for name, below in found.items() if below}


class Tenant(StrictDocument):
    """A tenant, and the AWS accounts that may speak for it (as EventBridge tells them)."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,128}$")
    accounts: tuple[Annotated[str, Field(pattern=r"^[0-9]{12}$")], ...] = Field(min_length=1)


class Site(StrictDocument):
    """The whole file. With `tenants` only they are served, each for its own accounts."""

    version: Literal[1]
    clusters: tuple[Cluster, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    redaction: Redaction = Redaction()

    @model_validator(mode="after")
    def _distinct(self) -> "Site":
        names = [cluster.name for cluster in self.clusters]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"clusters named twice: {', '.join(twice)}")
        tenants = [tenant.name for tenant in self.tenants]
        if len(set(tenants)) < len(tenants):
            raise ValueError("a tenant is named twice")
        strays = {each.tenant for each in self.clusters if each.tenant} - set(tenants)
        if strays and self.tenants:
            told = ", ".join(sorted(strays))
            raise ValueError(f"clusters of tenants that are not listed: {told}")
        return self

    def cluster(self, name: str) -> Cluster | None:
        """Return the cluster of that name, or None."""
        return next((each for each in self.clusters if each.name == name), None)


def load_site(path: Path, environment: Mapping[str, str] = NO_OVERRIDES) -> Site:
    """Read a `sources.yaml`; raises `SiteError` that names every problem with line and column."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SiteError(
            f"{path}: cannot be read ({error.strerror}); docs/connectors.md shows one"
        ) from error
    return read_site(data, shown=str(path), environment=environment)


def read_site(data: bytes, *, shown: str, environment: Mapping[str, str] = NO_OVERRIDES) -> Site:
    """Read the bytes of a `sources.yaml`, and what `environment` overrides; raises `SiteError`."""
    try:
        placed = read_yaml(data)
    except StrictYamlError as error:
        raise SiteError(f"{shown}:{error}") from error
    if not isinstance(placed.value, dict):
        raise SiteError(f"{shown}:1:1: must be a mapping with the keys version and clusters")
    try:
        return Site.model_validate(_typed(overridden(placed.value, environment)))
    except OverrideError as error:
        raise SiteError(f"{shown}: {error}") from error
    except ValidationError as error:
        raise SiteError("\n".join(_problems(error, placed, shown))) from error


def _typed(value: Any) -> Any:
    """YAML scalars are read as text; only the version has to be a number."""
    if value.get("version") == str(VERSION):
        return {**value, "version": VERSION}
    return value


def _problems(error: ValidationError, placed: Placed, shown: str) -> Iterator[str]:
    for each in error.errors():
        # A discriminated union adds the kind to the path, which no YAML node has.
        path = tuple(part for part in each["loc"] if part not in _KINDS)
        line, column = placed.place(path)
        name = ".".join(str(part) for part in path) or "the file"
        message = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            near = difflib.get_close_matches(str(path[-1]), _KNOWN, n=1, cutoff=0.6)
            message = "unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
        elif each["type"] == "missing":
            message = "is missing; add it"
        elif path == ("version",):
            message = f"must be {VERSION}; this release reads no other"
        yield f"{shown}:{line}:{column}: {name}: {message}"


_MODELS: tuple[type[BaseModel], ...] = (
    Secret, HttpEndpoint, SlurmCommands, SlurmRest, KubernetesApi, InCluster, Kubeconfig, Switch,
    Cluster, AtOnce, Tenant, Site, Budget, *MODELS,
)  # fmt: skip
_KNOWN = sorted({field for model in _MODELS for field in model.model_fields})
_KINDS = frozenset({"commands", "rest", "api", "in_cluster", "kubeconfig"})
