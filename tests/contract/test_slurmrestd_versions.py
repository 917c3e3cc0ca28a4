"""Every published version of slurmrestd's answers says the same to us; its refusals too."""

import json
from functools import partial

import pytest
from slurmrestd import SECRET, VERSIONS, Fault, Job, Node, serving

from connectors.http_source import HttpSource
from connectors.protocol import (
    Collected,
    MalformedAnswerError,
    SourceBusyError,
    SourceNotConfiguredError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from engine.model.plan import PlanItem
from engine.model.workload import Workload
from tests.unit.reading import facts, read

JOBS = [
    Job(7, "FAILED", code=3, step=("0", 3)),
    Job(8, "FAILED", signal=11),
    Job(9, "OUT_OF_MEMORY", signal=125),
    Job(10, "TIMEOUT", limit=1),
    Job(11, "CANCELLED", killed_by="bob"),
    Job(12, "NODE_FAIL", failed_node="n2"),
    Job(13, "COMPLETED"),
    Job(14, "FAILED", code=1, array=(13_000, 2)),
    Job(15, "FAILED", code=5, het=(15, 0)),
    Job(16, "FAILED", code=5, het=(15, 1), nodes="n9"),
    Job(17, "NODE_FAIL", start=1_760_000_000, end=1_760_000_100, nodes="n1", held=False),
    Job(17, "FAILED", code=1, start=1_760_000_200, end=1_760_000_300, nodes="n3", restarts=1),
    Job(18, "FAILED", code=2, name="a\nb|c JobState=COMPLETED"),
]


def connector(url, *, token="good", user="ann", versions=(), timeout_s=2):
    chosen = f"      versions: [{', '.join(versions)}]\n" if versions else ""
    yaml = (
        f"version: 1\nclusters:\n  - name: c\n    slurm:\n      kind: rest\n      url: {url}\n"
        f"      user: {user}\n      token: {{env: TOKEN}}\n      timeout_s: {timeout_s}\n{chosen}"
    )
    world = Outside(environment={"TOKEN": token}, clock=lambda: 0.0, pause=lambda _s: None)
    return build_connectors(read_site(yaml.encode(), shown="sources.yaml"), world)[0]


@pytest.fixture(params=VERSIONS, ids=lambda number: f"v0.0.{number}")
def server(request):
    with serving(request.param, token="good") as running:
        running.jobs = JOBS
        running.nodes = [Node("n1", ("IDLE",)), Node("n2", ("DOWN", "DRAIN"), "Not responding")]
        yield running


def described(server, job, **more):
    found = connector(server.url).describe(Workload(scheduler="slurm", job_id=job, **more))
    return None if found is None else found


def test_each_outcome_is_read_alike(server):
    told = {
        job: (found.workload.state, found.workload.exit_code)
        for job in ("7", "8", "9", "10", "11", "12", "13", "18")
        if (found := described(server, job))
    }
    assert told == {
        "7": ("FAILED", "3:0"),
        "8": ("FAILED", "0:11"),
        "9": ("OUT_OF_MEMORY", "0:125"),
        "10": ("TIMEOUT", "0:0"),
        "11": ("CANCELLED by bob", "0:0"),
        "12": ("NODE_FAIL", "0:0"),
        "13": ("COMPLETED", "0:0"),
        "18": ("FAILED", "2:0"),
    }


def test_window_limit_nodes_owner_and_gpus_are_read(server):
    found = described(server, "12")
    workload = found.workload
    assert (workload.end - workload.start).total_seconds() == 600
    assert (workload.time_limit_s, workload.nodes) == (3600, ("n1", "n2"))
    assert (workload.tenant, workload.user, workload.partition) == ("ml", "ann", "gpu")
    assert (found.gpus, found.failed_nodes) == (8, ("n2",))


def test_tasks_parts_and_attempts_are_told_apart(server):
    assert described(server, "13000_2").workload.exit_code == "1:0"
    assert described(server, "15+0").workload.nodes == ("n1", "n2")
    assert described(server, "15+1").workload.nodes == ("n9",)
    first = described(server, "17", start="2025-10-09T08:53:20Z")
    second = described(server, "17", start="2025-10-09T08:56:40Z")
    assert (first.workload.state, second.workload.state) == ("NODE_FAIL", "FAILED")


def test_a_name_with_newlines_is_a_name(server):
    assert described(server, "18").workload.name == "a\nb|c JobState=COMPLETED"


def streams(server, job="7", nodes=("n2", "gone")):
    collected = Collected()
    item = PlanItem(item_id="i", connector="slurm", shard="s")
    workload = Workload(scheduler="slurm", job_id=job, nodes=nodes)
    opened = connector(server.url).open_streams(item, workload, collected)
    return {each.label.uri: each.read(1_000_000) for each in opened}, collected


def test_the_same_facts_come_of_every_version_and_no_script(server):
    found, _ = streams(server)
    assert SECRET.encode() not in b"".join(found.values())
    lines = facts(read("scheduler", found["slurm/accounting"], job_id="7"))
    job = next(line for line in lines if line.startswith("slurm.job "))
    assert " state=FAILED exit=3 signal=0 " in job
    assert any(line.startswith("slurm.step id=7 step=0 state=FAILED exit=3") for line in lines)
    nodes = facts(read("scheduler", found["slurm/nodes"], job_id="7", nodes=("n2",)))
    assert [line for line in nodes if "node=n2" in line and "DOWN" in line]


def test_a_node_that_slurm_no_longer_knows_loses_no_other(server):
    found, collected = streams(server)
    assert [each["name"] for each in json.loads(found["slurm/nodes"])["nodes"]] == ["n2"]
    assert collected.paths_missing == []


def test_a_job_that_nobody_knows_is_absent_and_no_empty_stream(server):
    found, collected = streams(server, job="99", nodes=("n1",))
    assert list(found) == ["slurm/nodes"]
    assert collected.paths_missing == ["slurm/accounting", "slurm/controller"]


def test_a_probe_tells_version_release_and_controllers(server):
    probe = connector(server.url).probe()
    assert probe.status == "ok"
    assert f"slurmrestd v0.0.{server.served[0]}, Slurm 2" in probe.detail
    assert probe.detail.endswith("controllers: UP")


def test_a_wrong_token_is_a_refusal_whatever_status_it_comes_with(server):
    probe = connector(server.url, token="wrong").probe()
    assert probe.status == "refused"
    assert "check user and token" in probe.detail


def test_the_newest_version_is_taken_or_the_newest_that_the_site_allows():
    with serving(40, 42, 43, token="good") as server:
        server.jobs = JOBS
        described(server, "7")
        connector(server.url, versions=("v0.0.40", "v0.0.42")).probe()
        connector(server.url, versions=("v0.0.40",)).probe()
    asked = [path for path in server.seen if "/slurmdb/" in path]
    assert asked == ["/slurmdb/v0.0.43/job/7", "/slurmdb/v0.0.42/job/1", "/slurmdb/v0.0.40/job/1"]


def test_versions_that_are_not_served_are_not_configured():
    with serving(43, token="good") as server:
        probe = connector(server.url, versions=("v0.0.41", "v0.0.42")).probe()
    assert probe.status == "not_configured"
    assert "serves v0.0.43, wanted v0.0.41, v0.0.42" in probe.detail


DOWN = json.dumps(
    {"meta": {"pad": "x" * 500},
     "errors": [{"description": "Failed to open slurmdbd connection", "error_number": 7000}]}
).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        (Fault("/job/", 500, DOWN), SourceBusyError, "Failed to open slurmdbd connection"),
        (Fault("/job/", 429, headers={"Retry-After": "1"}), SourceBusyError, "HTTP 429"),
        (Fault("/job/", 403), SourceRefusedError, "HTTP 403"),
        (Fault("/job/", 200, b"<html>"), MalformedAnswerError, "no JSON"),
        (Fault("/job/", 200, b"[]"), MalformedAnswerError, "no object"),
        (Fault("/job/", 200, b'{"jobs":', is_cut=True), SourceUnreachableError, "/job/7"),
        (Fault("/openapi", 200, b'{"paths": []}'), SourceNotConfiguredError, "no slurmdb API"),
    ],
    ids=lambda value: f"{value.path}{value.status}" if isinstance(value, Fault) else "",
)
def test_what_goes_wrong_is_told_by_its_kind(fault, error, told):
    with serving(43, token="good") as server:
        server.jobs, server.faults = JOBS, [fault]
        with pytest.raises(error, match=told):
            connector(server.url).describe(Workload(scheduler="slurm", job_id="7"))


def test_an_answer_that_does_not_come_is_unreachable():
    with serving(43, token="good") as server:
        server.jobs, server.faults = JOBS, [Fault("/job/", 200, b"{}", after_s=0.6)]
        with pytest.raises(SourceUnreachableError, match="timed out"):
            connector(server.url, timeout_s=0.2).describe(Workload(scheduler="slurm", job_id="7"))


def test_a_huge_answer_is_cut_off_and_loses_nothing_else(monkeypatch):
    monkeypatch.setattr("connectors.registry.HttpSource", partial(HttpSource, max_bytes=10_000))
    with serving(43, token="good") as server:
        server.jobs, server.nodes = JOBS, [Node("n2", ("DOWN",))]
        server.faults = [Fault("/slurmdb/", 200, b'{"pad": "' + b"x" * 50_000 + b'"}')]
        found, collected = streams(server)
    assert sorted(found) == ["slurm/controller", "slurm/nodes"]
    assert "more than 10000 bytes" in collected.warnings[0]


def test_what_passes_is_tried_again():
    with serving(43, token="good") as server:
        server.jobs, server.faults = JOBS, [Fault("/job/", 500, DOWN, times=2)]
        assert described(server, "7").workload.exit_code == "3:0"
