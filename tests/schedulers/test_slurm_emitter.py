"""The Slurm programs: nothing is lost while the bus is away, nothing secret leaves."""

import ast
import datetime
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ROOT = Path(__file__).parents[2] / "infra/slurm"
sys.path.insert(0, str(ROOT))

from rootrank_slurm.bus import Bus, BusDownError, BusRefusedError, sign  # noqa: E402
from rootrank_slurm.deliver import Deliverer  # noqa: E402
from rootrank_slurm.poll import poll_once  # noqa: E402
from rootrank_slurm.records import EPILOG, POSTED, Slurm, taken  # noqa: E402
from rootrank_slurm.serve import make_server  # noqa: E402
from rootrank_slurm.settings import DEFAULTS, SettingsError, read_settings  # noqa: E402
from rootrank_slurm.spool import Spool  # noqa: E402

from connectors.schedulers import parse_event  # noqa: E402
from rootrank.embedded.gateway import open_gateway  # noqa: E402

HEAD = (
    "JobIDRaw|JobID|State|ExitCode|DerivedExitCode|Submit|Start|End|TimelimitRaw|NodeList|Partition"
    "|Account|User|Cluster|AllocTRES|Reason|JobName"
)
FIRST = (
    "7|7|REQUEUED|0:0|0:0|2026-01-01T00:00:00|2026-01-01T00:00:10|2026-01-01T00:00:20|60|n1|main"
    "|ml|ann|lab||None|sft"
)
SECOND = (
    "7|7|FAILED|1:0|0:0|2026-01-01T00:00:20|2026-01-01T00:00:30|2026-01-01T00:00:40|60|n2|main"
    "|ml|ann|lab||None|sft"
)
T20 = 1767225620.0  # 2026-01-01T00:00:20Z
ENVIRONMENT = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_EXIT_CODE2": "1:0", "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_ACCOUNT": "ml", "SLURM_JOB_NODELIST": "n1",
}  # fmt: skip


class FakeSlurm:
    def __init__(self, *rows, nodes=""):
        self.rows, self.node_text = rows, nodes

    def accounting(self, _job):
        return "\n".join([HEAD, *self.rows]) if self.rows else ""

    def ended_since(self, since):
        self.since = since
        return self.accounting("")

    def controller(self, _job):
        return ""

    def nodes(self, _names):
        return self.node_text


class FakeBus:
    def __init__(self):
        self.error, self.sent = None, []

    def put(self, source, detail_type, detail):
        if self.error:
            raise self.error
        self.sent.append({"source": source, "detail-type": detail_type, "detail": detail})


@pytest.fixture
def spool(tmp_path):
    return Spool(str(tmp_path / "spool"))


def deliverer(spool, slurm, bus, now):
    return Deliverer({**DEFAULTS}, slurm, bus, spool, clock=lambda: now, pause=lambda _s: None)


def spooled_at(spool, at, record=None, kind="epilog"):
    name = spool.add(kind, record or taken(ENVIRONMENT, EPILOG))
    path = Path(spool.new) / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"at": at}))
    return name


def test_the_programs_need_no_newer_python_than_3_6():
    for path in ROOT.rglob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 6))


def test_an_event_stays_while_the_bus_is_away_and_goes_when_it_is_back(spool):
    bus = FakeBus()
    bus.error = BusDownError("connection refused")
    spooled_at(spool, T20 + 21)
    working = deliverer(spool, FakeSlurm(FIRST, SECOND), bus, T20 + 60)
    assert working.drain() is False
    assert len(spool.names()) == 1
    bus.error = None
    assert working.drain() is True
    assert spool.names() == []
    assert len(bus.sent) == 1


def test_an_event_that_the_bus_never_takes_is_set_aside_and_holds_up_nothing(spool):
    bus = FakeBus()
    bus.error = BusRefusedError("too large")
    spooled_at(spool, T20 + 21)
    assert deliverer(spool, FakeSlurm(SECOND), bus, T20 + 60).drain() is True
    assert spool.names() == []
    assert len([name for name in os.listdir(spool.dead) if name.endswith(".reason")]) == 1


def test_a_damaged_entry_is_set_aside(spool):
    (Path(spool.new) / "000-x.json").write_text("{half")
    assert deliverer(spool, FakeSlurm(), FakeBus(), T20).drain() is True
    assert os.listdir(spool.dead)


def test_one_process_drains_at_a_time(spool):
    spooled_at(spool, T20)
    with spool.drained_by_me() as mine:
        assert mine
        assert deliverer(spool, FakeSlurm(SECOND), FakeBus(), T20 + 60).drain() is False
    assert len(spool.names()) == 1


@pytest.mark.parametrize(("at", "state"), [(T20, "REQUEUED"), (T20 + 20, "FAILED")])
def test_the_attempt_that_had_begun_is_the_one_that_ended(spool, at, state):
    bus = FakeBus()
    spooled_at(spool, at)
    deliverer(spool, FakeSlurm(FIRST, SECOND), bus, T20 + 60).drain()
    workload = parse_event(bus.sent[0]).workload
    assert workload.state == state
    assert workload.attempt is None


def test_an_event_waits_for_accounting_but_not_for_ever(spool):
    bus = FakeBus()
    spooled_at(spool, T20 + 20)
    running = SECOND.replace("FAILED", "RUNNING").replace("2026-01-01T00:00:40", "Unknown")
    patient = deliverer(spool, FakeSlurm(running), bus, T20 + 30)
    entry = spool.read(spool.names()[0])
    assert patient.detail_of(entry, is_last_call=False) is None
    detail = patient.detail_of(entry, is_last_call=True)
    assert detail["workload"]["job_id"] == "7"
    assert detail["record"]["completion"]["SLURM_JOB_EXIT_CODE2"] == "1:0"


def test_a_lost_node_is_named_with_its_reason(spool):
    bus = FakeBus()
    lost = SECOND.replace("FAILED|1:0", "NODE_FAIL|0:0").replace("|n2|", "|n[1-2]|")
    nodes = "NodeName=n1 State=IDLE\nNodeName=n2 State=DOWN* Reason=Not responding [slurm@2026]\n"
    spooled_at(spool, T20 + 21)
    deliverer(spool, FakeSlurm(lost, nodes=nodes), bus, T20 + 60).drain()
    scoped = parse_event(bus.sent[0])
    assert scoped.workload.nodes == ("n1", "n2")
    assert '"name": "n2"' in scoped.record
    assert "Not responding" in scoped.record


def test_scripts_comments_and_commands_never_leave():
    record = {"jobid": 7, "script": "export TOKEN=hunter2", "state": "FAILED", "work_dir": "/h"}
    assert taken(record, POSTED) == {"jobid": 7, "state": "FAILED"}
    environment = {**ENVIRONMENT, "SLURM_JOB_COMMENT": "hunter2", "AWS_SECRET_ACCESS_KEY": "h"}
    assert "hunter2" not in json.dumps(taken(environment, EPILOG))


def test_the_controllers_command_line_is_left_out(tmp_path):
    program = tmp_path / "scontrol"
    program.write_text(
        "#!/bin/sh\necho 'JobId=7 JobName=x Command=/home/a/run.sh --key hunter2 WorkDir=/home/a "
        "Comment=hunter2 StdOut=/home/a/7.out'\n"
    )
    program.chmod(0o755)
    text = Slurm({**DEFAULTS, "scontrol": str(program)}).controller("7")
    assert text.split() == ["JobId=7", "JobName=x", "StdOut=/home/a/7.out"]


def test_signatures_are_those_of_the_official_library():
    now = datetime.datetime(2026, 1, 2, 3, 4, 5)
    url, body = "https://events.eu-west-1.amazonaws.com/", b'{"Entries":[]}'
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AWSEvents.PutEvents"}
    keys = {"id": "AKID", "secret": "SECRET", "token": "TOKEN"}
    ours = sign(url, headers, body, keys, "eu-west-1", now)
    request = AWSRequest("POST", url, data=body, headers=headers)
    request.context["timestamp"] = "20260102T030405Z"
    theirs = SigV4Auth(Credentials("AKID", "SECRET", "TOKEN"), "events", "eu-west-1")
    request.headers["X-Amz-Date"] = "20260102T030405Z"
    request.headers["X-Amz-Security-Token"] = "TOKEN"
    canonical = theirs.canonical_request(request)
    wanted = theirs.signature(theirs.string_to_sign(request, canonical), request)
    assert ours["Authorization"].endswith(f"Signature={wanted}")


def test_the_bus_takes_an_event_over_http(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    events = []
    with open_gateway(events.append) as gateway:
        bus = Bus({**DEFAULTS, "endpoint": gateway.endpoint})
        bus.put("rootrank.scheduler", "Job Completed", {"version": 1})
    assert events == [
        {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": {"version": 1}}
    ]
    with pytest.raises(BusDownError):
        bus.put("rootrank.scheduler", "Job Completed", {"version": 1})
    with pytest.raises(BusRefusedError, match="larger"):
        bus.put("rootrank.scheduler", "Job Completed", {"x": "y" * 300_000})


@pytest.fixture
def address(spool):
    server = make_server("127.0.0.1:0", spool)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/slurm/_doc"
    server.shutdown()
    server.server_close()


def post(address, body):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data=body)) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_posted_record_is_on_disk_before_slurm_hears_yes(address, spool):
    body = json.dumps({"jobid": 7, "state": "FAILED", "script": "hunter2"}).encode()
    assert post(address, body) == 200
    (name,) = spool.names()
    assert spool.read(name)["record"] == {"jobid": 7, "state": "FAILED"}


def test_slurm_posts_again_what_could_not_be_stored(address, spool, monkeypatch):
    monkeypatch.setattr(spool, "add", lambda *_: (_ for _ in ()).throw(OSError("no space left")))
    assert post(address, b'{"jobid": 7}') == 503


def test_what_is_no_record_is_refused(address):
    assert post(address, b"{half") == 400
    assert post(address, b"[1]") == 400
    assert post(address, b'{"state": "FAILED"}') == 400


def test_the_poller_tells_each_attempt_once_and_looks_back(spool):
    slurm = FakeSlurm(FIRST, SECOND)
    assert poll_once({**DEFAULTS}, slurm, spool, T20 + 100) == 2
    assert poll_once({**DEFAULTS}, slurm, spool, T20 + 130) == 0
    assert slurm.since == "2025-12-31T23:52:00"


def test_the_poller_leaves_what_accounting_has_not_finished(spool):
    assert poll_once({**DEFAULTS}, FakeSlurm(SECOND), spool, T20 + 22) == 0
    assert poll_once({**DEFAULTS}, FakeSlurm(SECOND), spool, T20 + 52) == 1


def test_a_poller_whose_accounting_was_away_looks_as_far_back_afterwards(spool):
    slurm = FakeSlurm(SECOND)
    poll_once({**DEFAULTS}, slurm, spool, T20 + 100)
    away = FakeSlurm()
    away.ended_since = lambda _since: None
    poll_once({**DEFAULTS}, away, spool, T20 + 90_000)
    poll_once({**DEFAULTS}, slurm, spool, T20 + 90_030)
    assert slurm.since == "2025-12-31T23:52:00"


def test_settings_tell_what_is_wrong_with_its_line(tmp_path):
    path = tmp_path / "slurm.conf"
    path.write_text("# mine\nspool = /var/spool/x\nbuss = default\n")
    with pytest.raises(SettingsError, match=r"slurm\.conf:3: unknown setting 'buss'"):
        read_settings(str(path))


def test_slurmctlds_programs_never_fail_a_job(tmp_path):
    environment = {"ROOTRANK_SLURM_CONF": str(tmp_path / "none"), "ROOTRANK_PYTHON": sys.executable}
    for program in ("epilog_slurmctld", "jobcomp"):
        done = subprocess.run([ROOT / program], env=environment, capture_output=True, check=False)
        assert done.returncode == 0
        assert b"cannot be read" in done.stderr


def test_the_example_settings_are_valid():
    assert read_settings(str(ROOT / "slurm.conf.example"))["cluster"] == "research-a"


@pytest.mark.parametrize(
    ("program", "environment", "name"),
    [
        ("epilog_slurmctld", {"SLURM_JOB_ID": "7", "SLURM_JOB_COMMENT": "x"}, "SLURM_JOB_ID"),
        ("jobcomp", {"JOBID": "7", "JOBSTATE": "FAILED", "DB_FLAGS": "x"}, "JOBID"),
    ],
)
def test_slurmctlds_programs_spool_what_their_environment_says(
    tmp_path, program, environment, name
):
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        f"spool = {tmp_path}/spool\nendpoint = http://127.0.0.1:1/\nsettle_s = 0\n"
        "sacct = /nowhere/sacct\nscontrol = /nowhere/scontrol\n"
    )
    settings = {"ROOTRANK_SLURM_CONF": str(conf), "ROOTRANK_PYTHON": sys.executable}
    done = subprocess.run([ROOT / program], env=settings | environment, check=False)
    assert done.returncode == 0
    spool = Spool(str(tmp_path / "spool"))
    (entry,) = [spool.read(each) for each in spool.names()]
    assert entry["record"][name] == "7"
    assert "x" not in entry["record"].values()
