"""The site's `sources.yaml`, where one is configured: a local file, S3 or a parameter of SSM.

What reads the file is imported where there is one: a cold start of admission without a site file
pays for neither YAML nor the models of its sources.
"""

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import boto3

from engine.extract.redact import Redactor
from functions.adapters.faults import AWS_ERRORS, error_code

if TYPE_CHECKING:
    from connectors.site import Site

VARIABLE: Final = "SOURCES"
"""The environment variable: a path, `s3://bucket/key`, `site/key` of the stack's own bucket, or
`ssm:/name`. Not set: nothing more is read."""
_OWN: Final = "site/"
_SSM: Final = "ssm:"


@cache
def configured_site() -> "Site | None":
    """Return the site that the environment names, once a process; raises `SiteError`."""
    place = os.environ.get(VARIABLE, "")
    return _read(place) if place else None


def _read(place: str) -> "Site":
    from connectors.site import SiteError, load_site, read_site  # noqa: PLC0415  see the top

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

    from connectors.site import SiteError  # noqa: PLC0415  see the top

    try:
        return str(parameters.get_parameter(name, decrypt=True)).encode()
    except parameters.exceptions.GetParameterError as error:
        raise SiteError(f"{_SSM}{name}: cannot be read ({error})"[:500]) from error


def site_redactor() -> Redactor:
    """Return the redactor of the configured site.

    Raises `SiteError` where the file cannot be read: what a site wants masked is never stored
    because its wish is not known.
    """
    site = configured_site()
    return Redactor() if site is None else redactor_of(site)


def redactor_of(site: "Site") -> Redactor:
    """Return a site's redactor."""
    wanted = site.redaction
    return Redactor(wanted.patterns, emails=wanted.emails, home_paths=wanted.home_paths)
