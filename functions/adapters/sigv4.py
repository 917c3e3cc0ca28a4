"""Requests signed for AWS (Amazon Managed Prometheus), with the credentials of this process."""

from dataclasses import dataclass

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from requests import PreparedRequest
from requests.auth import AuthBase

from connectors.protocol import SourceNotConfiguredError


@dataclass(slots=True, frozen=True)
class Signer(AuthBase):
    """Signs each request anew, so that credentials may be renewed between two."""

    credentials: Credentials
    region: str
    service: str

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Return the request with its signature.

        AWS signs a space as `%20`; the `+` that requests writes would be read as another text.
        """
        if request.url is not None:
            address, mark, query = request.url.partition("?")
            request.url = address + mark + query.replace("+", "%20")
        signed = AWSRequest(method=request.method, url=request.url, data=request.body or b"")
        SigV4Auth(self.credentials, self.service, self.region).add_auth(signed)
        for name, value in signed.headers.items():
            request.headers[name] = value
        return request


def signer(region: str, service: str) -> Signer:
    """Return a signer; raises `SourceNotConfiguredError` where there are no credentials."""
    credentials = boto3.Session(region_name=region).get_credentials()
    if credentials is None:
        raise SourceNotConfiguredError("no AWS credentials to sign requests with")
    return Signer(credentials, region, service)
