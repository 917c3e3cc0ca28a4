"""A real Slurm cluster of one run: its own directory, its own network namespace, loopback only.

munged, MariaDB, slurmdbd, slurmctld and one slurmd a node, each as a plain process. Needs Debian's
slurmctld, slurmd, slurmdbd, slurm-client, the wlm plugins, mariadb-server and munge.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

BASE_PORT = 16_900
SACCT_FIELDS = (
    "JobID,JobName,State,ExitCode,DerivedExitCode,Start,End,Elapsed,NodeList,ReqMem,MaxRSS,Reason"
)
NEEDS = ("root", "slurmctld", "slurmd", "slurmdbd", "sbatch", "mariadbd", "munged")

CONFIG = """\
ClusterName=lab
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser=slurm
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SrunPortRange={srun_first}-{srun_last}
StateSaveLocation={top}/state
SlurmdSpoolDir={top}/spool/%n
SlurmctldPidFile={top}/run/slurmctld.pid
SlurmdPidFile={top}/run/slurmd.%n.pid
SlurmctldLogFile={top}/log/slurmctld.log
SlurmdLogFile={top}/log/slurmd.%n.log
SlurmdParameters=config_overrides
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode={preempt}
DefMemPerCPU=700
ReturnToService=2
SlurmdTimeout=5
SlurmctldTimeout=5
InactiveLimit=0
MinJobAge=300
FirstJobId={first_job}
KillWait=2
OverTimeLimit=0
JobRequeue=0
MailProg=/bin/true
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={dbd}
AccountingStoragePass={top}/munge/socket
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=60 State=UP PriorityTier=10
"""
DBD = """\
AuthType=auth/munge
AuthInfo=socket={top}/munge/socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=slurm
DebugLevel=info
LogFile={top}/log/slurmdbd.log
PidFile={top}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql}
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct_db
"""
CGROUP = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=yes
AllowedSwapSpace=0
"""


class Cluster:
    """Start with `Cluster(space, names)`, end with `close()`."""

    def __init__(
        self, space: str, names: list[str], *, preempt: str = "CANCEL", first_job: int = 1
    ):
        self.space, self.names = space, names
        self.top = Path(tempfile.mkdtemp(prefix="rrs-"))
        self.top.chmod(0o755)
        self.env = {
            "SLURM_CONF": str(self.top / "etc/slurm.conf"), "LC_ALL": "C",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
        }  # fmt: skip
        self._write(preempt, first_job)
        self.database: subprocess.Popen[bytes] | None = None
        try:
            self._start()
        except Exception:
            self.close()
            raise

    def _write(self, preempt: str, first_job: int) -> None:
        top = self.top
        owners = dict.fromkeys(("etc", "log", "run", "state"), "slurm")
        owners |= {"munge": "munge", "db": "mysql", "spool": "root"}
        for folder, owner in owners.items():
            (top / folder).mkdir(mode=0o755)
            shutil.chown(top / folder, owner)
        values = {
            "top": top, "sql": BASE_PORT, "dbd": BASE_PORT + 1, "ctld": BASE_PORT + 2,
            "srun_first": BASE_PORT + 20, "srun_last": BASE_PORT + 60, "preempt": preempt,
            "first_job": first_job,
        }  # fmt: skip
        host = os.uname().nodename.split(".")[0]
        nodes = [
            f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={BASE_PORT + 3 + index} "
            "CPUs=4 RealMemory=4000 State=UNKNOWN"
            for index, name in enumerate(self.names)
        ]
        lines = CONFIG.format(**values).splitlines()
        text = "\n".join([*lines[:-2], *nodes, *lines[-2:]]) + "\n"
        (top / "etc/slurm.conf").write_text(text)
        (top / "etc/cgroup.conf").write_text(CGROUP)
        dbd = top / "etc/slurmdbd.conf"
        dbd.write_text(DBD.format(**values))
        dbd.chmod(0o600)
        shutil.chown(dbd, "slurm")
        key = top / "munge/key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        shutil.chown(key, "munge")

    def command(self, *words: str, user: str = "", check: bool = True, timeout: float = 40) -> str:
        """Run a program inside the cluster's namespace."""
        drop = ["runuser", "-u", user, "--"] if user else []
        done = subprocess.run(
            ["ip", "netns", "exec", self.space, *drop, *words], env=self.env, check=check,
            capture_output=True, text=True, timeout=timeout, cwd=self.top,
        )  # fmt: skip
        return done.stdout

    def _start(self) -> None:
        top = self.top
        self.command(
            "/usr/sbin/munged", f"--key-file={top}/munge/key", f"--socket={top}/munge/socket",
            f"--pid-file={top}/munge/pid", f"--log-file={top}/munge/log",
            f"--seed-file={top}/munge/seed", user="munge",
        )  # fmt: skip
        self.command(
            "mariadb-install-db", "--no-defaults", "--user=mysql", f"--datadir={top}/db/data",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip
        self.database = subprocess.Popen(
            ["ip", "netns", "exec", self.space, "mariadbd", "--no-defaults", "--user=mysql",
             f"--datadir={top}/db/data", f"--socket={top}/db/sock", "--bind-address=127.0.0.1",
             f"--port={BASE_PORT}", "--innodb-buffer-pool-size=64M", "--skip-log-bin",
             "--innodb-log-file-size=48M", "--innodb-lock-wait-timeout=900",
             "--innodb-flush-log-at-trx-commit=0"],
            env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._poll("mariadb-admin", "--no-defaults", "-S", f"{top}/db/sock", "ping")
        self.command(
            "mariadb", "--no-defaults", "-S", f"{top}/db/sock", "-e",
            "CREATE DATABASE slurm_acct_db; CREATE USER 'slurm'@'127.0.0.1' IDENTIFIED BY 'lab'; "
            "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'127.0.0.1';",
        )  # fmt: skip
        self.command("slurmdbd", user="slurm")
        self._poll("sacctmgr", "-n", "show", "cluster")
        self.command("sacctmgr", "-i", "add", "cluster", "lab", check=False)
        self.command("sacctmgr", "-i", "add", "account", "research", check=False)
        self.command(
            "sacctmgr", "-i", "add", "user", "root", "DefaultAccount=research", check=False
        )
        self.command("slurmctld", "-i", user="slurm")
        for name in self.names:
            self.start_node(name)
        for _ in range(100):
            if self.command("sinfo", "-h", "-t", "idle", "-o", "%D", check=False).split()[:1] == [
                str(len(self.names))
            ]:
                return
            time.sleep(0.1)
        raise RuntimeError("the cluster did not come up")

    def start_node(self, name: str) -> None:
        """Start one slurmd under its own host name."""
        (self.top / "spool" / name).mkdir(exist_ok=True)
        hosts = f"mount --bind /etc/netns/{self.space}/hosts /etc/hosts"
        shell = f"{hosts}; hostname {name}; exec slurmd -N {name} -f {self.env['SLURM_CONF']}"
        # `ip netns exec` hides the cgroup mounts; nsenter keeps them.
        subprocess.run(
            ["nsenter", f"--net=/run/netns/{self.space}", "unshare", "--uts", "--mount",
             "sh", "-c", shell],
            env=self.env, check=True, timeout=20, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=self.top,
        )  # fmt: skip

    def _poll(self, *words: str) -> None:
        for _ in range(150):
            try:
                self.command(*words, timeout=3)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
                time.sleep(0.1)
            else:
                return
        raise RuntimeError(f"{words[0]} did not answer")

    def submit(self, *words: str) -> str:
        """Submit a job; return its id."""
        return self.command("sbatch", "--parsable", *words).strip().split(";")[0]

    def state(self, job: str) -> str:
        """Return the state of a job by the accounting records."""
        text = self.command("sacct", "-X", "-n", "-P", "-D", "-o", "state", "-j", job, check=False)
        return text.split("\n")[-2] if text.strip() else ""

    def wait(self, job: str, states: tuple[str, ...], within: float = 60) -> str:
        """Wait until the job is in one of the states; return its state."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            if (state := self.state(job)).split(" ")[0] in states:
                return state
            time.sleep(0.5)
        return self.state(job)

    def records(self, job: str, *options: str) -> str:
        """Return what `sacct` prints of a job."""
        return self.command(
            "sacct", "--parsable2", *options, "-o", SACCT_FIELDS, "-j", job, check=False
        )

    def log_about(self, name: str, *words: str) -> str:
        """Return the lines of a daemon's log that hold one of the words."""
        path = self.top / "log" / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "".join(f"{line}\n" for line in lines if any(word in line for word in words))

    def fail_node(self, name: str) -> None:
        """Kill the daemon and everything that it started, as a power cut does."""
        daemon = int((self.top / "run" / f"slurmd.{name}.pid").read_text())
        os.kill(daemon, signal.SIGKILL)
        for pid in self._started_on(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def _started_on(self, name: str) -> list[int]:
        found, spool = [], f"{self.top}/spool/{name}"
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace")
                environ = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            is_mine = f"SLURM_CONF={self.env['SLURM_CONF']}" in environ
            step = words.startswith("slurmstepd") and is_mine
            if (
                spool in words
                or (is_mine and f"SLURMD_NODENAME={name}" in environ)
                or (step and self._node_of_step(int(entry.name)) == name)
            ):
                found.append(int(entry.name))
        return found

    def _node_of_step(self, pid: int) -> str:
        links = Path(f"/proc/{pid}/fd")
        try:
            for link in links.iterdir():
                target = os.readlink(link)
                for name in self.names:
                    if f"/slurmd.{name}.log" in target or f"/spool/{name}/" in target:
                        return name
        except OSError:
            return ""
        return ""

    def close(self) -> None:
        """Stop every daemon by its pid file, kill the jobs' rest, remove the directory."""
        for name in self.names:
            for pid in self._started_on(name):
                _kill(pid, signal.SIGKILL)
        for file in [*self.top.glob("run/*.pid"), self.top / "munge/pid"]:
            try:
                _kill(int(file.read_text()), signal.SIGKILL)
            except (OSError, ValueError):
                continue
        if self.database is not None:
            self.database.kill()
            self.database.wait(timeout=10)
        pids = subprocess.run(
            ["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False
        ).stdout.split()
        for pid in pids:
            _kill(int(pid), signal.SIGKILL)
        time.sleep(0.3)
        shutil.rmtree(self.top, ignore_errors=True)


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
