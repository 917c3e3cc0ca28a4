"""The cluster, the bus and the emitters between them, as a site would install them."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cluster import PROGRAMS, Cluster, ClusterError, running
from machine import free_ports, has_memory_cgroup

from engine.model.verdict import Verdict
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery
from functions.adapters.site_file import VARIABLE, configured_site
from rootrank.embedded.gateway import open_gateway
from rootrank.embedded.stack import Stack, open_stack

ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip by name what this machine cannot run; CI has to run it all."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if os.geteuid() != 0:
        missing.append("root")
    if missing and not os.environ.get("ROOTRANK_REQUIRE_SYSTEM"):
        for item in items:
            if item.get_closest_marker("system") and "tests/slurm" in str(item.path):
                item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


@dataclass
class Site:
    """A cluster whose jobs' ends reach the embedded bus by themselves."""

    cluster: Cluster
    stack: Stack
    folder: Path
    jobs: dict[str, str] = field(default_factory=dict)
    early: Verdict | None = None
    """The verdict on the job that was asked about while it ran."""

    def keys(self, job: str) -> list[str]:
        """Return the attempts of a job that the table knows, with or without a verdict."""
        table = self.stack.client("dynamodb").query(
            TableName=self.stack.resources.table, IndexName="by_job",
            KeyConditionExpression="job_key = :job",
            ExpressionAttributeValues={":job": {"S": job}},
        )  # fmt: skip
        return sorted({item["pk"]["S"] for item in table["Items"]})

    def claim_state(self, key: str) -> str:
        """Return the state that the attempt was claimed with."""
        item = self.stack.client("dynamodb").get_item(
            TableName=self.stack.resources.table, Key={"pk": {"S": key}, "sk": {"S": "CLAIM"}}
        )["Item"]
        return item["state"]["S"]

    def verdict(self, key: str) -> Verdict:
        """Return the attempt's current verdict."""
        query = ResultsQuery(self.stack.client("dynamodb"), self.stack.resources.table)
        current = query.current(key)
        assert current is not None, f"no verdict for {key}"
        store = ObjectStore(self.stack.client("s3"), self.stack.resources.bucket)
        return Verdict.model_validate_json(store.get(current["verdict_key"])[0])

    def told(self) -> list[dict[str, Any]]:
        """Return the detail of every event that reached the admitting function."""
        return [
            json.loads(record["body"])["detail"]
            for each in self.stack.invocations
            if "Admit" in each.function
            for record in each.event["Records"]
        ]

    def program(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run our program as SlurmUser does."""
        command = ["runuser", "-u", "slurm", "--", "/usr/bin/python3", "-m", "rootrank_slurm",
                   *argv, "--conf", str(self.folder / "rootrank.conf")]  # fmt: skip
        return subprocess.run(
            command, cwd=self.folder / "programs", capture_output=True, text=True, timeout=60,
            env=self.cluster.environment, check=False,
        )  # fmt: skip

    def waiting(self) -> list[str]:
        """Return what still waits in the spools."""
        return [str(each) for each in sorted(self.folder.glob("spool*/new/*.json"))]


def install(folder: Path, endpoint: str, listen: str) -> tuple[str, ...]:
    """Install the Slurm programs as their page says; returns the lines for slurm.conf."""
    shutil.copytree(ROOT / "infra/slurm", folder / "programs")
    (folder / "spool-events").mkdir()
    shutil.chown(folder / "spool-events", "slurm", "slurm")
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = embedded\naws_secret_access_key = embedded\n"
    )
    conf = folder / "rootrank.conf"
    conf.write_text(
        f"spool = {folder}/spool-events\nregion = us-east-1\nendpoint = {endpoint}\n"
        f"credentials_file = {folder}/credentials\nslurm_conf = {folder}/etc/slurm.conf\n"
        f"settle_s = 20\nretry_s = 1\npoll_s = 2\nlisten = {listen}\n"
    )
    wrapper = folder / "epilog"
    wrapper.write_text(
        f"#!/bin/sh\nexport ROOTRANK_SLURM_CONF={conf}\nexec {folder}/programs/epilog_slurmctld\n"
    )
    script = folder / "jobcomp"
    script.write_text(wrapper.read_text().replace("epilog_slurmctld", "jobcomp"))
    for each in (wrapper, script):
        each.chmod(0o755)
    return (
        f"EpilogSlurmctld={wrapper}",
        "JobCompType=jobcomp/elasticsearch",
        f"JobCompLoc=http://{listen}/slurm/_doc",
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One cluster for all tests: its jobs run beside each other."""
    with ExitStack() as stack:
        # Short and readable by munge, mysql and slurm, which pytest's own folders are not.
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="rr-slurm-", dir="/tmp")))
        folder.chmod(0o755)
        stack.enter_context(_site_file(folder))
        embedded = stack.enter_context(open_stack(tmp_path_factory.mktemp("state")))
        gateway = stack.enter_context(open_gateway(embedded.put_event))
        (port,) = free_ports(1)
        listen = f"127.0.0.1:{port}"
        lines = install(folder, gateway.endpoint, listen)
        cluster = stack.enter_context(running(folder, lines))
        emitter = ["/usr/bin/env", f"PYTHONPATH={folder}/programs", "/usr/bin/python3", "-m",
                   "rootrank_slurm"]  # fmt: skip
        conf = ["--conf", str(folder / "rootrank.conf")]
        cluster.start("serve", [*emitter, "serve", *conf], user="slurm")
        made = Site(cluster, embedded, folder)
        _run_jobs(made)
        cluster.start("poll", [*emitter, "poll", *conf], user="slurm")
        _wait_for_events(made)
        _run_jobs_of_the_script(made)
        _wait_for_events(made)
        embedded.settle(400)
        yield made


@contextmanager
def _site_file(folder: Path) -> Iterator[None]:
    """Name a sources.yaml with the cluster in it, so that plans ask it too."""
    path = folder / "sources.yaml"
    conf = folder / "etc/slurm.conf"
    path.write_text(
        f"version: 1\nclusters:\n  - {{name: rrlab, slurm: {{kind: commands, conf: {conf}}}}}\n"
    )
    os.environ[VARIABLE] = str(path)
    configured_site.cache_clear()
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        configured_site.cache_clear()


def _run_jobs(site: Site) -> None:
    """Submit a job for each way to end, and do to them what has to be done."""
    cluster, jobs = site.cluster, site.jobs
    eat = "python3 -c 'b=[]\nwhile True: b.append(bytearray(20<<20))'"
    jobs["node"] = cluster.submit("node", "sleep 600", "-w", "rr3", "--exclusive")
    jobs["time"] = cluster.submit("time", "sleep 600", "-w", "rr2", "--time=1")
    jobs["done"] = cluster.submit("done", "srun true", "-w", "rr1")
    jobs["fail"] = cluster.submit("fail", "exit 3", "-w", "rr1")
    jobs["signal"] = cluster.submit("signal", "kill -SEGV $$", "-w", "rr1")
    jobs["cancel"] = cluster.submit("cancel", "sleep 600", "-w", "rr2")
    jobs["again"] = cluster.submit(
        "again", "sleep 3; exit $SLURM_RESTART_COUNT", "-w", "rr2", "--requeue"
    )
    jobs["array"] = cluster.submit("array", "exit $SLURM_ARRAY_TASK_ID", "-w", "rr1", "-a", "0-2")
    if has_memory_cgroup():
        jobs["memory"] = cluster.submit("memory", eat, "-w", "rr1", "--mem=60")
    jobs["het"] = cluster.submit("het", "exit 5", "-w", "rr1", ":", "-J", "het", "-n1", "-w", "rr2")
    jobs["name"] = cluster.submit("a\nb|c JobState=COMPLETED \udcff", "exit 2", "-w", "rr1")
    jobs["hang"] = cluster.submit("hang", "sleep 600", "-w", "rr1")
    for name in ("node", "cancel", "again", "hang"):
        _wait_until(site, name, "RUNNING", 30)
    cluster.run("scancel", jobs["cancel"])
    cluster.run("scontrol", "requeue", jobs["again"])
    cluster.lose_node("rr3", jobs["node"])
    _ask_about(site, "hang")
    cluster.run("scancel", jobs["hang"])


def _ask_about(site: Site, name: str) -> None:
    """Request attribution of a job that runs, and wait for the verdict."""
    job = site.jobs[name]
    done = site.program("request", job, "--signal", "hang")
    if done.returncode:
        raise ClusterError(f"request: {done.stderr}")
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        site.stack.settle(300)
        for key in site.keys(job):
            query = ResultsQuery(site.stack.client("dynamodb"), site.stack.resources.table)
            if query.current(key) is not None:
                site.early = site.verdict(key)
                return
        time.sleep(0.2)
    raise ClusterError(f"{name}: no verdict 300 s after the request")


def _run_jobs_of_the_script(site: Site) -> None:
    """Replace epilog and plugin by the completion script, and run jobs that only it tells of."""
    cluster, jobs = site.cluster, site.jobs
    cluster.stop_controller()
    cluster.settings = ("JobCompType=jobcomp/script", f"JobCompLoc={site.folder}/jobcomp")
    cluster.write_conf()
    cluster.start_controller()
    jobs["script"] = cluster.submit("script", "exit 4", "-w", "rr1")
    jobs["never"] = cluster.submit("never", "true", "--begin=now+1hour")
    cluster.run("scancel", jobs["never"])


def _wait_until(site: Site, name: str, state: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        text = site.cluster.run("scontrol", "-o", "show", "job", site.jobs[name], check=False)
        if f"JobState={state}" in text:
            return
        time.sleep(0.2)
    raise ClusterError(f"{name}: not {state} after {seconds} s: {text}")


def _wait_for_events(site: Site) -> None:
    """Wait until no job runs and nothing waits to be told; then once more, for the poller."""
    deadline = time.monotonic() + 150
    quiet = 0
    while quiet < 4:
        queue = site.cluster.run("squeue", "-h", "-o", "%i", check=False).split()
        is_busy = bool(queue) or bool(site.waiting())
        quiet = 0 if is_busy else quiet + 1
        if time.monotonic() > deadline:
            raise ClusterError(f"after 150 s: queue {queue}, waiting {site.waiting()}")
        time.sleep(1)
