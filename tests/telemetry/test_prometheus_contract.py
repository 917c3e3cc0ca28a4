"""The Prometheus connector keeps to the contract, over a server with faults."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_fake import FakeServer

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import SECRET, ConnectorContract

from connectors.protocol import Collected
from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from connectors.telemetry.prometheus import METRICS
from connectors.telemetry.promql import halves, quoted, sample_lines, selector, stretches
from engine.model.plan import PlanItem, Window
from engine.model.workload import Workload

NAMES = ("mem_bytes", "temp_celsius", "xid")
WINDOW = Window(name="tail", start="2026-01-01T00:00:00Z", end="2026-01-01T00:20:00Z")
NOW = datetime(2026, 2, 1, tzinfo=UTC)


def matrix(name):
    values = [[1_767_225_600, "1"], [1_767_225_615.5, "2"]]
    result = [{"metric": {"__name__": name, "instance": "n1:9100"}, "values": values}]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def ok(text):
    return 200, {}, text.encode()


def server(fault=None):
    def answer(path, params, headers):
        query = params.get("query", "")
        if fault == "refused":
            return 401, {}, b"who are you"
        name = next((each for each in NAMES if f'__name__="{each}"' in query), None)
        if name == "temp_celsius" and fault == "one_absent":
            return 404, {}, b"no such series here"
        if name == "temp_celsius" and fault == "one_busy":
            return 503, {"Retry-After": "0"}, b"later"
        if name is None:
            found = [{"metric": {"__name__": each}, "value": [1, "1"]} for each in NAMES]
            data = {"resultType": "vector", "result": found}
            return ok(json.dumps({"status": "success", "data": data}))
        return ok(matrix(name))

    return FakeServer(answer)


def connector(url, more=""):
    settings = f"{{url: '{url}', token: {{env: T}}{more}}}"
    text = f"version: 1\nclusters: [{{name: a, prometheus: {settings}}}]"
    site = read_site(text.encode(), shown="sources.yaml")
    outside = Outside(environment={"T": SECRET}, pause=lambda seconds: None, now=lambda: NOW)
    return build_connectors(site, outside)[0]


class TestPrometheus(ConnectorContract):
    def make(self, fault):
        if fault == "down":
            return connector("http://127.0.0.1:9")
        self.running.append(server(fault))
        return connector(self.running[-1].url)

    def workload(self):
        return Workload(scheduler="slurm", job_id="7", nodes=("n1",))

    def item(self, **changes):
        query = {METRICS: json.dumps([{"metric": name} for name in NAMES])}
        return super().item(query=query, windows=(WINDOW,), **changes)


@pytest.fixture
def run():
    running = []

    def reading(answer, more=""):
        fake = FakeServer(answer)
        running.append(fake)
        query = {METRICS: json.dumps([{"metric": "xid", "node_label": "Hostname"}])}
        item = PlanItem(item_id="i", connector="c", shard="s", query=query, windows=(WINDOW,))
        job = Workload(scheduler="slurm", job_id="7", nodes=("n1", "n2"))
        collected = Collected()
        streams = connector(fake.url, more).open_streams(item, job, collected)
        return fake, collected, {each.label.uri: each.read(10_000) for each in streams}

    yield reading
    for each in running:
        each.stop()


def test_a_site_s_own_labels_become_the_rules_own(run):
    result = [
        {"metric": {"__name__": "xid", "k8s_node": "n1.example", "instance": "10.0.0.1:9400"},
         "values": [[1_767_225_600, "79"]]}
    ]  # fmt: skip
    body = json.dumps({"data": {"resultType": "matrix", "result": result}})
    fake, _, streams = run(
        lambda path, params, headers: ok(body),
        ", labels: {Hostname: k8s_node}, matchers: {cluster: a}",
    )
    assert fake.requests[0][1]["query"] == (
        r'{__name__="xid",cluster="a",k8s_node=~"(?:n1|n2)([.:].*)?"}[1200s]'
    )
    assert fake.requests[0][1]["time"] == "1767226800"
    assert streams["prometheus/xid"] == (
        b'xid{Hostname="n1",instance="10.0.0.1:9400"} 79 1767225600000\n'
    )


def test_a_redirect_is_not_followed_so_that_the_token_goes_nowhere_else(run):
    answer = (302, {"Location": "http://127.0.0.1:9/"}, b"")
    fake, collected, streams = run(lambda path, params, headers: answer)
    assert streams == {}
    assert collected.paths_missing == ["prometheus/xid"]
    assert "HTTP 302" in collected.warnings[0]
    assert fake.requests[0][2]["authorization"] == f"Bearer {SECRET}"


def test_too_many_samples_are_asked_for_in_halves(run):
    def answer(path, params, headers):
        if "[1200s]" in params["query"]:
            error = {"status": "error", "errorType": "execution", "error": "too many samples"}
            return 422, {}, json.dumps(error).encode()
        return ok(matrix("xid").replace("instance", "Hostname").replace("n1:9100", "n1"))

    fake, _, streams = run(answer)
    asked = [params["query"].rpartition("[")[2] for _, params, _ in fake.requests]
    assert asked[:3] == ["1200s]", "600s]", "600s]"]
    assert streams["prometheus/xid"].count(b"\n") == 2


def test_an_answer_that_is_no_json_is_told_and_nothing_is_healthy_by_it(run):
    _, collected, streams = run(lambda path, params, headers: ok("<html>login</html>"))
    assert streams == {}
    assert "no JSON" in collected.warnings[0]
    assert collected.coverage == "unverified"


def test_strings_and_names_are_quoted_for_go():
    assert quoted('a"b\\c\nd') == r'"a\"b\\c\nd"'
    chosen = selector(["up"], equal={}, node_label="node", nodes=["n.1", 'x"}'], suffix="")
    assert chosen == r'{__name__="up",node=~"(?:n\\.1|x\"\\})"}'


def test_samples_of_the_same_moment_are_told_once_and_in_order():
    result = [
        {"metric": {"__name__": "m"}, "values": [[2, "b"], [1, "a"]]},
        {"metric": {"__name__": "m"}, "values": [[2, "b"]]},
    ]
    assert sample_lines(result, {}) == {"m{}": ["m{} a 1000", "m{} b 2000"]}


def test_a_long_window_is_coarse_first_and_whole_at_its_end():
    coarse, raw = stretches(0, 100_000, raw_s=10_000)
    assert (coarse.start_s, coarse.end_s, coarse.step_s) == (0, 89_999, 45)
    assert (raw.start_s, raw.end_s, raw.step_s) == (90_000, 100_000, 0)
    assert [(each.start_s, each.end_s) for each in halves(raw)] == [
        (90_000, 95_000),
        (95_000, 100_000),
    ]
