"""The site's `sources.yaml`, where one is configured: a local file, S3 or a parameter of SSM.

The connectors themselves are imported where one is made: most items need none of them, and their
HTTP clients are a third of a cold start.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import boto3

from connectors.protocol import (
    ByteStream,
    Collected,
    Connector,
    ConnectorError,
    SourceNotConfiguredError,
)
from connectors.site import Site, SiteError, load_site, read_site
from connectors.telemetry.settings import CLUSTER
from engine.extract.redact import Redactor
from engine.model.plan import PlanItem
from engine.model.workload import Workload
from functions.adapters.cloudwatch_logs import open_logs, open_logs_as
from functions.adapters.faults import AWS_ERRORS, error_code
from functions.adapters.s3_files import open_bucket
from functions.adapters.sigv4 import signer

if TYPE_CHECKING:
    from connectors.registry import Outside

VARIABLE: Final = "SOURCES"
"""The environment variable: a path, `s3://bucket/key`, `site/key` of the stack's own bucket, or
`ssm:/name`. Not set: nothing more is read."""
_OWN: Final = "site/"
_SSM: Final = "ssm:"


@cache
def configured_site() -> Site | None:
    """Return the site that the environment names, once a process; raises `SiteError`."""
    place = os.environ.get(VARIABLE, "")
    if not place:
        return None
    if place.startswith(_OWN):
        place = f"s3://{os.environ.get('BUCKET_NAME', '')}/{place}"
    if place.startswith(_SSM):
        return read_site(_parameter(place.removeprefix(_SSM)), shown=place, environment=os.environ)
    if not place.startswith("s3://"):
        return load_site(Path(place), os.environ)
    bucket, _, key = place.removeprefix("s3://").partition("/")
    try:
        body = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except AWS_ERRORS as error:
        raise SiteError(f"{place}: cannot be read ({error_code(error)})") from error
    return read_site(body, shown=place, environment=os.environ)


def _parameter(name: str) -> bytes:
    from aws_lambda_powertools.utilities import parameters  # noqa: PLC0415  few sites need it

    try:
        return str(parameters.get_parameter(name, decrypt=True)).encode()
    except parameters.exceptions.GetParameterError as error:
        raise SiteError(f"{_SSM}{name}: cannot be read ({error})"[:500]) from error


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

    read: Callable[[], Site | None] = configured_site
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


def site_redactor() -> Redactor:
    """Return the redactor of the configured site.

    Raises `SiteError` where the file cannot be read: what a site wants masked is never stored
    because its wish is not known.
    """
    site = configured_site()
    return Redactor() if site is None else redactor_of(site)


def redactor_of(site: Site) -> Redactor:
    """Return a site's redactor."""
    wanted = site.redaction
    return Redactor(wanted.patterns, emails=wanted.emails, home_paths=wanted.home_paths)
