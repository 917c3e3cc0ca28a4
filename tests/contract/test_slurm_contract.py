"""Slurm keeps to the connector contract, through its programs and through slurmrestd."""

import pytest
import slurmrestd
from connector_contract import SECRET, ConnectorContract

from connectors.command import CommandFailedError
from connectors.protocol import SourceUnreachableError
from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from engine.model.workload import Workload

SACCT = (
    "JobID|State|ExitCode|DerivedExitCode|Submit|Start|End|Elapsed|Timelimit|NodeList|User|Reason"
    "|JobName\n"
    "7|FAILED|1:0|1:0|2026-01-01T00:00:00|2026-01-01T00:00:01|2026-01-01T01:00:00|00:59:59"
    "|02:00:00|n[1-2]|ann|None|sft\n"
)
JOB = (
    "JobId=7 JobName=sft\n   JobState=FAILED Reason=NonZeroExitCode\n"
    f"   Command=/home/ann/train.sh --token {SECRET}\n   WorkDir=/home/ann\n"
    f"   Comment=one\n{SECRET}\n   StdOut=/home/ann/7.out\n"
)
NODES = "NodeName=n1 State=IDLE\nNodeName=n2 State=DOWN Reason=Not responding\n"


class Programs:
    """Slurm's programs, as far as they are asked."""

    def __init__(self, fault):
        self.fault = fault

    def run(self, argv, *, timeout_s):
        line = " ".join(argv)
        if self.fault == "down":
            raise CommandFailedError("scontrol: exit code 1 (Unable to contact slurm controller)")
        if self.fault == "refused":
            raise CommandFailedError("sacct: exit code 1 (Access/permission denied)")
        if "show job" in line:
            if self.fault == "one_absent":
                raise CommandFailedError("scontrol: exit code 1 (Invalid job id specified)")
            if self.fault == "one_busy":
                raise SourceUnreachableError("scontrol: no end after 30 s")
            return JOB.encode()
        if "ping" in line:
            return b"Slurmctld(primary) at head is UP\n"
        if "--version" in line:
            return b"slurm 22.05.8\n"
        return NODES.encode() if "show node" in line else SACCT.encode()


def connector(yaml, outside):
    return build_connectors(read_site(yaml.encode(), shown="sources.yaml"), outside)[0]


class Slurm(ConnectorContract):
    def workload(self):
        return Workload(scheduler="slurm", job_id="7", nodes=("n1", "n2"))


class TestSlurmPrograms(Slurm):
    def make(self, fault):
        yaml = "version: 1\nclusters:\n  - {name: c, slurm: {kind: commands}}\n"
        outside = Outside(
            commands=lambda _environment: Programs(fault), clock=lambda: 0.0, pause=lambda _s: None
        )
        return connector(yaml, outside)

    def test_commands_directories_and_comments_stay_behind(self):
        told = self.run().streams["slurm/controller"]
        assert told == (
            b"JobId=7 JobName=sft\n   JobState=FAILED Reason=NonZeroExitCode\n"
            b"   StdOut=/home/ann/7.out\n"
        )


class TestSlurmRest(Slurm):
    # The version is asked for first, and again in every run.
    requests_a_run = 2

    @pytest.fixture(autouse=True)
    def _server(self):
        with slurmrestd.serving(39, 40, 41, token=SECRET) as server:
            server.nodes = [slurmrestd.Node("n1", ("IDLE",)), slurmrestd.Node("n2", ("DOWN",))]
            self.server = server
            yield

    def make(self, fault):
        server = self.server
        server.jobs = [slurmrestd.Job(7, "FAILED", code=1, held=fault != "one_absent")]
        busy = slurmrestd.Fault("/slurm/v0.0.41/job/7", 503, headers={"Retry-After": "1"})
        server.faults = [busy] if fault == "one_busy" else []
        url = "http://127.0.0.1:1" if fault == "down" else server.url
        yaml = (
            f"version: 1\nclusters:\n  - name: c\n    slurm:\n      kind: rest\n"
            f"      url: {url}\n      user: ann\n      token: {{env: TOKEN}}\n"
        )
        token = "wrong" if fault == "refused" else SECRET
        outside = Outside(environment={"TOKEN": token}, clock=lambda: 0.0, pause=lambda _s: None)
        return connector(yaml, outside)

    def item(self, **changes):
        # Two nodes are two requests, so a whole part needs three.
        if "budget" in changes:
            changes["budget"] = changes["budget"].model_copy(update={"requests": 3})
        return super().item(**changes)

    def test_the_newest_version_that_is_served_is_used(self):
        self.run()
        assert "/slurmdb/v0.0.41/job/7" in self.server.seen
        assert "/slurmdb/v0.0.40/job/7" not in self.server.seen
