"""What the Slurm programs tell: of nodes and machines, of jobs that still run, of huge jobs."""

import json
import sys
from pathlib import Path

import pytest
from test_slurm_emitter import (
    FIRST,
    SECOND,
    T20,
    FakeBus,
    FakeSlurm,
    deliverer,
    spooled_at,
)

from connectors.schedulers import parse_event
from engine.model.identity import attempt_key

sys.path.insert(0, str(Path(__file__).parents[2] / "infra/slurm"))
from rootrank_slurm.deliver import Deliverer
from rootrank_slurm.fitting import fitting
from rootrank_slurm.instances import read_instances
from rootrank_slurm.records import EPILOG, Slurm, taken
from rootrank_slurm.request import RequestError, request_record
from rootrank_slurm.settings import DEFAULTS
from rootrank_slurm.spool import Spool


@pytest.fixture
def spool(tmp_path):
    return Spool(str(tmp_path / "spool"))


NODES = (
    "NodeName=gpu-1 Arch=x86_64 State=IDLE+CLOUD Comment=hunter2 InstanceId=i-0123456789ab\n"
    "NodeName=gpu-2 State=DOWN*+CLOUD Extra=hunter2 "
    "Reason=Not responding [slurm@2026-01-01T00:00:00] Comment=x\n"
)


def test_of_nodes_only_state_reason_and_instance_are_told_those_with_a_reason_first(tmp_path):
    program = tmp_path / "scontrol"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{NODES}END\n")
    program.chmod(0o755)
    assert Slurm({**DEFAULTS, "scontrol": str(program)}).nodes("gpu-[1-2]") == (
        "NodeName=gpu-2 State=DOWN*+CLOUD Reason=Not responding [slurm@2026-01-01T00:00:00]\n"
        "NodeName=gpu-1 State=IDLE+CLOUD InstanceId=i-0123456789ab"
    )


def test_the_nodes_of_a_huge_job_make_no_event_that_the_bus_refuses(tmp_path):
    program = tmp_path / "scontrol"
    line = "NodeName=gpu-'$i' State=IDLE+CLOUD InstanceId=i-0123456789abcdef0 Os='$i'"
    program.write_text(f"#!/bin/sh\nfor i in $(seq 9999); do echo '{line}'; done\n")
    program.chmod(0o755)
    assert (
        50_000 < len(Slurm({**DEFAULTS, "scontrol": str(program)}).nodes("gpu-[1-9999]")) < 60_001
    )


def test_machines_are_known_from_slurm_or_from_the_sites_own_file(spool, tmp_path):
    file = tmp_path / "instances.json"
    file.write_text('{"gpu-2": "i-0fedcba9876543210", "gpu-3": "nonsense"}')
    slurm = FakeSlurm(
        SECOND, nodes="NodeName=gpu-1 State=IDLE InstanceId=i-0123456789ab\n"
        "NodeName=gpu-2 State=DOWN Reason=x InstanceId=y\nNodeName=gpu-3 State=IDLE"
    )  # fmt: skip
    bus = FakeBus()
    settings = {**DEFAULTS, "instances": str(file)}
    spooled_at(spool, T20 + 21)
    Deliverer(settings, slurm, bus, spool, clock=lambda: T20 + 60, pause=lambda _s: None).drain()
    told = parse_event(bus.sent[0])
    assert told.instance_ids == {"gpu-1": "i-0123456789ab", "gpu-2": "i-0fedcba9876543210"}


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ('{"InstanceGroups": [{"Instances": [{"CustomerIpAddress": "10.1.2.3",'
         ' "InstanceId": "i-0123456789ab"}, 7, {}]}, 3]}', {"ip-10-1-2-3": "i-0123456789ab"}),
        ('{"n1": "i-0123456789ab", "n2": null}', {"n1": "i-0123456789ab"}),
        ("[1]", {}),
        ("{half", {}),
    ],
)  # fmt: skip
def test_the_sites_file_is_a_map_or_hyperpods_own(tmp_path, text, known):
    file = tmp_path / "config.json"
    file.write_text(text)
    assert read_instances(str(file)) == known


LIVE = (
    "JobId=7 JobName=sft UserId=ann(1) Account=ml JobState=RUNNING StartTime=2026-01-01T00:00:30"
    " NodeList=n2"
)
RUNNING = SECOND.replace("FAILED|1:0", "RUNNING|0:0").replace("2026-01-01T00:00:40", "Unknown")


def asked_about(spool, slurm, now):
    bus = FakeBus()
    record = {"jobid": "7", "detection_signal": "hang", "scontrol": LIVE}
    spooled_at(spool, T20 + 100, record, kind="request")
    return deliverer(spool, slurm, bus, now), bus


def test_a_request_names_the_running_attempt_as_its_end_will(spool):
    working, bus = asked_about(spool, FakeSlurm(FIRST, RUNNING), T20 + 101)
    assert working.drain() is True
    (event,) = bus.sent
    assert event["detail-type"] == "Attribution Requested"
    told = parse_event(event)
    assert told.detection_signal == "hang"
    assert (told.workload.state, told.workload.end, told.workload.nodes) == (
        "RUNNING", None, ("n2",),
    )  # fmt: skip
    spooled_at(spool, T20 + 300, kind="epilog")
    deliverer(spool, FakeSlurm(FIRST, SECOND), bus, T20 + 400).drain()
    keys = {attempt_key(parse_event(each).workload) for each in bus.sent}
    assert keys == {"ml/lab/slurm/7/t1767225630"}


def test_a_request_waits_for_accounting_but_not_for_ever(spool):
    working, bus = asked_about(spool, FakeSlurm(), T20 + 101)
    (name,) = spool.names()
    assert working.detail_of(spool.read(name), is_last_call=False) is None
    detail = working.detail_of(spool.read(name), is_last_call=True)
    assert parse_event(
        {"source": "rootrank.scheduler", "detail-type": "Attribution Requested", "detail": detail}
    ).workload.nodes == ("n2",)
    assert bus.sent == []


class Controller:
    def __init__(self, text):
        self.text = text

    def controller(self, _job):
        return self.text


@pytest.mark.parametrize(
    ("job", "text", "told"),
    [
        ("7; rm -rf /", LIVE, "is no Slurm job id"),
        ("7", "", "scontrol tells of no job 7"),
        ("7", LIVE.replace("RUNNING", "FAILED"), "job 7 is FAILED"),
    ],
)
def test_a_request_that_can_be_none_says_why(job, text, told):
    with pytest.raises(RequestError, match=told):
        request_record(Controller(text), job, "hang")


def test_a_request_takes_a_task_of_an_array_by_its_own_number():
    record = request_record(Controller(LIVE.replace("JobId=7", "JobId=19")), "17_2", "straggler")
    assert (record["jobid"], record["detection_signal"]) == ("19", "straggler")


def test_bytes_of_a_name_that_are_no_utf_8_make_no_event_that_is_refused():
    record = taken({"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a\udcff\ud800b"}, EPILOG)
    assert json.loads(json.dumps(record).encode()) == {
        "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "a??b",
    }  # fmt: skip


def huge(nodes):
    names = [f"ip-10-0-{number // 256}-{number % 256}.ec2.internal" for number in range(nodes)]
    pods = [{"kind": "Pod", "metadata": {"name": f"p{number}"}, "status": {"message": "x" * 3000}}
            for number in range(64)]  # fmt: skip
    return {
        "version": 1,
        "workload": {
            "scheduler": "kubernetes", "job_id": "sft", "nodes": names,
            "ranks": [{"rank": number, "node": name} for number, name in enumerate(names)],
        },
        "record": {"objects": [{"kind": "Job", "metadata": {"name": "sft"}}, *pods],
                   "instance_ids": dict.fromkeys(names, "i-0123456789abcdef0")},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("nodes", "left_out"),
    [
        (10, None),
        (512, ["objects"]),
        (2000, ["objects", "instance_ids"]),
        (10_000, ["objects", "instance_ids", "ranks", "workload.nodes"]),
    ],
)
def test_an_event_of_a_huge_job_lacks_what_is_least_missed_and_is_taken(nodes, left_out):
    detail = huge(nodes)
    made = fitting(detail)
    assert len(json.dumps(made)) <= 200 * 1024
    assert made["record"].get("left_out") == left_out
    assert made["record"]["objects"][0]["kind"] == "Job"
    assert made["workload"]["nodes"][0] == "ip-10-0-0-0.ec2.internal"
    assert len(detail["workload"]["nodes"]) == nodes
    told = {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": made}
    assert parse_event(told).workload.job_id == "sft"


def test_an_event_of_many_slurm_nodes_lacks_their_states_first():
    record = {"nodes": "x" * 150_000, "scontrol": "y" * 60_000, "sacct": "z"}
    made = fitting({"version": 1, "workload": {"job_id": "7"}, "record": record})
    assert made["record"] == {"scontrol": "y" * 60_000, "sacct": "z", "left_out": ["nodes"]}
