"""A table and a bucket from the template, to put the samples on."""

from collections.abc import Iterator

import boto3
import pytest
from web_samples import Shelf

from rootrank.embedded.stack import open_empty_storage


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """An empty table and bucket, for modules that put their own things there."""
    with open_empty_storage(tmp_path_factory.mktemp("shelf")) as names:
        yield Shelf(boto3.client("dynamodb"), boto3.client("s3"), names.table, names.bucket)
