"""Where a deployed site file lies, and where its secrets are: S3, SSM, Secrets Manager."""

import boto3
import pytest
from aws_lambda_powertools.utilities import parameters
from moto import mock_aws

from connectors.protocol import SourceNotConfiguredError
from connectors.site import SiteError
from functions.adapters.site_file import configured_site
from functions.adapters.site_sources import read_arn

TEXT = "version: 1\nclusters: [{name: research-a, files: [{root: /a, patterns: ['*']}]}]\n"


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("BUCKET_NAME", "stack-bucket")
    parameters.clear_caches()
    configured_site.cache_clear()
    with mock_aws():
        yield monkeypatch
    configured_site.cache_clear()
    parameters.clear_caches()


def root_of(aws, place):
    aws.setenv("SOURCES", place)
    configured_site.cache_clear()
    return configured_site().cluster("research-a").files[0].root


def test_a_parameter_of_ssm_holds_the_site_file(aws):
    boto3.client("ssm").put_parameter(Name="/rootrank/sources", Value=TEXT, Type="SecureString")
    assert root_of(aws, "ssm:/rootrank/sources") == "/a"


@pytest.mark.parametrize("place", ["site/sources.yaml", "s3://stack-bucket/site/sources.yaml"])
def test_the_stack_s_bucket_holds_the_site_file(aws, place):
    bucket = boto3.client("s3")
    where = {"LocationConstraint": "eu-west-1"}
    bucket.create_bucket(Bucket="stack-bucket", CreateBucketConfiguration=where)
    bucket.put_object(Bucket="stack-bucket", Key="site/sources.yaml", Body=TEXT.encode())
    assert root_of(aws, place) == "/a"


def test_the_environment_overrides_a_deployed_file(aws):
    boto3.client("ssm").put_parameter(Name="/rootrank/sources", Value=TEXT, Type="String")
    aws.setenv("ROOTRANK__RESEARCH_A__FILES__FILES__ROOT", "/b")
    with pytest.raises(SiteError, match="no files there"):
        root_of(aws, "ssm:/rootrank/sources")
    aws.delenv("ROOTRANK__RESEARCH_A__FILES__FILES__ROOT")
    aws.setenv("ROOTRANK__RESEARCH_A__RUNNER", "edge")
    root_of(aws, "ssm:/rootrank/sources")
    assert configured_site().cluster("research-a").runner == "edge"


@pytest.mark.parametrize("place", ["ssm:/rootrank/none", "s3://nowhere/x", "/no/such/file"])
def test_a_file_that_is_not_there_is_told_with_its_place(aws, place):
    with pytest.raises(SiteError, match="cannot be read"):
        root_of(aws, place)


def test_secrets_are_read_by_their_arn(aws):
    made = boto3.client("secretsmanager").create_secret(Name="loki", SecretString="abc")
    assert read_arn(made["ARN"]) == "abc"
    boto3.client("ssm").put_parameter(Name="/rootrank/token", Value="def", Type="SecureString")
    assert read_arn("arn:aws:ssm:eu-west-1:123456789012:parameter/rootrank/token") == "def"


def test_a_secret_that_may_not_be_read_is_not_configured(aws):
    with pytest.raises(SourceNotConfiguredError, match="allow its role to"):
        read_arn("arn:aws:secretsmanager:eu-west-1:123456789012:secret:none-AbCdEf")
