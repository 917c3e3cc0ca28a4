"""A Slurm cluster of its own on one machine: munge, MariaDB, slurmdbd, slurmctld, three slurmd.

    python tests/slurm/cluster.py up DIR      then: . DIR/env
    python tests/slurm/cluster.py down DIR

Plain processes below DIR, on loopback ports that were free; nothing in /etc is read or written.
Wants root and Debian's packages (see docs/slurm.md). Node names begin with `rr`, so that another
lab on this machine shares no control group with this one.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from machine import free_ports, has_jwt, has_memory_cgroup, listens

NODES = ("rr1", "rr2", "rr3")
ACCOUNT = "research"
NAME = "rrlab"
PROGRAMS = (
    "munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "slurmrestd",
    "sbatch", "sacct", "scontrol", "runuser",
)  # fmt: skip


class ClusterError(RuntimeError):
    """What did not come up, with the end of its log."""


def wait_for(what: str, is_so: Callable[[], bool], seconds: float, pause: float = 0.1) -> None:
    """Ask until it is so; raises `ClusterError`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise ClusterError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)


@dataclass
class Cluster:
    """One cluster below `folder`; `settings` are further lines of slurm.conf."""

    folder: Path
    settings: tuple[str, ...] = ()
    timezone: str = "America/New_York"
    started: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conf = self.folder / "etc/slurm.conf"
        self.environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURM_CONF": str(self.conf),
            "LC_ALL": "C.UTF-8",
            # Another zone than UTC, so that a time taken for UTC is seen to be wrong.
            "TZ": self.timezone,
        }

    def up(self) -> None:
        """Start everything and wait until all nodes are idle."""
        self._folders()
        self._start_munge()
        self._start_database()
        self.write_conf()
        self.start("slurmdbd", ["slurmdbd", "-D"], user="slurm")
        wait_for("slurmdbd", lambda: self._says("sacctmgr", "-n", "show", "cluster"), 30)
        self.run("sacctmgr", "-i", "add", "cluster", NAME)
        self.run("sacctmgr", "-i", "add", "account", ACCOUNT, "Description=r", "Organization=r")
        self.run("sacctmgr", "-i", "add", "user", "root", f"DefaultAccount={ACCOUNT}")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait_for("nodes", self._all_idle, 40)

    def down(self) -> None:
        """Stop what was started, newest first, and the steps that a killed node left."""
        for process in reversed(self.started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in reversed(self.started):
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        for pid in self.pids_of(str(self.folder)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start(
        self, name: str, argv: list[str], user: str | None = None, **environment: str
    ) -> subprocess.Popen:
        """Start one process in a group of its own, logging below `log/`."""
        if user is not None:
            argv = ["runuser", "-u", user, "--", *argv]
        with (self.folder / f"log/{name}.out").open("ab") as log:
            process = subprocess.Popen(
                argv, env=self.environment | environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log,
                start_new_session=True, cwd=self.folder,
            )  # fmt: skip
        self.started.append(process)
        return process

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.controller = self.start("slurmctld", ["slurmctld", "-D", "-i"], user="slurm")
        wait_for("slurmctld", lambda: "UP" in self.run("scontrol", "ping", check=False), 30)

    def start_rest(self) -> str:
        """Start slurmrestd on a socket file for users of this machine; returns its URL.

        It refuses to run as root or as SlurmUser.
        """
        place = self.folder / "rest"
        place.mkdir()
        shutil.chown(place, "games", "games")
        path = place / "socket"
        self.start("rest", ["slurmrestd", "-a", "rest_auth/local", f"unix:{path}"], user="games")
        wait_for("slurmrestd", path.exists, 20)
        return f"unix:{path}"

    def start_rest_with_tokens(self) -> str:
        """Start slurmrestd on a port for holders of a JSON web token; returns its URL."""
        (port,) = free_ports(1)
        argv = ["slurmrestd", "-a", "rest_auth/jwt", f"127.0.0.1:{port}"]
        # Its own default, which every request's token replaces (slurmrestd's manual page).
        self.start("rest-jwt", argv, user="games", SLURM_JWT="daemon")
        wait_for("slurmrestd", lambda: listens(port), 20)
        return f"http://127.0.0.1:{port}"

    def token(self, user: str) -> str:
        """Return a token of a user, as `scontrol token` makes it."""
        text = self.run("scontrol", "token", f"username={user}", "lifespan=600")
        return text.strip().removeprefix("SLURM_JWT=")

    def stop_controller(self) -> None:
        """Stop slurmctld; jobs go on running."""
        os.killpg(self.controller.pid, signal.SIGTERM)
        self.controller.wait(30)

    def start_node(self, node: str) -> None:
        """Start one slurmd."""
        (self.folder / "spool" / node).mkdir(exist_ok=True)
        self.start(f"slurmd.{node}", ["slurmd", "-D", "-N", node, "-f", str(self.conf)])

    def lose_node(self, node: str, job: str) -> None:
        """Kill a node's slurmd and all that runs under it, as a power cut would."""
        own = (str(self.folder / "spool" / node), f"slurmd -D -N {node} ", f"slurmstepd: [{job}.")
        for _ in range(3):
            for pid in sorted({pid for text in own for pid in self.pids_of(text)}):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def pids_of(self, text: str) -> list[int]:
        """Return the processes whose command line holds `text`, this one left out."""
        found = []
        for place in Path("/proc").iterdir():
            if not place.name.isdigit() or int(place.name) in (os.getpid(), os.getppid()):
                continue
            with contextlib.suppress(OSError):
                line = (
                    (place / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
                if text in line and "pytest" not in line:
                    found.append(int(place.name))
        return found

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a program of Slurm's and return what it prints."""
        done = subprocess.run(
            argv, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=30, check=False, cwd=self.folder / "out",
        )  # fmt: skip
        if check and done.returncode:
            raise ClusterError(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(self, name: str, script: str, *options: str) -> str:
        """Submit a job and return its id."""
        out = str(self.folder / "out/%x-%j.out")
        return self.run(
            "sbatch", "--parsable", "-J", name, "-o", out, "-n1", *options, "--wrap", script
        ).strip()

    def _says(self, *argv: str) -> bool:
        try:
            self.run(*argv)
        except (ClusterError, subprocess.TimeoutExpired):
            return False
        return True

    def _all_idle(self) -> bool:
        text = self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).strip()
        return text == str(len(NODES))

    def _folders(self) -> None:
        for name in ("etc", "log", "run", "state", "spool", "munge", "db", "out", "gpu"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        for name in ("etc", "run", "state"):
            shutil.chown(self.folder / name, "slurm", "slurm")
        shutil.chown(self.folder / "munge", "munge", "munge")
        shutil.chown(self.folder / "db", "mysql", "mysql")
        (self.folder / "munge").chmod(0o755)
        for name in ("log", "out"):
            (self.folder / name).chmod(0o1777)

    def _start_munge(self) -> None:
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        shutil.chown(key, "munge", "munge")
        key.chmod(0o400)
        place = self.folder / "munge"
        self.start(
            "munged",
            ["munged", "--foreground", f"--key-file={key}", f"--socket={place}/socket",
             f"--pid-file={place}/pid", f"--log-file={place}/log", f"--seed-file={place}/seed"],
            user="munge",
        )  # fmt: skip
        wait_for("munged", (place / "socket").exists, 10)

    def _start_database(self) -> None:
        place = self.folder / "db"
        (self.database_port,) = free_ports(1)
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={place}/data",
             "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True, capture_output=True, timeout=60,
        )  # fmt: skip
        self.start(
            "mariadbd",
            ["mariadbd", "--no-defaults", "--user=mysql", f"--datadir={place}/data",
             f"--socket={place}/sock", f"--pid-file={place}/pid", "--bind-address=127.0.0.1",
             f"--port={self.database_port}", "--innodb-buffer-pool-size=64M",
             "--innodb-lock-wait-timeout=900", "--skip-log-bin",
             "--innodb-flush-log-at-trx-commit=0"],
        )  # fmt: skip
        ping = ["mariadb-admin", "--no-defaults", "-S", f"{place}/sock", "ping"]
        wait_for(
            "mariadbd",
            lambda: subprocess.run(ping, capture_output=True, check=False).returncode == 0,
            30,
        )
        grant = (
            "CREATE DATABASE IF NOT EXISTS slurm_acct_db; CREATE USER IF NOT EXISTS "
            "'slurm'@'127.0.0.1' IDENTIFIED BY 'lab'; "
            "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';"
        )
        subprocess.run(
            ["mariadb", "--no-defaults", "-S", f"{place}/sock", "-e", grant],
            check=True, capture_output=True, timeout=30,
        )  # fmt: skip

    def write_conf(self) -> None:
        """Write slurm.conf, slurmdbd.conf and cgroup.conf; ports stay the same."""
        if not hasattr(self, "ports"):
            self.ports = free_ports(2 + len(NODES))
        dbd, ctld, *nodes = self.ports
        place = self.folder
        limits = (
            "TaskPlugin=task/cgroup\nProctrackType=proctrack/cgroup"
            if has_memory_cgroup()
            else "TaskPlugin=task/none\nProctrackType=proctrack/linuxproc"
        )
        host = socket.gethostname().split(".")[0]
        lines = [
            f"ClusterName={NAME}",
            "SlurmctldHost=localhost(127.0.0.1)",
            f"SlurmctldPort={ctld}",
            "SlurmUser=slurm",
            "SlurmdUser=root",
            # The shorter life of credentials is what lets a requeued job start again soon.
            f"AuthInfo=socket={place}/munge/socket,cred_expire=5",
            "AuthType=auth/munge",
            "CredType=cred/munge",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            f"StateSaveLocation={place}/state",
            f"SlurmdSpoolDir={place}/spool/%n",
            f"SlurmctldPidFile={place}/run/slurmctld.pid",
            f"SlurmdPidFile={place}/run/slurmd.%n.pid",
            "SlurmdParameters=config_overrides",
            "MpiDefault=none",
            "SwitchType=switch/none",
            limits,
            "JobAcctGatherType=jobacct_gather/linux",
            "JobAcctGatherFrequency=task=1",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU_Memory",
            "SchedulerType=sched/backfill",
            "SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2",
            "DefMemPerCPU=100",
            "ReturnToService=2",
            "SlurmdTimeout=5",
            "SlurmctldTimeout=5",
            "MinJobAge=300",
            "KillWait=2",
            "JobRequeue=0",
            "MailProg=/bin/true",
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={dbd}",
            # The controller's connection to slurmdbd takes its munge socket from here.
            f"AccountingStoragePass={place}/munge/socket",
            *self._token_lines(),
            *self.settings,
            *(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 "
                "RealMemory=4000 State=UNKNOWN"
                for node, port in zip(NODES, nodes, strict=True)
            ),
            "PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP",
        ]
        self.conf.write_text("\n".join(lines) + "\n")
        (place / "etc/cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\n"
            "ConstrainSwapSpace=yes\nAllowedSwapSpace=0\n"
        )
        database = place / "etc/slurmdbd.conf"
        database.write_text(
            f"AuthType=auth/munge\nAuthInfo=socket={place}/munge/socket\nDbdHost=localhost\n"
            f"DbdAddr=127.0.0.1\nDbdPort={dbd}\nSlurmUser=slurm\n"
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n"
            f"PidFile={place}/run/slurmdbd.pid\nStorageType=accounting_storage/mysql\n"
            f"StorageHost=127.0.0.1\nStoragePort={self.database_port}\nStorageUser=slurm\n"
            "StoragePass=lab\nStorageLoc=slurm_acct_db\n"
            + "".join(f"{line}\n" for line in self._token_lines())
        )
        shutil.chown(database, "slurm", "slurm")
        database.chmod(0o600)

    def _token_lines(self) -> list[str]:
        """Return the settings that let tokens in; the key is made once."""
        if not has_jwt():
            return []
        key = self.folder / "state/jwt.key"
        if not key.exists():
            key.write_bytes(os.urandom(32))
            shutil.chown(key, "slurm", "slurm")
            key.chmod(0o600)
        return ["AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={key}"]


@contextlib.contextmanager
def running(folder: Path, settings: tuple[str, ...] = ()) -> Iterator[Cluster]:
    """Run a cluster for as long as the body does."""
    cluster = Cluster(folder, settings)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()


def main(command: str, folder: str) -> None:
    """Start or stop a cluster by hand."""
    cluster = Cluster(Path(folder).resolve())
    pids = cluster.folder / "pids"
    if command == "down":
        for pid in reversed(pids.read_text().split()):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGTERM)
        cluster.down()
        return
    began = time.monotonic()
    cluster.up()
    lines = [f"export {name}={value}" for name, value in cluster.environment.items()]
    pids.write_text("\n".join(str(each.pid) for each in cluster.started))
    (cluster.folder / "env").write_text("\n".join(lines) + "\n")
    print(f"ready in {time.monotonic() - began:.1f} s; now: . {cluster.folder}/env")


if __name__ == "__main__":
    main(*sys.argv[1:])
