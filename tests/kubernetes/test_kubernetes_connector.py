"""The Kubernetes connector against the contract server, at its best and at its worst."""

import json

import pytest
from apiserver import TOKEN, Fault, condition, pod, serving
from connector_contract import ConnectorContract

from connectors.allowance import Allowance
from connectors.http_source import HttpSource
from connectors.protocol import (
    Collected,
    CursorExpiredError,
    SourceAbsentError,
    SourceUnreachableError,
    TransientError,
)
from connectors.registry import Outside, build_connectors
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.schedulers.kubernetes_objects import end_of
from connectors.site import read_site
from engine.model.plan import Budget, PlanItem
from engine.model.workload import Workload

JOB = {
    "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sft", "namespace": "ml"},
    "spec": {"template": {"spec": {"containers": [{"env": [{"value": TOKEN}]}]}}},
    "status": {"startTime": "2026-01-01T00:00:00Z",
               "conditions": [condition("Failed", "2026-01-01T01:00:00Z", reason="Backoff")]},
}  # fmt: skip
WORKLOAD = Workload(scheduler="kubernetes", job_id="sft", namespace="ml", nodes=("n1",))


def fill(server):
    for number in range(3):
        server.put("pods", pod(f"sft-{number}", "n1"))
    server.put("pods", pod("other-0", "n2", job="other"))
    server.put("jobs", json.loads(json.dumps(JOB)))
    server.put("nodes", {"metadata": {"name": "n1"}, "status": {"conditions": []}})
    server.put("nodes", {"metadata": {"name": "n2"}, "status": {"conditions": []}})
    server.put(
        "events",
        {"metadata": {"name": "e1", "namespace": "ml"}, "reason": "BackOff", "type": "Warning",
         "involvedObject": {"kind": "Pod", "name": "sft-0"}},
    )  # fmt: skip


def connector(url, **outside):
    yaml = (
        f"version: 1\nclusters:\n  - name: c\n    kubernetes: {{kind: api, url: '{url}', "
        "token: {env: TOKEN}, timeout_s: 0.5}\n"
    )
    world = Outside(
        environment={"TOKEN": TOKEN}, clock=lambda: 0.0, pause=lambda _s: None, **outside
    )
    return build_connectors(read_site(yaml.encode(), shown="sources.yaml"), world)[0]


@pytest.fixture
def server():
    with serving() as running:
        fill(running)
        yield running


class TestKubernetes(ConnectorContract):
    requests_a_run = 40

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def make(self, fault):
        faults = {
            "refused": [Fault("/", "401", 999)],
            "one_absent": [Fault("/events", "404", 999)],
            "one_busy": [Fault("/events", "503", 999)],
        }
        self.server.faults = faults.get(fault, [])
        return connector("http://127.0.0.1:1" if fault == "down" else self.server.url)

    def workload(self):
        return WORKLOAD


def read(connector):
    collected = Collected()
    item = PlanItem(item_id="i", connector="c", shard="s")
    streams = {}
    error = None
    try:
        for stream in connector.open_streams(item, WORKLOAD, collected):
            streams[stream.label.uri] = json.loads(stream.read(10_000_000))["items"]
    except TransientError as raised:
        error = raised
    return streams, collected, error


def names(items):
    return [each["metadata"]["name"] for each in items]


def test_only_the_jobs_own_objects_are_read_and_no_environment(server):
    streams, _, _ = read(connector(server.url))
    assert names(streams["kubernetes/pods"]) == ["sft-0", "sft-1", "sft-2"]
    assert names(streams["kubernetes/nodes"]) == ["n1"]
    assert names(streams["kubernetes/jobs"]) == ["sft"]
    assert TOKEN not in json.dumps(streams)


def test_lists_of_many_pages_are_whole(server):
    server.page = 1
    streams, _, _ = read(connector(server.url))
    assert len(streams["kubernetes/pods"]) == 3


def test_pages_that_expire_in_the_middle_are_listed_again(server):
    server.page = 2
    server.faults = []
    api_ = api(server)
    real = server.take_fault
    done = []

    def expire(path):
        if len(server.seen) == 2 and not done:
            done.append(1)
            server.put("pods", pod("sft-3", "n1"))
            server.compact()
        return real(path)

    server.take_fault = expire
    assert names(api_.list_items("Pod", "ml").items)[-1] == "sft-3"
    assert len(api_.list_items("Pod", "ml").items) == 5


@pytest.mark.parametrize(
    ("kind", "headers"), [("429", {"Retry-After": "1"}), ("500", {}), ("truncated", {})]
)
def test_what_passes_is_tried_again_and_nothing_is_missing(server, kind, headers):
    server.faults = [Fault("/pods", kind, 2, headers)]
    streams, _, error = read(connector(server.url))
    assert error is None
    assert len(streams["kubernetes/pods"]) == 3


@pytest.mark.parametrize("kind", ["500", "truncated", "slow"])
def test_what_does_not_pass_loses_only_itself(server, kind):
    server.faults = [Fault("/events", kind, 99)]
    streams, _, error = read(connector(server.url))
    assert error is not None
    assert sorted(streams) == ["kubernetes/jobs", "kubernetes/nodes", "kubernetes/pods"]


@pytest.mark.parametrize("kind", ["403", "404", "410"])
def test_a_refusal_of_one_resource_loses_only_itself(server, kind):
    server.faults = [Fault("/events", kind, 99)]
    streams, collected, error = read(connector(server.url))
    assert error is None
    assert collected.paths_missing == ["kubernetes/events"]
    assert sorted(streams) == ["kubernetes/jobs", "kubernetes/nodes", "kubernetes/pods"]


def test_a_huge_answer_loses_only_itself(server):
    source = api(server).source
    source.max_bytes = 1_000_000
    server.faults = [Fault("/pods", "huge", 1)]
    from connectors.http_source import AnswerTooLargeError

    with pytest.raises(AnswerTooLargeError):
        source.get("/api/v1/pods")


def api(server, budget=None):
    import httpx

    client = httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5
    )
    allowance = Allowance(budget or Budget(), lambda: 0.0)
    return KubernetesApi(HttpSource(client, "kubernetes", allowance, lambda _s: None))


def test_a_watch_tells_what_changed_since_the_list_and_ends_with_a_bookmark(server):
    known = api(server)
    listed = known.list_items("Pod", "ml")
    server.put("pods", pod("sft-0", "n1", phase="Failed"))
    server.delete("pods", "sft-1", "ml")
    seen = [
        (what, item["metadata"].get("name"))
        for what, item in known.watch_items("Pod", listed.version, "ml", seconds=1)
    ]
    assert seen == [("MODIFIED", "sft-0"), ("DELETED", "sft-1"), ("BOOKMARK", None)]


def test_a_watch_from_a_version_that_is_gone_says_so(server):
    known = api(server)
    listed = known.list_items("Pod", "ml")
    server.put("pods", pod("sft-9", "n1"))
    server.compact()
    with pytest.raises(CursorExpiredError):
        list(known.watch_items("Pod", listed.version, "ml", seconds=1))


def test_a_watch_that_expires_in_the_middle_says_so_too(server):
    server.faults = [Fault("?watch", "watch-expires", 1)]
    known = api(server)
    listed = known.list_items("Pod", "ml")
    with pytest.raises(CursorExpiredError):
        list(known.watch_items("Pod", listed.version, "ml", seconds=1))


def test_a_watch_that_is_cut_in_an_event_is_no_event(server):
    server.faults = [Fault("?watch", "watch-cut", 1)]
    known = api(server)
    listed = known.list_items("Pod", "ml")
    server.put("pods", pod("sft-9", "n1"))
    with pytest.raises(SourceUnreachableError):
        list(known.watch_items("Pod", listed.version, "ml", seconds=1))


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_the_version_of_kueue_that_is_served_is_used(version):
    with serving(version) as server:
        assert api(server).path("Workload", "ml").startswith(f"/apis/kueue.x-k8s.io/{version}/")


def test_a_kind_that_the_server_does_not_have_is_absent(server):
    with pytest.raises(SourceAbsentError):
        api(server).path("TrainJob")


def workload(*conditions):
    return {"kind": "Workload", "status": {"conditions": list(conditions)}}


def test_a_workload_that_finished_is_over_and_says_how():
    end = end_of(
        workload(
            condition("Admitted", "2026-01-01T00:00:00Z"),
            condition("Finished", "2026-01-01T01:00:00Z", reason="Failed", message="x"),
        )
    )
    assert (end.state, end.start, end.end) == (
        "Failed", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z",
    )  # fmt: skip


def test_a_preempted_workload_is_an_ended_attempt():
    end = end_of(
        workload(
            condition("Admitted", "2026-01-01T01:00:00Z", "False"),
            condition("Evicted", "2026-01-01T01:00:00Z", reason="Preempted"),
        )
    )
    assert (end.state, end.reason, end.start) == ("Evicted", "Preempted", None)


def test_a_workload_beyond_kueues_own_limit_says_so():
    reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
    end = end_of(workload(condition("Evicted", "2026-01-01T01:00:00Z", reason=reason)))
    assert (end.state, end.reason) == ("MaximumExecutionTimeExceeded", reason)


def test_a_slice_of_an_elastic_job_that_was_replaced_ended_nothing():
    end = condition("Finished", "2026-01-01T01:00:00Z", reason="WorkloadSliceReplaced")
    assert end_of(workload(end)) is None


def test_what_runs_or_is_unknown_has_no_end():
    assert end_of(workload(condition("Admitted", "2026-01-01T00:00:00Z"))) is None
    assert end_of({"kind": "Deployment", "status": {"conditions": []}}) is None
    assert end_of({"kind": "Job", "status": None}) is None


@pytest.mark.parametrize(
    ("kind", "status", "state"),
    [
        ("PyTorchJob", {"conditions": [condition("Succeeded", "t")]}, "Succeeded"),
        ("MPIJob", {"conditions": [condition("Failed", "t")]}, "Failed"),
        ("JobSet", {"conditions": [condition("Completed", "t")], "restarts": 2}, "Succeeded"),
        ("TrainJob", {"conditions": [condition("Failed", "t", reason="JobsFailed")]}, "Failed"),
        ("RayJob", {"jobStatus": "STOPPED"}, "Stopped"),
    ],
)
def test_each_kind_of_job_tells_its_end(kind, status, state):
    assert end_of({"kind": kind, "metadata": {}, "status": status}).state == state


def test_a_small_jobs_nodes_are_asked_for_by_name_and_a_large_ones_at_once(server):
    read(connector(server.url))
    asked = [path for path in server.seen if "/nodes" in path]
    assert len(asked) == 1
    assert "metadata.name%3Dn1" in asked[0]
    many = WORKLOAD.model_copy(update={"nodes": tuple(f"n{number}" for number in range(9))})
    item = PlanItem(item_id="i", connector="c", shard="s")
    found = {
        each.label.uri: names(json.loads(each.read(10_000_000))["items"])
        for each in connector(server.url).open_streams(item, many, Collected())
    }
    assert found["kubernetes/nodes"] == ["n1", "n2"]
    assert sum("/nodes" in path for path in server.seen) == 2


def test_the_pods_of_a_rayjobs_cluster_are_its_own(server):
    ray = {"metadata": {"name": "sft", "namespace": "ml"}, "status": {"rayClusterName": "sft-x1"}}
    server.put("rayjobs", ray)
    head = {"metadata": {"name": "head", "namespace": "ml", "labels": {"ray.io/cluster": "sft-x1"}}}
    server.put("pods", head)
    streams, _, _ = read(connector(server.url))
    assert "head" in names(streams["kubernetes/pods"])
    assert [each["kind"] for each in streams["kubernetes/jobs"]] == ["Job", "RayJob"]


def test_a_kind_that_may_not_be_listed_loses_no_other_and_no_pods(server):
    server.faults = [Fault("/rayjobs", "403", 99)]
    streams, collected, error = read(connector(server.url))
    assert error is None
    assert collected.paths_missing == []
    assert len(streams["kubernetes/pods"]) == 3
    assert names(streams["kubernetes/jobs"]) == ["sft"]
