"""Requests to Amazon Managed Prometheus carry the signature that AWS's own signer makes."""

import json
import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from http_fake import FakeServer
from hypothesis import given
from hypothesis import strategies as st

from connectors.protocol import Collected
from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from connectors.telemetry.prometheus import METRICS
from engine.model.plan import PlanItem, Window
from engine.model.workload import Workload
from functions.adapters.sigv4 import Signer

KEY, SECRET, SESSION = "AKIDEXAMPLE0", "wJalrXUtnFEMI0", "session-token-0"
REGION = "eu-west-1"
PATH = "/workspaces/ws-1/api/v1/query"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)"
    r"/aws4_request, SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


def expected(url, headers, signed_at):
    """Return the signature of AWS's signer for what arrived, at the moment that it names."""
    request = AWSRequest(method="GET", url=url, data=b"")
    auth = SigV4Auth(Credentials(KEY, SECRET, SESSION), "aps", REGION)
    request.context["timestamp"] = signed_at
    request.headers["X-Amz-Date"] = signed_at
    request.headers["X-Amz-Security-Token"] = headers["x-amz-security-token"]
    text = auth.string_to_sign(request, auth.canonical_request(request))
    return auth.signature(text, request)


class Verifying(FakeServer):
    """Answers only what is signed as AWS would sign it, for the raw address that arrived."""

    def __init__(self):
        self.refused = []
        super().__init__(self.answer)

    def answer(self, path, params, headers):
        fault = self.fault(path, params, headers)
        if fault:
            self.refused.append(fault)
            return 403, {}, json.dumps({"message": fault}).encode()
        result = [{"metric": {"__name__": "xid", "Hostname": "n1"}, "values": [[1767225600, "79"]]}]
        body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
        return 200, {}, json.dumps(body).encode()

    def fault(self, path, params, headers):
        match = _AUTHORIZATION.fullmatch(headers.get("authorization", ""))
        if not match:
            return "Missing Authentication Token"
        if (match["key"], match["region"], match["service"]) != (KEY, REGION, "aps"):
            return "credential scope"
        if not {"host", "x-amz-date", "x-amz-security-token"} <= set(match["signed"].split(";")):
            return "signed headers"
        query = "&".join(f"{quote(k, safe='')}={quote(v, safe='')}" for k, v in params.items())
        url = f"http://{headers['host']}{path}?{query}"
        if match["signature"] != expected(url, headers, headers["x-amz-date"]):
            return "SignatureDoesNotMatch"
        return ""


@pytest.fixture
def server():
    running = Verifying()
    yield running
    running.stop()


def fetched(server, *, secret=SECRET, nodes=("n1",)):
    site = read_site(
        f"""\
version: 1
clusters:
  - name: a
    prometheus:
      url: {server.url}/workspaces/ws-1
      sigv4: {{region: {REGION}}}
""".encode(),
        shown="sources.yaml",
    )
    outside = Outside(
        pause=lambda seconds: None,
        signer=lambda region, service: Signer(Credentials(KEY, secret, SESSION), region, service),
        now=lambda: datetime(2026, 2, 1, tzinfo=UTC),
    )
    (connector,) = build_connectors(site, outside)
    query = {METRICS: json.dumps([{"metric": "xid", "node_label": "Hostname"}])}
    window = Window(name="tail", start="2026-01-01T00:00:00Z", end="2026-01-01T12:00:00Z")
    item = PlanItem(item_id="i", connector="c", shard="s", query=query, windows=(window,))
    job = Workload(scheduler="slurm", job_id="7", nodes=nodes)
    collected = Collected()
    streams = connector.open_streams(item, job, collected)
    return {each.label.uri: each.read(10_000) for each in streams}, collected


@pytest.mark.parametrize("nodes", [("n1",), ("n1", "gpu node+1", "n~2/é", "a=b&c")])
def test_a_server_that_verifies_signatures_answers_us(server, nodes):
    streams, _ = fetched(server, nodes=nodes)
    assert server.refused == []
    assert list(streams) == ["prometheus/xid"]
    assert {path for path, _, _ in server.requests} == {PATH, f"{PATH}_range"}


def test_the_wrong_key_is_refused_and_no_part_of_it_is_told(server):
    streams, collected = fetched(server, secret="some-other-key")
    assert streams == {}
    assert set(server.refused) == {"SignatureDoesNotMatch"}
    told = " ".join(collected.warnings)
    assert "HTTP 403" in told
    assert "some-other-key" not in told
    assert SESSION not in told


TEXT = st.text(
    st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=40
)


@given(query=TEXT, label=TEXT)
def test_any_query_is_signed_as_the_address_that_goes_over_the_wire(query, label):
    prepared = requests.Request(
        "GET", f"https://aps.example{PATH}", params={"query": query, "time": label}
    ).prepare()
    signed = Signer(Credentials(KEY, SECRET, SESSION), REGION, "aps")(prepared)
    given_signature = signed.headers["Authorization"].rpartition("=")[2]
    headers = {key.lower(): value for key, value in signed.headers.items()}
    assert given_signature == expected(signed.url, headers, headers["x-amz-date"])
    assert dict(parse_qsl(urlsplit(signed.url).query)).get("query", "") == query
