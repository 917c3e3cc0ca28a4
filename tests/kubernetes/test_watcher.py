"""The watcher as a process of its own, between the contract server and the bus."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from apiserver import TOKEN, condition, pod, serving

from connectors.schedulers import parse_event
from engine.model.identity import attempt_key
from functions.adapters.results_query import ResultsQuery
from rootrank.embedded.gateway import open_gateway
from rootrank.embedded.stack import open_stack

ROOT = Path(__file__).parents[2]
SLURM, KUBERNETES = str(ROOT / "infra/slurm"), str(ROOT / "infra/kubernetes")


def died(code, at):
    return {
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at}}}
        ]
    }


def job(name="sft", *conditions, **labels):
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": labels},
        "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": list(conditions)},
    }  # fmt: skip


def workload(*conditions):
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
        "metadata": {"name": "job-sft-1a2b", "namespace": "ml", "uid": "uid-w",
                     "ownerReferences": [{"kind": "Job", "name": "sft", "uid": "uid-sft"}]},
        "status": {"conditions": list(conditions)},
    }  # fmt: skip


FAILED = condition("Failed", "2026-01-01T01:00:00Z", reason="BackoffLimitExceeded")


@contextmanager
def watcher(tmp_path, server, endpoint):
    config = tmp_path / "config"
    server.needs_token = False
    config.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{server.url}'}}}}]\n"
        f"users: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
    )
    environment = {
        "PYTHONPATH": os.pathsep.join((str(ROOT), SLURM, KUBERNETES)),
        "KUBECONFIG": str(config), "ROOTRANK_CLUSTER": "eks-a", "ROOTRANK_ENDPOINT": endpoint,
        "ROOTRANK_SPOOL": str(tmp_path / "spool"), "AWS_ACCESS_KEY_ID": "x", "PATH": os.defpath,
        "AWS_SECRET_ACCESS_KEY": "x",
    }  # fmt: skip
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "rootrank_watch"], env=environment, stderr=log
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def wait_for(is_so, seconds=30):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def watches(server):
    return sum("watch=true" in path for path in server.seen)


def test_a_failed_job_is_told_with_nodes_ranks_and_exit_though_its_pods_are_gone(tmp_path):
    events = []
    with serving() as server, open_gateway(events.append) as gateway:
        place = "aws:///eu-west-1a/i-0123456789abcdef0"
        server.put("nodes", {"metadata": {"name": "n2"}, "spec": {"providerID": place}})
        server.put("jobs", job())
        with watcher(tmp_path, server, gateway.endpoint):
            wait_for(lambda: watches(server) >= 4)
            server.put("pods", pod("sft-1", "n2", **died(137, "2026-01-01T00:59:00Z")))
            server.put("pods", pod("sft-0", "n1", **died(1, "2026-01-01T00:59:30Z")))
            server.delete("pods", "sft-0", "ml")
            server.delete("pods", "sft-1", "ml")
            time.sleep(1.0)  # the watches of pods and jobs are apart: order between them is none
            server.put("jobs", job("sft", FAILED))
            wait_for(lambda: events)
    scoped = parse_event(events[0])
    told = scoped.workload
    assert attempt_key(told) == "ml/eks-a/kubernetes/sft/t1767225600"
    assert (told.state, told.exit_code, told.nodes) == ("Failed", "137", ("n1", "n2"))
    assert [(each.rank, each.node) for each in told.ranks] == [(0, "n1"), (1, "n2")]
    assert scoped.instance_ids == {"n2": "i-0123456789abcdef0"}
    assert "BackoffLimitExceeded" in scoped.record
    assert TOKEN not in scoped.record


def test_nothing_is_lost_or_told_twice_over_a_restart_and_a_bus_that_is_away(tmp_path):
    events = []
    with serving() as server:
        server.put("jobs", job("sft", FAILED))
        with watcher(tmp_path, server, "http://127.0.0.1:1/"):
            wait_for(lambda: list((tmp_path / "spool/new").glob("*.json")))
            wait_for((tmp_path / "spool/watch.json").exists)
        with (
            open_gateway(events.append) as gateway,
            watcher(tmp_path, server, gateway.endpoint),
        ):
            wait_for(lambda: events)
            server.put("jobs", job("other", FAILED))
            wait_for(lambda: len(events) > 1)
    assert [each["detail"]["workload"]["job_id"] for each in events] == ["sft", "other"]


def asking(item, signal="hang"):
    item["metadata"]["annotations"] = {"rootrank.io/attribution-requested": signal}
    return item


def test_what_the_watcher_tells_becomes_a_verdict_while_the_job_runs_and_after_it(tmp_path):
    (tmp_path / "state").mkdir()
    with (
        open_stack(tmp_path / "state") as stack,
        serving() as server,
        open_gateway(stack.put_event) as gateway,
        watcher(tmp_path, server, gateway.endpoint),
    ):
        query = ResultsQuery(stack.client("dynamodb"), stack.resources.table)
        server.put("pods", pod("sft-0", "n1"))
        server.put("jobs", asking(job("sft")))

        def current():
            stack.settle(120)
            return query.current("ml/eks-a/kubernetes/sft/t1767225600") or {}

        wait_for(lambda: current().get("terminal_state") == "hung", 120)
        server.put("jobs", asking(job("sft", FAILED)))
        wait_for(lambda: current().get("terminal_state") == "failed", 120)


def test_the_manifest_may_read_what_is_watched_and_nothing_else():
    import yaml
    from rootrank_watch.watching import KINDS

    from connectors.schedulers.kubernetes_api import RESOURCES

    manifest = yaml.safe_load_all((ROOT / "infra/kubernetes/watcher.yaml").read_text())
    role = next(each for each in manifest if each["kind"] == "ClusterRole")
    may = {
        (group, resource)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert may == {(RESOURCES[kind][0], RESOURCES[kind][2]) for kind in KINDS}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}


def test_a_missing_setting_is_named():
    environment = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-m", "rootrank_watch"], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"ROOTRANK_CLUSTER is not set" in done.stderr
