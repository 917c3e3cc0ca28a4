"""The query function as it is deployed: what it may do, and that it answers an address's event."""

import base64
import gzip
from typing import Any

import pytest
from web_samples import Shelf, full

from rootrank.embedded.emulator import LambdaContext
from rootrank.embedded.template import read_template

CONTEXT = LambdaContext("query", 1024, "arn:aws:lambda:eu-west-1:123456789012:function:query")


def event(path: str, query: str = "", **headers: str) -> dict[str, Any]:
    """A function URL's event, payload 2.0."""
    return {
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": query,
        "headers": headers,
        "requestContext": {
            "stage": "$default", "requestId": "1", "accountId": "123456789012",
            "http": {"method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "::1"},
        },
        "isBase64Encoded": False,
    }  # fmt: skip


@pytest.fixture
def query(aws: Shelf, monkeypatch: pytest.MonkeyPatch) -> Any:
    from functions.adapters.services import connect

    monkeypatch.setenv("BUCKET_NAME", aws.bucket)
    monkeypatch.setenv("TABLE_NAME", aws.table)
    monkeypatch.setenv("TOPIC_ARN", "arn:aws:sns:eu-west-1:123456789012:topic")
    connect.cache_clear()
    from functions.query.handler import query as handler

    yield handler
    connect.cache_clear()


def test_the_function_answers_pages_and_packs_them_where_the_browser_can_unpack(
    aws: Shelf, query: Any
) -> None:
    key = aws.put(full("900"))
    plain = query(event(f"/attempts/{key}"), CONTEXT)
    assert plain["statusCode"] == 200
    assert "A GPU has fallen off the bus" in plain["body"]
    packed = query(event(f"/attempts/{key}", **{"accept-encoding": "gzip, br"}), CONTEXT)
    assert packed["headers"]["Content-Encoding"] == "gzip"
    body = gzip.decompress(base64.b64decode(packed["body"])).decode()
    assert "A GPU has fallen off the bus" in body
    assert "rootrank show team-a/research/slurm/900/r0" in body
    assert query(event("/nowhere"), CONTEXT)["statusCode"] == 404


def test_a_function_that_may_not_read_says_so_and_not_what(
    aws: Shelf, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functions.adapters.services import connect

    monkeypatch.setenv("TABLE_NAME", "somebody-elses-table")
    connect.cache_clear()
    answer = query(event("/"), CONTEXT)
    assert answer["statusCode"] == 500
    assert "check the policy" in answer["body"]
    assert "somebody-elses-table" not in answer["body"]


def test_it_exists_only_where_asked_for_never_open_and_may_only_read() -> None:
    template = read_template()
    assert template["Parameters"]["WebView"]["Default"] == "none"
    function = template["Resources"]["QueryFunction"]
    assert function["Condition"] == "HasWebView"
    told = function["Properties"]
    assert told["FunctionUrlConfig"]["AuthType"] == "AWS_IAM"
    actions = set()
    role = template["Resources"]["QueryFunctionRole"]
    assert role["Condition"] == "HasWebView"
    for statement in role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]:
        assert statement["Effect"] == "Allow"
        named = statement["Action"]
        actions |= {named} if isinstance(named, str) else set(named)
    assert actions == {
        "dynamodb:GetItem", "dynamodb:Query", "s3:GetObject", "s3:ListBucket", "ssm:GetParameter",
        "logs:CreateLogStream", "logs:PutLogEvents",
    }  # fmt: skip
    assert template["Outputs"]["WebViewUrl"]["Condition"] == "HasWebView"
