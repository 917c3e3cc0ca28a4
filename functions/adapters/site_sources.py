"""The sources that a site file names, with AWS beneath them.

The connectors themselves are imported where one is made: most items need none of them, and their
HTTP clients are a third of a cold start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3

from connectors.protocol import (
    ByteStream,
    Collected,
    Connector,
    ConnectorError,
    SourceNotConfiguredError,
)
from connectors.telemetry.settings import CLUSTER
from engine.model.plan import PlanItem
from engine.model.workload import Workload
from functions.adapters.faults import AWS_ERRORS
from functions.adapters.site_file import VARIABLE, configured_site

if TYPE_CHECKING:
    from connectors.registry import Outside
    from connectors.site import Site


def read_arn(arn: str) -> str:
    """Return a secret of Secrets Manager, or a parameter of SSM, by its ARN.

    Raises `SourceNotConfiguredError` where it cannot be read; its value is kept for five minutes.
    """
    from aws_lambda_powertools.utilities import parameters  # noqa: PLC0415  few sites need it

    service, region = arn.split(":")[2:4]
    try:
        client: Any = boto3.client(service, region_name=region)  # type: ignore[call-overload]
        if service == "ssm":
            held = parameters.SSMProvider(boto3_client=client)
            return str(held.get(arn, decrypt=True, max_age=300))
        return str(parameters.SecretsProvider(boto3_client=client).get(arn, max_age=300))
    except (parameters.exceptions.GetParameterError, *AWS_ERRORS) as error:
        raise SourceNotConfiguredError(
            f"{arn}: cannot be read; allow its role to ({type(error).__name__})"
        ) from error


def aws_outside() -> "Outside":
    """Return the world with AWS in it: buckets, log groups and signatures."""
    from connectors.registry import Outside  # noqa: PLC0415  see the top
    from functions.adapters.cloudwatch_logs import open_logs, open_logs_as  # noqa: PLC0415
    from functions.adapters.s3_files import open_bucket  # noqa: PLC0415
    from functions.adapters.sigv4 import signer  # noqa: PLC0415

    return Outside(
        buckets=open_bucket,
        signer=signer,
        logs=open_logs,
        logs_as=open_logs_as,
        read_arn=read_arn,
    )


@dataclass(slots=True)
class SiteConnector:
    """Whatever connector an item names, made when it is read: what that raises is its own trouble.

    `read` gives the site, None where there is none.
    """

    read: "Callable[[], Site | None]" = configured_site
    name: str = "site"

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield the streams; raises where the site has no such source."""
        site = self.read()
        if site is None:
            raise SourceNotConfiguredError(f"{VARIABLE} names no sources.yaml")
        from connectors.registry import connector_for  # noqa: PLC0415  see the top

        connector = connector_for(site, item, aws_outside())
        if connector is None:
            raise ConnectorError(f"no connector is named {item.connector!r}")
        yield from connector.open_streams(item, workload, collected)


def site_connector(item: PlanItem) -> Connector:
    """Return the connector of an item of the configured site."""
    return SiteConnector(name=item.connector)


def runner_queue_of(item: PlanItem) -> str:
    """Return the queue of the runners of an item's cluster, empty where the site names none."""
    site = configured_site()
    cluster = None if site is None else site.cluster(item.query.get(CLUSTER, ""))
    return "" if cluster is None else cluster.runner_queue or ""


def source_limit(cluster_name: str, connector: str) -> int | None:
    """Return how many collectors may ask a cluster's source at once, None without a limit."""
    site = configured_site()
    cluster = None if site is None else site.cluster(cluster_name)
    limit = None if cluster is None else getattr(cluster.at_once, connector, None)
    return limit if isinstance(limit, int) else None
