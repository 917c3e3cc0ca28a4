"""Paging: however a source cuts its answer, everything comes, and nothing twice.

Entries of Loki and events of CloudWatch Logs: test_loki.py, test_cloudwatch.py.
"""

import boto3
import httpx
import pytest
from botocore.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st
from s3_server import S3Server

from connectors.allowance import Allowance
from connectors.http_source import HttpSource
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.telemetry.promql import Stretch, halves, stretches
from engine.model.plan import Budget
from functions.adapters.s3_files import BucketFiles


@pytest.mark.parametrize("page", [1, 2, 3, 7, 11, 12, 1_000])
def test_any_page_size_lists_every_object_once(page):
    keys = [f"7/rank-{number}.log" for number in range(11)] + ["8/x y&<.log"]
    server = S3Server(dict.fromkeys(keys, b"x"), page=page)
    client = boto3.client(
        "s3", region_name="us-east-1", endpoint_url=server.url, aws_access_key_id="x",
        aws_secret_access_key="x", config=Config(s3={"addressing_style": "path"}),
    )  # fmt: skip
    try:
        found = [each.path for each in BucketFiles(client, "logs", "").list_files("")]
    finally:
        server.stop()
    assert found == sorted(keys)


@given(
    start=st.integers(0, 5_000),
    length=st.integers(1, 5_000),
    times=st.sets(st.integers(0, 10_000_000), max_size=60),
    most=st.integers(2, 20),
)
def test_any_limit_of_samples_gives_every_sample_once(start, length, times, most):
    """A server that refuses more than `most` samples is asked in halves, as the connector does."""
    samples = {at for at in times if start * 1_000 < at <= (start + length) * 1_000}

    def ask(stretch):
        inside = [s for s in samples if stretch.start_s * 1_000 < s <= stretch.end_s * 1_000]
        if len(inside) <= most or stretch.end_s - stretch.start_s < 2:
            return inside
        return [each for half in halves(stretch) for each in ask(half)]

    found = ask(Stretch(start, start + length))
    assert sorted(found) == sorted(samples)


@given(start=st.integers(0, 10_000), length=st.integers(1, 500_000), raw=st.integers(60, 86_400))
def test_coarse_and_whole_stretches_meet_and_do_not_overlap(start, length, raw):
    made = stretches(start, start + length, raw_s=raw)
    assert (made[0].start_s, made[-1].end_s) == (start, start + length)
    assert [each.step_s > 0 for each in made] == [True, False][-len(made) :]
    if len(made) == 2:
        assert made[0].end_s + 1 == made[1].start_s
        assert (made[0].end_s - made[0].start_s) / made[0].step_s <= 2_001


@settings(max_examples=50)
@given(count=st.integers(0, 30), page=st.integers(1, 9), expires_after=st.integers(0, 6))
def test_any_page_size_lists_every_pod_once_also_where_the_pages_expire(count, page, expires_after):
    pods = [{"metadata": {"name": f"p-{number}"}} for number in range(count)]
    asked = []

    def answer(request):
        at = int(request.url.params.get("continue") or 0)
        asked.append(at)
        if at and len(asked) == expires_after:
            return httpx.Response(410, json={"kind": "Status", "reason": "Expired"})
        more = {"continue": str(at + page)} if at + page < count else {}
        body = {"apiVersion": "v1", "kind": "PodList", "metadata": more,
                "items": pods[at : at + page]}  # fmt: skip
        return httpx.Response(200, json=body)

    client = httpx.Client(base_url="http://x", transport=httpx.MockTransport(answer))
    allowance = Allowance(Budget(), lambda: 0.0)
    api = KubernetesApi(HttpSource(client, "kubernetes", allowance, lambda seconds: None))
    found = [each["metadata"]["name"] for each in api.list_items("Pod", "ml").items]
    assert found == [f"p-{number}" for number in range(count)]
    assert allowance.requests == len(asked)
