"""Pod logs: all containers, the instance before, what is gone is told."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from http_fake import FakeServer

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import SECRET, ConnectorContract

from connectors.protocol import Collected
from connectors.registry import Outside, build_connectors, connector_for
from connectors.site import SiteError, read_site
from engine.model.plan import PlanItem
from engine.model.workload import Workload
from functions.adapters.rulebook import shipped_rulebook
from functions.scope.planning import windows_of
from functions.scope.telemetry import telemetry_items


def pod(name, *containers, init=()):
    def held(each, restarts=0):
        return {"name": each, "restartCount": restarts,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}  # fmt: skip

    return {
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"nodeName": "n1"},
        "status": {
            "containerStatuses": [held(*each) for each in containers],
            "initContainerStatuses": [held(each) for each in init],
        },
    }


PODS = [pod("sft-0", ("main", 2), ("sidecar",), init=("setup",)), pod("sft-1", ("main",))]


def job():
    return Workload(scheduler="kubernetes", cluster="a", job_id="sft", namespace="ml",
                    nodes=("n1",), start=datetime(2026, 1, 1, tzinfo=UTC),
                    end=datetime(2026, 1, 1, 6, tzinfo=UTC))  # fmt: skip


def server(fault=None, pods=PODS, stamp="2026-01-01T00:00:01.5Z"):
    def answer(path, params, headers):
        if fault == "refused" or headers.get("authorization") != f"Bearer {SECRET}":
            return 403, {}, b"forbidden"
        if path == "/version":
            return 200, {}, b'{"gitVersion": "v1.32.0"}'
        if path == "/api/v1/namespaces/ml/pods":
            given = pods if params.get("labelSelector") == "job-name=sft" else []
            return 200, {}, json.dumps({"apiVersion": "v1", "items": given}).encode()
        if "/sft-1/" in path and fault == "one_absent":
            return 404, {}, b"pods sft-1 not found"
        if "/sft-1/" in path and fault == "one_busy":
            return 500, {"Retry-After": "0"}, b"kubelet does not answer"
        which = "previous" if params.get("previous") else "current"
        text = f"{stamp} {path.split('/')[-2]} {params['container']} {which}\n"
        return 200, {}, text.encode()

    return FakeServer(answer)


def site(url, more="match: {job-name: '{job_id}'}"):
    text = (
        "version: 1\nclusters:\n  - name: a\n    kubernetes:\n"
        f"      {{kind: api, url: '{url}', token: {{env: T}}}}\n    pod_logs: {{{more}}}\n"
    )
    return read_site(text.encode(), shown="sources.yaml")


OUTSIDE = Outside(environment={"T": SECRET}, pause=lambda seconds: None)


def connector(url):
    (found,) = [each for each in build_connectors(site(url), OUTSIDE) if each.name == "pod_logs"]
    return found


class TestPodLogs(ConnectorContract):
    requests_a_run = 2  # the list of pods and one log

    def make(self, fault):
        if fault == "down":
            return connector("http://127.0.0.1:9")
        self.running.append(server(fault))
        return connector(self.running[-1].url)

    def workload(self):
        return job()


@pytest.fixture
def read():
    running = []

    def reading(**more):
        fake = server(**more)
        running.append(fake)
        item = PlanItem(item_id="i", connector="c", shard="s", windows=windows_of(job()))
        collected = Collected()
        streams = connector(fake.url).open_streams(item, job(), collected)
        return fake, collected, {each.label.uri: each.read(10_000) for each in streams}

    yield reading
    for each in running:
        each.stop()


def test_every_container_and_the_instance_before_are_read(read):
    fake, collected, streams = read()
    assert sorted(streams) == [
        "pods/sft-0/main/current",
        "pods/sft-0/main/previous",
        "pods/sft-0/setup/current",
        "pods/sft-0/sidecar/current",
        "pods/sft-1/main/current",
    ]
    assert streams["pods/sft-0/main/previous"].endswith(b"sft-0 main previous\n")
    asked = fake.requests[-1][1]
    assert (asked["timestamps"], asked["sinceTime"]) == ("true", "2025-12-31T23:50:00Z")
    assert collected.warnings == []


def test_pods_that_are_gone_are_unverified_and_point_elsewhere(read):
    _, collected, streams = read(pods=[])
    assert streams == {}
    assert collected.coverage == "unverified"
    assert "a log store has to tell" in collected.warnings[0]


def test_a_log_that_begins_late_may_have_been_rotated_away(read):
    _, collected, _ = read(stamp="2026-01-01T02:00:00Z")
    assert (
        "begins 7200 s after its container; silent until then, or rotated away"
        in (collected.warnings[0])
    )


def test_pod_logs_need_a_way_to_kubernetes():
    with pytest.raises(SiteError, match="read through kubernetes"):
        read_site(b"version: 1\nclusters: [{name: a, pod_logs: {}}]\n", shown="sources.yaml")


def test_every_planned_item_names_a_connector_that_the_site_has():
    text = """\
version: 1
clusters:
  - name: a
    kubernetes: {kind: api, url: 'http://k8s'}
    pod_logs: {}
    files: [{root: /logs, patterns: ['*.log']}]
    prometheus: {url: 'http://prometheus'}
    loki: {url: 'http://loki', streams: [{match: {job: '{job_id}'}}]}
    cloudwatch: {region: eu-west-1, groups: [{name: g, group: /g, streams: ['*']}]}
"""
    found = read_site(text.encode(), shown="sources.yaml")
    items = telemetry_items(
        found.cluster("a"), job(), book=shipped_rulebook(), windows=windows_of(job())
    )
    outside = Outside(logs=lambda region: object())
    made = [connector_for(found, item, outside).name for item in items]
    assert made == [item.connector for item in items]
    assert sorted(set(made)) == ["cloudwatch", "files", "loki", "pod_logs", "prometheus"]
