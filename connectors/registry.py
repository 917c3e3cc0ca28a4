"""From a site's settings to its connectors, each with clients made for it."""

import base64
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from connectors.allowance import Allowance
from connectors.command import CommandRunner, LocalCommands
from connectors.endpoint import HttpEndpoint, Secret
from connectors.http_source import HttpSource
from connectors.protocol import Connector, ProbedConnector, SourceNotConfiguredError
from connectors.schedulers.kubernetes import NAME as KUBERNETES
from connectors.schedulers.kubernetes import KubernetesConnector
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.schedulers.kubernetes_door import open_door
from connectors.schedulers.slurm import NAME as SLURM
from connectors.schedulers.slurm import SlurmBackend, SlurmConnector
from connectors.schedulers.slurm_commands import SlurmPrograms
from connectors.schedulers.slurm_rest import SlurmService
from connectors.site import Cluster, KubernetesSource, Site, SlurmCommands, SlurmRest
from connectors.telemetry.cloudwatch import NAME as CLOUDWATCH
from connectors.telemetry.cloudwatch import CloudWatchConnector, LogsApi
from connectors.telemetry.file_store import AbsentFiles, FileStore, LocalFiles
from connectors.telemetry.files import NAME as FILES
from connectors.telemetry.files import FilesConnector, source_of
from connectors.telemetry.loki import CATEGORIZE, LokiConnector
from connectors.telemetry.loki import NAME as LOKI
from connectors.telemetry.pod_logs import NAME as POD_LOGS
from connectors.telemetry.pod_logs import PodLogsConnector
from connectors.telemetry.prometheus import NAME as PROMETHEUS
from connectors.telemetry.prometheus import PrometheusConnector
from connectors.telemetry.settings import (
    CLUSTER,
    CloudWatchSource,
    FileSource,
    LokiSource,
    PodLogs,
    PrometheusSource,
    ServiceEndpoint,
    SpokeRole,
)
from engine.model.plan import PlanItem

_NAMES = frozenset({CLOUDWATCH, FILES, KUBERNETES, LOKI, POD_LOGS, PROMETHEUS, SLURM})


@dataclass(slots=True, frozen=True)
class Outside:
    """What connectors need of the world; tests pass their own."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    commands: Callable[[Mapping[str, str]], CommandRunner] = LocalCommands
    transport: httpx.BaseTransport | None = None
    buckets: Callable[[str], FileStore] | None = None
    signer: Callable[[str, str], Any] | None = None
    logs: Callable[[str], LogsApi] | None = None
    logs_as: Callable[[str, SpokeRole], LogsApi] | None = None
    read_arn: Callable[[str], str] | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


def build_connectors(site: Site, outside: Outside | None = None) -> list[ProbedConnector]:
    """Return all connectors of a site, by cluster."""
    outside = outside or Outside()
    found: list[ProbedConnector] = []
    for cluster in site.clusters:
        if cluster.slurm is not None:
            found.append(slurm_connector(cluster, outside))
        if cluster.kubernetes is not None:
            found.append(kubernetes_connector(cluster, outside))
        found += [files_connector(cluster, each, outside) for each in cluster.files]
        if cluster.prometheus is not None:
            found.append(prometheus_connector(cluster, cluster.prometheus, outside))
        if cluster.loki is not None:
            found.append(loki_connector(cluster, cluster.loki, outside))
        if cluster.cloudwatch is not None:
            found.append(cloudwatch_connector(cluster, cluster.cloudwatch, outside))
        if cluster.pod_logs is not None:
            found.append(pod_logs_connector(cluster, cluster.pod_logs, outside))
    return found


def connector_for(site: Site, item: PlanItem, outside: Outside | None = None) -> Connector | None:
    """Return the connector that an item names, None for a name that is none.

    Raises `SourceNotConfiguredError` where the site has no such source.
    """
    outside = outside or Outside()
    if item.connector not in _NAMES:
        return None
    name = item.query.get(CLUSTER, "")
    cluster = site.cluster(name)
    if cluster is None:
        raise SourceNotConfiguredError(f"sources.yaml has no cluster {name!r}")
    if item.connector == SLURM:
        return slurm_connector(cluster, outside)
    if item.connector == KUBERNETES:
        return kubernetes_connector(cluster, outside)
    if item.connector == FILES:
        return files_connector(cluster, source_of(cluster.files, item), outside)
    if item.connector == PROMETHEUS and cluster.prometheus is not None:
        return prometheus_connector(cluster, cluster.prometheus, outside)
    if item.connector == LOKI and cluster.loki is not None:
        return loki_connector(cluster, cluster.loki, outside)
    if item.connector == CLOUDWATCH and cluster.cloudwatch is not None:
        return cloudwatch_connector(cluster, cluster.cloudwatch, outside)
    if item.connector == POD_LOGS and cluster.pod_logs is not None:
        return pod_logs_connector(cluster, cluster.pod_logs, outside)
    raise SourceNotConfiguredError(f"cluster {name}: no {item.connector} in sources.yaml")


def slurm_connector(cluster: Cluster, outside: Outside) -> SlurmConnector:
    """Return the Slurm connector of a cluster; raises `SourceNotConfiguredError`."""
    settings = cluster.slurm
    if settings is None:
        raise SourceNotConfiguredError(f"cluster {cluster.name}: no slurm in sources.yaml")
    make: Callable[[Allowance], SlurmBackend]
    if isinstance(settings, SlurmCommands):
        commands = settings
        environment = {} if commands.conf is None else {"SLURM_CONF": commands.conf}
        runner = outside.commands(environment)
        target = f"{cluster.name}: {commands.sacct}, {commands.scontrol}"

        def make(allowance: Allowance) -> SlurmBackend:
            return SlurmPrograms(commands, runner, allowance, cluster.name)
    else:
        rest = settings
        target = f"{cluster.name}: {rest.url}"

        def make(allowance: Allowance) -> SlurmBackend:
            client = http_client(rest, _slurm_headers(rest, outside), outside)
            source = HttpSource(client, f"slurmrestd {rest.url}", allowance, outside.pause)
            return SlurmService(source, cluster.name, rest.versions)

    return SlurmConnector(
        cluster.name, target, make, clock=outside.clock, pause=outside.pause, budget=cluster.budget
    )


def files_connector(cluster: Cluster, settings: FileSource, outside: Outside) -> FilesConnector:
    """Return the connector of one entry of `files`."""
    store: FileStore
    if not settings.root.startswith("s3://"):
        store = LocalFiles(Path(settings.root))
    elif outside.buckets is not None:
        store = outside.buckets(settings.root)
    else:
        store = AbsentFiles(settings.root, "no way to S3 from here")
    return FilesConnector(cluster.name, settings, store, outside.clock, outside.pause)


def prometheus_connector(
    cluster: Cluster, settings: PrometheusSource, outside: Outside
) -> PrometheusConnector:
    """Return the Prometheus connector; secrets are read when it first asks."""

    def auth() -> Any:
        if settings.sigv4 is None:
            return None
        if outside.signer is None:
            raise SourceNotConfiguredError(f"{settings.url}: no way to sign for AWS from here")
        return outside.signer(settings.sigv4.region, settings.sigv4.service)

    return PrometheusConnector(
        cluster.name,
        settings,
        outside.clock,
        outside.pause,
        lambda: service_headers(settings, outside),
        auth,
        outside.now,
    )


def loki_connector(cluster: Cluster, settings: LokiSource, outside: Outside) -> LokiConnector:
    """Return the Loki connector; secrets are read when it first asks."""

    def open_source(allowance: Allowance) -> HttpSource:
        headers = {**service_headers(settings, outside), **CATEGORIZE}
        if settings.tenant is not None:
            headers["X-Scope-OrgID"] = settings.tenant
        client = http_client(settings, headers, outside)
        return HttpSource(client, f"loki {settings.url}", allowance, outside.pause)

    return LokiConnector(cluster.name, settings, open_source, outside.clock, outside.now)


def cloudwatch_connector(
    cluster: Cluster, settings: CloudWatchSource, outside: Outside
) -> CloudWatchConnector:
    """Return the CloudWatch Logs connector; raises `SourceNotConfiguredError` without AWS."""
    if outside.logs is None:
        raise SourceNotConfiguredError(f"{cluster.name}: no way to CloudWatch Logs from here")
    if settings.role is None:
        api = outside.logs(settings.region)
    elif outside.logs_as is None:
        raise SourceNotConfiguredError(f"{cluster.name}: no way to take a role from here")
    else:
        api = outside.logs_as(settings.region, settings.role)
    return CloudWatchConnector(cluster.name, settings, api, outside.clock, outside.now)


def service_headers(settings: ServiceEndpoint, outside: Outside) -> dict[str, str]:
    """Return the header that lets us in: bearer, basic or none."""
    if settings.token is not None:
        return {"Authorization": f"Bearer {read_secret(settings.token, outside)}"}
    if settings.user is not None and settings.password is not None:
        word = read_secret(settings.password, outside)
        pair = base64.b64encode(f"{settings.user}:{word}".encode()).decode()
        return {"Authorization": f"Basic {pair}"}
    return {}


def kubernetes_connector(cluster: Cluster, outside: Outside) -> KubernetesConnector:
    """Return the Kubernetes connector of a cluster; raises `SourceNotConfiguredError`."""
    settings = _kubernetes_of(cluster)
    return KubernetesConnector(
        f"{cluster.name}: {settings.kind}",
        _api_maker(settings, outside),
        clock=outside.clock,
        namespaces=settings.namespaces,
        budget=cluster.budget,
    )


def pod_logs_connector(cluster: Cluster, settings: PodLogs, outside: Outside) -> PodLogsConnector:
    """Return the connector of pods' logs, through the cluster's own `kubernetes`."""
    api = _kubernetes_of(cluster)
    target = f"{cluster.name}: {api.kind}"
    return PodLogsConnector(cluster.name, target, settings, _api_maker(api, outside), outside.clock)


def _kubernetes_of(cluster: Cluster) -> KubernetesSource:
    if cluster.kubernetes is None:
        raise SourceNotConfiguredError(f"cluster {cluster.name}: no kubernetes in sources.yaml")
    return cluster.kubernetes


def _api_maker(
    settings: KubernetesSource, outside: Outside
) -> Callable[[Allowance], KubernetesApi]:
    def make(allowance: Allowance) -> KubernetesApi:
        secret = getattr(settings, "token", None)
        token = None if secret is None else read_secret(secret, outside)
        door = open_door(settings, outside.environment, outside.commands, token=token)
        client = door.client(outside.transport)
        what = f"kubernetes {door.url}"
        return KubernetesApi(HttpSource(client, what, allowance, outside.pause))

    return make


def http_client(
    endpoint: HttpEndpoint, headers: Mapping[str, str], outside: Outside
) -> httpx.Client:
    """Return a client for one endpoint. `unix:/path` speaks HTTP over a socket file."""
    transport = outside.transport
    base = endpoint.url
    if base.startswith("unix:"):
        transport = transport or httpx.HTTPTransport(uds=base.removeprefix("unix:"))
        base = "http://localhost"
    return httpx.Client(
        base_url=base,
        headers=dict(headers),
        timeout=httpx.Timeout(endpoint.timeout_s, connect=min(5.0, endpoint.timeout_s)),
        transport=transport,
        verify=endpoint.ca_file or True,
        trust_env=False,
    )


def read_secret(secret: Secret, outside: Outside) -> str:
    """Return a token; raises `SourceNotConfiguredError` where it is not there."""
    if secret.arn is not None:
        where = secret.arn
        if outside.read_arn is None:
            raise SourceNotConfiguredError(f"{where}: no way to AWS from here")
        value = outside.read_arn(where).strip()
    elif secret.env is not None:
        value = outside.environment.get(secret.env, "").strip()
        where = f"environment variable {secret.env}"
    else:
        path = Path(secret.file or "")
        where = str(path)
        try:
            value = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise SourceNotConfiguredError(
                f"{where}: no token can be read ({reason}); put it there or name another file"
            ) from error
    if not value or not value.isascii() or not value.isprintable():
        raise SourceNotConfiguredError(f"{where}: holds no token; put it there, on one line")
    return value


def _slurm_headers(settings: SlurmRest, outside: Outside) -> dict[str, str]:
    headers: dict[str, str] = {}
    if settings.user is not None:
        headers["X-SLURM-USER-NAME"] = settings.user
    if settings.token is not None:
        headers["X-SLURM-USER-TOKEN"] = read_secret(settings.token, outside)
    return headers
