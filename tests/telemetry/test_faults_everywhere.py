"""Every HTTP connector behind a network that fails: verdicts, true coverage, bytes counted once.

One failure, told by each source in its own way; the proxy spoils answers in a fixed rhythm.
"""

import json
from datetime import datetime, timedelta
from types import SimpleNamespace

import boto3
import pytest
from botocore.config import Config
from cloudwatch_server import CloudWatchServer
from fault_proxy import FaultProxy
from http_fake import FakeServer
from s3_server import S3Server
from test_coverage_truth import ENDED, NS, XID, judged, state_of

from connectors.registry import Outside
from connectors.site import read_site
from engine.model.plan import Budget
from functions.adapters.cloudwatch_logs import CloudWatchLogs
from functions.adapters.rulebook import shipped_rulebook
from functions.adapters.s3_files import BucketFiles

END_S = ENDED // NS
SECRET = "hunter2-token"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def hasten(seconds):
    """Sleep not at all."""


def stamped(count, last):
    """Return dated lines, the failure the last but one."""
    times = [datetime.fromtimestamp(END_S) - timedelta(seconds=count - n) for n in range(count)]
    lines = [f"{at:%Y-%m-%dT%H:%M:%S}.000000Z usb {n}: device" for n, at in enumerate(times)]
    lines[-2] = lines[-2].partition(" ")[0] + " " + last
    return "".join(f"{line}\n" for line in lines)


class Case:
    """A source with a failure in it: `site` names the address, `outside` the clients for it."""

    source = "syslog"
    failure = "gpu_fallen_off_bus"

    def __init__(self):
        self.server = self.serve()

    def outside(self, url):
        return Outside(environment={"T": SECRET}, pause=hasten)


class OfPrometheus(Case):
    source = "metrics"
    failure = None

    def serve(self):
        def answer(path, params, headers):
            query = params.get("query", "")
            result = []
            if "count by" in query:
                result = [{"metric": {"__name__": "DCGM_FI_DEV_XID_ERRORS"}, "value": [1, "1"]}]
            elif '"DCGM_FI_DEV_XID_ERRORS",Hostname=~' in query and query.endswith("s]"):
                for node, code in (("n1", "79"), ("n2", "0")):
                    values = [[END_S - 600 + 15 * n, code if n > 20 else "0"] for n in range(40)]
                    metric = {"__name__": "DCGM_FI_DEV_XID_ERRORS", "gpu": "0", "Hostname": node}
                    result.append({"metric": metric, "values": values})
            body = {"status": "success", "data": {"resultType": "matrix", "result": result}}
            return 200, {}, json.dumps(body).encode()

        return FakeServer(answer)

    def site(self, url):
        return f"prometheus: {{url: '{url}'}}"


class OfPods(Case):
    source = "applog"
    failure = "cuda_oom"

    def serve(self):
        def pod(name, node):
            running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
            status = [{"name": "main", "restartCount": 0, "state": running}]
            return {
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"nodeName": node},
                "status": {"containerStatuses": status},
            }

        def answer(path, params, headers):
            if path.endswith("/log"):
                return 200, {}, stamped(400, OOM).encode()
            items = [pod("sft-0", "n1"), pod("sft-1", "n2")]
            return 200, {}, json.dumps({"apiVersion": "v1", "items": items}).encode()

        return FakeServer(answer)

    def site(self, url):
        return f"kubernetes: {{kind: api, url: '{url}'}}\n    pod_logs: {{match: {{a: b}}}}"


class OfCloudWatch(Case):
    def serve(self):
        events = [(END_S * 1000 - 600_000 + 100 * n, f"usb {n}: device") for n in range(900)]
        streams = {
            "n1/kernel": [*events, (END_S * 1000 - 2_000, XID)],
            "n2/kernel": [*events, (END_S * 1000 - 1_000, "quiet")],
        }
        return CloudWatchServer({"/g": streams})

    def site(self, url):
        groups = "{name: kernel, group: /g, streams: ['{node}/kernel'], source: syslog}"
        return f"cloudwatch: {{region: eu-west-1, groups: [{groups}]}}"

    def outside(self, url):
        return Outside(
            pause=hasten, logs=lambda region: CloudWatchLogs(self.server.client(url), hasten)
        )


class OfS3(Case):
    def serve(self):
        return S3Server(
            {f"{node}/messages": stamped(9_000, last).encode()
             for node, last in (("n1", XID), ("n2", "quiet"))}
        )  # fmt: skip

    def site(self, url):
        return (
            "files: [{name: kernel, root: 's3://logs', patterns: ['{node}/messages'], "
            "source: syslog, range_bytes: 65536, parallel: 3}]"
        )

    def outside(self, url):
        client = boto3.client(
            "s3", region_name="us-east-1", endpoint_url=url, aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(
                retries={"mode": "standard", "max_attempts": 4}, s3={"addressing_style": "path"},
                read_timeout=10,
            ),
        )  # fmt: skip
        return Outside(pause=hasten, buckets=lambda root: BucketFiles(client, "logs", "", hasten))


CASES = {"prometheus": OfPrometheus, "pod_logs": OfPods, "cloudwatch": OfCloudWatch, "files": OfS3}
RHYTHMS = {
    "latency": ["ok", "slow"],
    "resets": ["ok", "ok", "reset"],
    "half bodies": ["half", "ok", "ok"],
    "429 storm": ["busy", "busy", "ok"],
    "skewed servers": ["behind", "ok", "ahead", "ok", "ok"],
    "5 % errors": [*["ok"] * 19, "error"],
    "all of it": ["reset", "ok", "half", "ok", "busy", "ok", "error", "ok"],
}


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


@pytest.fixture
def behind(monkeypatch):
    # AWS's client sleeps by itself between its tries.
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=hasten))
    running = []

    def start(case, rhythm):
        proxy = FaultProxy(case.server.url, rhythm)
        running.extend([proxy, case.server])
        return proxy

    yield start
    for each in running:
        each.stop()


def run(case, proxy, book, *, name, budget=None):
    site = read_site(
        f"version: 1\nclusters:\n  - name: a\n    {case.site(proxy.url)}\n".encode(), shown="s"
    )
    verdict, reports = judged(
        site, book, outside=case.outside(proxy.url), budget=budget, connectors=(name,)
    )
    return verdict, [each for each in reports if each.connector == name]


@pytest.mark.parametrize("rhythm", RHYTHMS)
@pytest.mark.parametrize("name", CASES)
def test_what_a_retry_cures_changes_neither_verdict_nor_counts(behind, book, name, rhythm):
    case = CASES[name]()
    plain, plain_reports = run(case, behind(case, ["ok"]), book, name=name)
    verdict, reports = run(case, behind(case, RHYTHMS[rhythm]), book, name=name)
    assert state_of(plain, case.source) == state_of(verdict, case.source)
    assert {state for state, _ in state_of(plain, case.source)} <= {"complete", "partial"}
    assert [r.status for r in reports] == [r.status for r in plain_reports]
    assert [(r.lines, r.bytes, r.observations) for r in reports] == [
        (r.lines, r.bytes, r.observations) for r in plain_reports
    ]
    assert verdict.failure_class == plain.failure_class
    if case.failure:
        assert verdict.failure_class == case.failure


@pytest.mark.parametrize("fault", ["reset", "half", "busy", "error"])
@pytest.mark.parametrize("name", CASES)
def test_what_no_retry_cures_still_gives_a_verdict_that_says_so(behind, book, name, fault):
    case = CASES[name]()
    verdict, reports = run(case, behind(case, [fault]), book, name=name)
    assert verdict.domain == "unknown"
    assert {report.status for report in reports} == {"error"}
    assert {report.lines for report in reports} == {0}
    assert {state for state, _ in state_of(verdict, case.source)} <= {"failed", "unverified"}
    assert "culprit" not in {each.role for each in verdict.affected_nodes}


@pytest.mark.parametrize("name", CASES)
def test_budgets_are_kept_to_within_one_answer(behind, book, name):
    case = CASES[name]()
    proxy = behind(case, ["ok"])
    _, whole = run(case, proxy, book, name=name)
    sizes = sum(report.bytes for report in whole)
    few, one_answer = 4_000, 66_000
    verdict, reports = run(case, proxy, book, name=name, budget=Budget(bytes=few))
    assert sizes > few
    assert all(report.bytes <= few + one_answer for report in reports)
    assert {report.status for report in reports} <= {"partial", "empty", "error", "ok"}
    assert "partial" in {report.status for report in reports}
    assert "complete" not in {state for state, _ in state_of(verdict, case.source)}
