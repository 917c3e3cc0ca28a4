"""The site's `sources.yaml`, where one is configured: a local file or an object in S3."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import boto3

from connectors.protocol import (
    ByteStream,
    Collected,
    Connector,
    ConnectorError,
    SourceNotConfiguredError,
)
from connectors.registry import Outside, connector_for
from connectors.site import Site, SiteError, load_site, read_site
from engine.extract.redact import Redactor
from engine.model.plan import PlanItem
from engine.model.workload import Workload
from functions.adapters.cloudwatch_logs import open_logs
from functions.adapters.faults import AWS_ERRORS, error_code
from functions.adapters.s3_files import open_bucket
from functions.adapters.sigv4 import signer

VARIABLE: Final = "SOURCES"
"""The environment variable: a path, or `s3://bucket/key`. Not set: nothing more is read."""


@cache
def configured_site() -> Site | None:
    """Return the site that the environment names, once a process; raises `SiteError`."""
    place = os.environ.get(VARIABLE, "")
    if not place:
        return None
    if not place.startswith("s3://"):
        return load_site(Path(place))
    bucket, _, key = place.removeprefix("s3://").partition("/")
    try:
        body = boto3.client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except AWS_ERRORS as error:
        raise SiteError(f"{place}: cannot be read ({error_code(error)})") from error
    return read_site(body, shown=place)


def aws_outside() -> Outside:
    """Return the world with AWS in it: buckets, log groups and signatures."""
    return Outside(buckets=open_bucket, signer=signer, logs=open_logs)


@dataclass(slots=True)
class _Named:
    """A connector of the site, made when it is read: what making it raises is its own trouble."""

    item: PlanItem
    name: str

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield the streams; raises where the site has no such source."""
        site = configured_site()
        if site is None:
            raise SourceNotConfiguredError(f"{VARIABLE} names no sources.yaml")
        connector = connector_for(site, item, aws_outside())
        if connector is None:
            raise ConnectorError(f"no connector is named {item.connector!r}")
        yield from connector.open_streams(item, workload, collected)


def site_connector(item: PlanItem) -> Connector:
    """Return the connector of an item of the configured site."""
    return _Named(item, item.connector)


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
