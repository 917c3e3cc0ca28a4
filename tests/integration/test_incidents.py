"""Jobs that share no node and fail together: one incident, the same from each of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from functions.attribute.handler import attribute
from functions.scope.handler import plan
from rootrank.embedded.emulator import LambdaContext

WORKLOAD = """\
workload: {{scheduler: slurm, cluster: {cluster}, job_id: "{job}", state: FAILED, exit_code: "1:0",
  start: 2026-01-31T10:00:00Z, end: "{end}", nodes: [{node}]}}
evidence:
  - {{path: syslog.log, source: syslog, node: {node}, timezone: UTC}}
  - {{path: app.log, source: applog, node: {node}, timezone: UTC}}
"""
SYSLOG = "2026-01-31T11:50:00+00:00 {node} kernel: nfs: server {server} not responding, timed out\n"
APP = """\
2026-01-31 11:40:00 INFO step 100 loss 2.1
2026-01-31 11:55:00 ERROR checkpoint failed
Traceback (most recent call last):
  File "train.py", line 12, in save
    torch.save(state, path)
OSError: [Errno 5] Input/output error: '/scratch/ckpt/step100.pt'
"""


class Cluster:
    """Jobs of one cluster of the embedded stack that lose an NFS server."""

    def __init__(self, embedded: Any, folder: Path):
        self.embedded = embedded
        self.folder = folder
        self.name = f"c{embedded.job_id}"

    def fail(self, job: str, *, node: str, server: str = "fs01", end: str = "12:00:00") -> str:
        ended = f"2026-01-31T{end}Z"
        bundle = self.folder / job
        bundle.mkdir()
        told = WORKLOAD.format(cluster=self.name, job=job, node=node, end=ended)
        (bundle / "workload.yaml").write_text(told)
        (bundle / "syslog.log").write_text(SYSLOG.format(node=node, server=server))
        (bundle / "app.log").write_text(APP)
        uri = self.embedded.stack.upload_bundle(bundle, f"{self.name}-{job}")
        workload = {
            "scheduler": "slurm", "cluster": self.name, "job_id": job, "state": "FAILED",
            "exit_code": "1:0", "start": "2026-01-31T10:00:00Z", "end": ended,
        }  # fmt: skip
        self.embedded.send(workload, bundle_uri=uri)
        (key,) = [
            each["pk"]
            for each in self.embedded.query.by_job(job)
            if each["pk"].startswith(f"default/{self.name}/") and "attribution_id" in each
        ]
        return str(key)

    def verdict(self, key: str) -> Any:
        return json.loads(self.embedded.verdict(key))


@pytest.fixture
def cluster(embedded: Any, tmp_path: Path) -> Cluster:
    return Cluster(embedded, tmp_path)


def test_jobs_that_lose_one_file_system_together_share_an_incident(cluster: Cluster) -> None:
    first, second, third = (
        cluster.fail("1", node="node-001"),
        cluster.fail("2", node="node-002", end="12:04:00"),
        cluster.fail("3", node="node-003", end="11:57:00"),
    )
    assert cluster.verdict(first)["history"] == {"incident_id": None, "verdicts": []}
    later = cluster.verdict(second)
    assert [each["shared"] for each in later["history"]["verdicts"]] == [["filesystem fs01"]]
    assert "shared_with_other_jobs" in later["quality"]["reasons"]
    last = cluster.verdict(third)
    assert [each["job_id"] for each in last["history"]["verdicts"]] == ["1", "2"]
    assert last["history"]["incident_id"] == later["history"]["incident_id"] is not None


@pytest.mark.parametrize("other", [{"server": "fs02"}, {"end": "12:11:00"}])
def test_another_file_system_or_another_time_is_no_incident(
    cluster: Cluster, other: dict[str, str]
) -> None:
    cluster.fail("1", node="node-001")
    alone = cluster.verdict(cluster.fail("2", node="node-002", **other))
    assert alone["history"] == {"incident_id": None, "verdicts": []}
    assert "shared_with_other_jobs" not in alone["quality"]["reasons"]


def test_a_second_collection_learns_what_failed_alike_meanwhile(cluster: Cluster) -> None:
    first = cluster.fail("1", node="node-001")
    cluster.fail("2", node="node-002", server="fs02")
    second = cluster.fail("3", node="node-003")
    task = {"attempt_key": first, "generation": 1, "collection": 2}
    context = LambdaContext("rootrank", 128, "arn:aws:lambda:::function:rootrank")
    plan(task, context)
    attribute(task, context)
    learned = cluster.verdict(first)["history"]
    assert [each["job_id"] for each in learned["verdicts"]] == ["3"]
    assert learned["incident_id"] == cluster.verdict(second)["history"]["incident_id"]
    assert cluster.embedded.current(first)["revision"] == 2
