"""What the watcher makes of what it sees: attempts, placement, ranks, ends and requests."""

import pytest
import rootrank_watch.tracker
from apiserver import condition, pod
from rootrank_watch.tracker import Tracker
from test_watcher import FAILED, asking, job, workload

from engine.model.identity import attempt_key
from engine.model.workload import Workload


def details(tracker, *items):
    return [detail for what, item in items for detail in tracker.note(what, item)]


def test_each_admission_of_a_requeued_workload_is_an_attempt_with_its_own_pods():
    tracker = Tracker("eks-a")
    first, second = "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"
    told = details(
        tracker,
        ("ADDED", workload(condition("Admitted", first))),
        ("ADDED", pod("sft-0", "n1")),
        ("MODIFIED", workload(condition("Admitted", "2026-01-01T01:00:00Z", "False"),
                              condition("Evicted", "2026-01-01T01:00:00Z", reason="Preempted"))),
        ("DELETED", pod("sft-0", "n1")),
        ("MODIFIED", workload(condition("Admitted", second), condition("Evicted", first, "False"))),
        ("ADDED", pod("sft-0", "n7")),
        ("MODIFIED", workload(condition("Admitted", second),
                              condition("Finished", "2026-01-01T03:00:00Z", reason="Succeeded"))),
    )  # fmt: skip
    found = [detail["workload"] for detail in told]
    assert [(each["state"], each["start"], each["nodes"]) for each in found] == [
        ("Evicted", first, ["n1"]),
        ("Succeeded", second, ["n7"]),
    ]
    assert {each["scheduler"] for each in found} == {"kueue"}


def test_a_job_that_kueue_queued_is_told_by_its_workload_alone():
    labels = {"kueue.x-k8s.io/queue-name": "gpu"}
    assert details(Tracker("c"), ("ADDED", job("sft", FAILED, **labels))) == []
    assert len(details(Tracker("c", has_kueue=False), ("ADDED", job("sft", FAILED, **labels)))) == 1


def test_an_end_is_told_once_however_often_it_is_seen():
    tracker = Tracker("c")
    seen = [("LISTED", job("sft", FAILED))] * 3
    assert len(details(tracker, *seen)) == 1
    again = Tracker("c")
    again.restore(tracker.state())
    assert details(again, *seen) == []


def labelled(name, node, labels=None, *, devices=0):
    limits = {"nvidia.com/gpu": str(devices)} if devices else {}
    return {
        "kind": "Pod", "metadata": {"name": name, "namespace": "ml", "labels": labels or {}},
        "spec": {"nodeName": node, "containers": [{"resources": {"limits": limits}}]},
        "status": {},
    }  # fmt: skip


def training(kind, name, index, node, devices=1):
    labels = {
        "training.kubeflow.org/job-name": name, "training.kubeflow.org/replica-type": kind,
        "training.kubeflow.org/replica-index": str(index),
    }  # fmt: skip
    return labelled(f"{name}-{kind}-{index}", node, labels, devices=devices)


def finished(kind, name, spec=None):
    return {
        "kind": kind, "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": spec or {},
        "status": {"startTime": "2026-01-01T00:00:00Z", "conditions": [FAILED]},
    }  # fmt: skip


def ranks_told(job, *pods):
    (detail,) = details(Tracker("c"), *(("ADDED", each) for each in pods), ("MODIFIED", job))
    workload = detail["workload"]
    return workload["nodes"], {each["rank"]: each["node"] for each in workload.get("ranks", ())}


MASTER = {"pytorchReplicaSpecs": {"Master": {}, "Worker": {}}}
WORKERS = {"pytorchReplicaSpecs": {"Worker": {}}}


def test_a_master_is_rank_0_and_its_workers_come_after_it():
    pods = [training("worker", "sft", 0, "n2"), training("master", "sft", 0, "n1"),
            training("worker", "sft", 1, "n3")]  # fmt: skip
    nodes, ranks = ranks_told(finished("PyTorchJob", "sft", MASTER), *pods)
    assert nodes == ["n1", "n2", "n3"]
    assert ranks == {0: "n1", 1: "n2", 2: "n3"}


def test_workers_without_a_master_begin_at_rank_0_where_the_job_says_so():
    pods = [training("worker", "sft", number, f"n{number}") for number in (1, 0)]
    assert ranks_told(finished("PyTorchJob", "sft", WORKERS), *pods)[1] == {0: "n0", 1: "n1"}
    assert ranks_told(finished("PyTorchJob", "sft"), *pods) == (["n0", "n1"], {})
    # The master's pod was never seen: the workers are still shifted.
    assert ranks_told(finished("PyTorchJob", "sft", MASTER), *pods)[1] == {1: "n0", 2: "n1"}


def test_pods_of_several_gpus_give_an_order_of_nodes_and_no_ranks():
    pods = [training("worker", "sft", number, f"n{number}", devices=8) for number in (1, 0)]
    assert ranks_told(finished("PyTorchJob", "sft", WORKERS), *pods) == (["n0", "n1"], {})


def test_a_launcher_has_no_rank():
    pods = [training("launcher", "sft", 0, "n9", devices=0), training("worker", "sft", 0, "n1")]
    nodes, ranks = ranks_told(finished("MPIJob", "sft", WORKERS), *pods)
    assert nodes == ["n1", "n9"]
    assert ranks == {0: "n1"}


def set_pod(job, index, node):
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "sft", "batch.kubernetes.io/job-name": f"sft-w-{job}",
        "jobset.sigs.k8s.io/job-global-index": str(job),
        "batch.kubernetes.io/job-completion-index": str(index),
    }  # fmt: skip
    return labelled(f"sft-w-{job}-{index}", node, labels)


def test_of_several_jobs_in_a_set_only_the_nodes_order_is_told():
    several = [set_pod(1, 0, "n3"), set_pod(0, 1, "n2"), set_pod(0, 0, "n1")]
    assert ranks_told(finished("JobSet", "sft"), *several) == (["n1", "n2", "n3"], {})
    assert ranks_told(finished("JobSet", "sft"), *several[1:])[1] == {0: "n1", 1: "n2"}


def owned(item, kind, name):
    item["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": f"uid-{name}"}]
    return item


def test_what_a_job_made_is_no_attempt_of_its_own():
    told = details(
        Tracker("c"),
        ("ADDED", owned(job("sft-w-0", FAILED), "JobSet", "sft")),
        ("ADDED", owned(finished("JobSet", "sft"), "TrainJob", "sft")),
        ("ADDED", finished("TrainJob", "sft")),
        ("ADDED", owned(job("nightly-1", FAILED), "CronJob", "nightly")),
    )
    assert [each["workload"]["job_id"] for each in told] == ["sft", "nightly-1"]


def test_a_jobs_own_limit_is_told_as_such():
    end = condition("Failed", "2026-01-01T01:00:00Z", reason="DeadlineExceeded")
    (detail,) = details(Tracker("c"), ("ADDED", job("sft", end)))
    assert detail["workload"]["state"] == "DeadlineExceeded"


@pytest.mark.parametrize(
    ("spec", "limit"),
    [
        ({"activeDeadlineSeconds": 3600}, "3600"),
        ({"runPolicy": {"activeDeadlineSeconds": 60}}, "60"),
        ({"maximumExecutionTimeSeconds": 7200}, "7200"),
        ({"activeDeadlineSeconds": "soon"}, None),
    ],
)
def test_a_time_limit_of_the_specification_is_told(spec, limit):
    (detail,) = details(Tracker("c"), ("ADDED", {**job("sft", FAILED), "spec": spec}))
    assert detail["workload"].get("time_limit") == limit


def test_pods_of_a_ray_cluster_belong_to_its_job():
    by_name = {"ray.io/cluster": "x", "ray.io/originated-from-cr-name": "rl"}
    pods = [labelled("h", "n1", {"ray.io/cluster": "rl-abc"}), labelled("w", "n2", by_name)]
    ray = {
        "kind": "RayJob", "metadata": {"name": "rl", "namespace": "ml", "uid": "u"},
        "status": {"jobStatus": "RUNNING", "rayClusterName": "rl-abc",
                   "startTime": "2026-01-01T00:00:00Z"},
    }  # fmt: skip
    ended = {
        **ray,
        "status": {**ray["status"], "jobStatus": "FAILED", "endTime": "2026-01-01T01:00:00Z"},
    }
    told = details(
        Tracker("c"), ("ADDED", ray), *(("ADDED", each) for each in pods), ("MODIFIED", ended)
    )
    assert told[0]["workload"]["nodes"] == ["n1", "n2"]


def test_pods_that_belong_to_no_job_are_not_kept():
    tracker = Tracker("c")
    details(tracker, ("ADDED", owned(labelled("web-1", "n1"), "ReplicaSet", "web")))
    details(tracker, ("ADDED", owned(labelled("hp-0", "n1"), "HyperPodPyTorchJob", "hp")))
    assert list(tracker.placements) == ["ml/hp"]


def member(index, node, code=None, *, at=("00:00:00", ""), place="state"):
    labels = {
        "leaderworkerset.sigs.k8s.io/name": "lws", "leaderworkerset.sigs.k8s.io/group-index": "1",
        "leaderworkerset.sigs.k8s.io/worker-index": str(index),
    }  # fmt: skip
    made = labelled(f"lws-1-{index}", node, labels)
    if code is not None:
        begun, ended = (f"2026-01-01T{each}Z" for each in at)
        died = {"exitCode": code, "startedAt": begun, "finishedAt": ended}
        made["status"] = {"containerStatuses": [{place: {"terminated": died}}]}
    return made


def test_a_group_of_a_leaderworkerset_fails_with_its_first_container_and_once_each_life():
    told = details(
        Tracker("c"),
        ("ADDED", member(0, "n1")),
        ("ADDED", member(1, "n2")),
        ("MODIFIED", member(1, "n2", 137, at=("00:00:00", "01:00:00"), place="lastState")),
        ("MODIFIED", member(0, "n1", 1, at=("00:00:00", "01:00:02"))),
        ("ADDED", member(0, "n1")),
        ("MODIFIED", member(0, "n1", 1, at=("01:05:00", "02:00:00"))),
        ("MODIFIED", member(0, "n1", 0, at=("03:00:00", "04:00:00"))),
    )
    found = [each["workload"] for each in told]
    assert [(each["job_id"], each["name"], each["exit_code"]) for each in found] == [
        ("lws-1", "lws", "137"), ("lws-1", "lws", "1"),
    ]  # fmt: skip
    assert [each["start"] for each in found] == ["2026-01-01T00:00:00Z", "2026-01-01T01:05:00Z"]
    assert found[0]["nodes"] == ["n1", "n2"]
    assert [(each["rank"], each["node"]) for each in found[0]["ranks"]] == [(0, "n1"), (1, "n2")]


def test_an_annotation_asks_about_a_running_job_under_the_name_of_its_end():
    tracker = Tracker("c")
    told = details(
        tracker,
        ("ADDED", pod("sft-0", "n1")),
        ("MODIFIED", asking(job("sft"))),
        ("MODIFIED", asking(job("sft"))),
        ("MODIFIED", asking(job("sft"), "nonsense")),
        ("MODIFIED", asking(job("sft", FAILED))),
    )
    assert [each.get("detection_signal") for each in told] == ["hang", None]
    assert [each["workload"]["state"] for each in told] == ["Running", "Failed"]
    assert {attempt_key(Workload.model_validate(each["workload"])) for each in told} == {
        "ml/c/kubernetes/sft/t1767225600"
    }


def test_a_queued_jobs_request_is_about_its_present_admission():
    labels = {"kueue.x-k8s.io/queue-name": "gpu"}
    tracker = Tracker("c")
    early = details(tracker, ("MODIFIED", asking(job("sft", **labels))))
    told = details(
        tracker,
        ("ADDED", workload(condition("Admitted", "2026-01-01T02:00:00Z"))),
        ("MODIFIED", asking(job("sft", **labels))),
        ("MODIFIED", workload(condition("Admitted", "2026-01-01T02:00:00Z"),
                              condition("Finished", "2026-01-01T03:00:00Z", reason="Failed"))),
    )  # fmt: skip
    assert early == []
    assert {attempt_key(Workload.model_validate(each["workload"])) for each in told} == {
        "ml/c/kueue/sft/t1767232800"
    }


def test_an_earlier_releases_state_is_taken_up():
    tracker = Tracker("c")
    old = {"nodes": {"sft-0": "n1"}, "ranks": {"sft-0": 0}, "pods": {}}
    tracker.restore({"placements": {"ml/sft": old}, "told": ["x"]})
    assert tracker.placements["ml/sft"].nodes == {"sft-0": "n1"}


def test_what_nobody_deletes_is_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(rootrank_watch.tracker, "MAX_PLACEMENTS", 2)
    tracker = Tracker("c")
    for number in range(4):
        details(tracker, ("ADDED", pod("sft-0", "n1", job=f"job-{number}")))
    assert list(tracker.placements) == ["ml/job-2", "ml/job-3"]
