"""Faults of jobs on a real Slurm cluster."""

import os
import signal
import time

from tests.lab.kinds_process import KILLED
from tests.lab.kinds_program import PROGRAM
from tests.lab.registry import ALL_DOMAINS, CLEAN, HARDWARE, Label, kind
from tests.lab.run import VENV, Run
from tests.lab.slurm import NEEDS, Cluster

DONE = (
    "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED",
)  # fmt: skip
SCHEDULED = tuple(
    each for each in ALL_DOMAINS if each not in ("scheduler", "operator", "application")
)
SCRIPT = """\
#!/bin/bash
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=$SLURM_NTASKS GLOO_SOCKET_IFNAME=lo
export PATH={venv}/bin:$PATH
srun {srun} bash -c 'export RANK=$SLURM_PROCID; exec python -u train.py {options}'
"""


class Job:
    """The training job of a run on a cluster of its own."""

    def __init__(self, run: Run, *, nodes: int = 2, per_node: int = 1, preempt: str = "CANCEL"):
        self.run = run
        run.nodes(1, per_node=1)
        form, first = run.names[0], run.rng.randrange(1, 60)
        stem = form.rstrip("0123456789")
        run.names = [f"{stem}{first + index:03d}" for index in range(nodes)]
        run.per_node = per_node
        run.scheduler = "slurm"
        assert run.network is not None
        space = run.network.spaces[0]
        hosts = f"127.0.0.1 localhost {os.uname().nodename}\n" + "".join(
            f"127.0.0.1 {name}\n" for name in run.names
        )
        with open(f"/etc/netns/{space}/hosts", "w", encoding="utf-8") as file:
            file.write(hosts)
        self.cluster = Cluster(space, run.names, preempt=preempt, first_job=int(run.job_id))
        run.at_end(self.cluster.close)
        run.data()
        run.work.chmod(0o777)
        self.id = ""

    def submit(self, *sbatch: str, options: str = "--steps 60", srun: str = "-l") -> None:
        """Write the batch script and submit it."""
        run = self.run
        style = ("stamped", "all", "plain")[run.index % 3]
        text = SCRIPT.format(venv=VENV, srun=srun, options=f"--log-style {style} {options}")
        (run.work / "job.sh").write_text(text)
        size = ["-N", str(len(run.names)), f"--ntasks-per-node={run.per_node}"]
        out = ["-o", str(run.work / "slurm-%A.out"), "-D", str(run.work)]
        self.id = self.cluster.submit(*size, *out, *sbatch, str(run.work / "job.sh"))
        run.job_id = self.id

    @property
    def output(self) -> str:
        """What the job printed so far."""
        base = self.id.split("_")[0]
        return "".join(
            each.read_text(errors="replace") for each in self.run.work.glob(f"slurm-{base}*.out")
        )

    def wait_for(self, text: str, within: float = 40) -> None:
        """Wait until the job has printed a text."""
        end = time.monotonic() + within
        while time.monotonic() < end and text not in self.output:
            time.sleep(0.2)
        if text not in self.output:
            raise RuntimeError(f"{text!r} was not printed: {self.output[-1500:]}")

    def pid_of(self, rank: int) -> int:
        """Return the process of a task."""
        node = self.run.names[self.run.node_of(rank)]
        for pid in self.cluster._started_on(node):
            with open(f"/proc/{pid}/environ", "rb") as file:
                environ = file.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read()
            is_rank = f"SLURM_PROCID={rank}".encode() in environ and b"train.py" in words
            if is_rank and not words.startswith(b"bash"):
                return pid
        raise RuntimeError(f"no process of rank {rank}")

    def finish(self, within: float = 60, states: tuple[str, ...] = DONE) -> None:
        """Wait for the end and collect what Slurm knows of the job."""
        run, cluster = self.run, self.cluster
        state = cluster.wait(self.id, states, within)
        time.sleep(1)
        record = cluster.command(
            "sacct", "-X", "-n", "-P", "-o", "state,exitcode,start,end", "-j", self.id
        ).strip().split("\n")[-1].split("|")  # fmt: skip
        run.state, run.exit_code = (record[0] or state).split(" ")[0], record[1]
        run.start_at, run.end_at = f"{record[2]}Z", f"{record[3]}Z"
        base = self.id.split("_")[0]
        entries = [
            {"path": f"slurm-{base}.out", "source": "applog", "text": self.output,
             "node": run.names if len(run.names) > 1 else run.names[0]},
            {"path": "sacct.txt", "source": "scheduler", "text": cluster.records(self.id)},
        ]  # fmt: skip
        if run.index % 3 != 1:
            words = (f"JobId={self.id}", f"job {self.id}", f"job_{self.id}", *run.names)
            text = cluster.log_about("slurmctld", *words)
            entries.append({"path": "slurmctld.log", "source": "syslog", "text": text})
        if run.index % 3 == 2:
            text = cluster.command("scontrol", "show", "job", self.id, check=False)
            entries.append({"path": "scontrol.txt", "source": "scheduler", "text": text})
        run.extra_evidence += [each for each in entries if each["text"].strip()]


@kind(
    Label(
        "scheduler", also=("operator",), also_quality=("probable",), terminal="timeout",
        innocent=(*SCHEDULED, "application"),
        why="The job ran into its time limit while it trained.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_time_limit(run: Run) -> None:
    """The job needs more than its minute."""
    job = Job(run, nodes=1 + run.index % 2)
    run.time_limit = "00:01:00"
    run.blame("a time limit of one minute")
    job.submit("--time=1", options="--steps 4000 --pace 0.25")
    job.finish(130)


@kind(
    Label(
        "operator", also=("scheduler",), also_quality=("probable",), terminal="cancelled",
        innocent=(*SCHEDULED, "application"), why="The job was cancelled by its user.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_cancelled(run: Run) -> None:
    """scancel in the middle of training."""
    job = Job(run, nodes=1 + run.index % 2)
    job.submit()
    job.wait_for("step 5/")
    run.blame("the job was cancelled")
    job.cluster.command("scancel", job.id)
    job.finish()


@kind(
    Label(
        "scheduler", also=("operator",), also_quality=("probable",), terminal="preempted",
        also_terminal=("cancelled",), innocent=(*SCHEDULED, "application"),
        why="A job of a partition with higher priority took the nodes.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_preempted(run: Run) -> None:
    """A job of higher priority takes the nodes."""
    job = Job(run, nodes=1 + run.index % 2)
    job.submit("--exclusive")
    job.wait_for("step 5/")
    run.blame("a job of another partition preempted it")
    job.cluster.submit(
        "-p", "urgent", "-N", str(len(run.names)), "--exclusive", "-o", "/dev/null",
        "--wrap", "sleep 20",
    )  # fmt: skip
    job.finish()


@kind(
    Label(
        "host", also=("unknown", "scheduler"),
        also_quality=("probable", "ambiguous", "insufficient"),
        terminal="node_fail", names_nodes=True, may_name_nodes=True,
        innocent=(*HARDWARE, "application", "storage", "operator"),
        why="Slurm records that the node stopped answering.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_node_failed(run: Run) -> None:
    """slurmd and everything that it started on one node is killed."""
    job = Job(run, nodes=2)
    job.submit(options="--steps 400 --timeout 60")
    job.wait_for("step 5/")
    node = run.index % 2
    run.blame("the node's daemon and all its processes were killed", nodes=[node])
    job.cluster.fail_node(run.names[node])
    job.finish(70)


@kind(
    Label(
        "host", also=("application",), also_quality=("probable",), terminal="out_of_memory",
        also_terminal=("failed",), names_ranks=True, may_name_nodes=True,
        innocent=(*HARDWARE, "network", "storage", "operator"),
        why="Slurm records that the step was killed for its memory.",
    ),
    needs=(*NEEDS, "memory cgroup"),
)  # fmt: skip
def slurm_out_of_memory(run: Run) -> None:
    """One task exceeds the memory of the job on its node."""
    job = Job(run, nodes=1 + run.index % 2)
    victim = run.victim()
    run.data(pad=0)
    run.write_shard(victim, [row | {"pad": 6_000_000} for row in run.read_shard(victim)])
    run.blame(f"rank {victim} keeps features until the memory limit", [victim])
    job.submit("--mem=700", options="--steps 100 --keep-features --pace 0.05")
    job.finish()


@kind(KILLED, needs=NEEDS)
def slurm_task_killed(run: Run) -> None:
    """One task is killed from outside."""
    job = Job(run, nodes=2, per_node=1 + run.index % 2)
    job.submit()
    job.wait_for("step 5/")
    victim = run.victim()
    run.blame(f"SIGKILL was sent to rank {victim}", [victim])
    os.kill(job.pid_of(victim), signal.SIGKILL)
    job.finish()


@kind(PROGRAM, needs=NEEDS)
def slurm_bad_record(run: Run) -> None:
    """A broken record in the data of one task."""
    job = Job(run, nodes=2, per_node=1 + run.index % 2)
    victim = run.victim()
    run.spoil_line(victim, 18, "{")
    run.blame("a broken record", [victim])
    job.submit(options="--steps 30")
    job.finish()


@kind(PROGRAM, needs=NEEDS)
def slurm_array_task_failed(run: Run) -> None:
    """One element of a job array has broken data; the others complete."""
    job = Job(run, nodes=1)
    run.spoil_line(0, 18, "{")
    good = run.work / "good"
    good.mkdir()
    (good / "shard-0.jsonl").write_text("".join(f"{line}\n" for line in _good_lines(run)))
    (good / "manifest.json").write_text('{"records": [20]}')
    element = run.index % 3
    os.symlink(run.work / "data", run.work / f"data-{element}")
    for other in {0, 1, 2} - {element}:
        os.symlink(good, run.work / f"data-{other}")
    run.blame("broken data of one array element", [0])
    job.submit(
        "--array=0-2%1", "-o", str(run.work / "slurm-%A_%a.out"),
        options="--steps 12 --pace 0 --data data-$SLURM_ARRAY_TASK_ID",
    )  # fmt: skip
    array = job.id
    for each in range(3):
        job.cluster.wait(f"{array}_{each}", DONE, 60)
    job.id = run.job_id = f"{array}_{element}"
    for other in {0, 1, 2} - {element}:
        (run.work / f"slurm-{array}_{other}.out").unlink(missing_ok=True)
    job.finish()


def _good_lines(run: Run) -> list[str]:
    return run.shard(0).read_text().splitlines()[:18]


@kind(
    Label(
        "operator", also=("scheduler", "application", "storage"),
        also_quality=("probable", "ambiguous"),
        also_terminal=("not_started",),
        innocent=(*HARDWARE, "host", "network"), why="srun could not execute the program.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_program_missing(run: Run) -> None:
    """srun is given a program that does not exist."""
    job = Job(run, nodes=1 + run.index % 2)
    name = ("./launch_train", "python3.9-cuda118", "/opt/apps/run.sh")[run.index % 3]
    run.blame(f"{name} does not exist")
    job.submit(srun=f"-l {name} #")
    job.finish()


@kind(
    Label(
        "operator", also=("scheduler", "storage", "application"),
        also_quality=("probable", "ambiguous", "insufficient"),
        also_terminal=("not_started",), innocent=(*HARDWARE, "host", "network"),
        why="Slurm could not write the job's output.",
    ),
    needs=NEEDS,
)  # fmt: skip
def slurm_output_folder_missing(run: Run) -> None:
    """The folder of the job's output does not exist, so the job cannot start."""
    job = Job(run, nodes=1)
    run.blame("the output folder does not exist")
    job.submit("-o", "/nonexistent/logs/%j.out")
    job.finish()
    text = job.cluster.log_about(f"slurmd.{run.names[0]}", "output", "error")
    run.extra_evidence.append(
        {"path": "slurmd.log", "source": "syslog", "node": run.names[0], "text": text}
    )


@kind(CLEAN, needs=NEEDS)
def clean_slurm(run: Run) -> None:
    """Nothing happens on Slurm."""
    job = Job(run, nodes=1 + run.index % 2, per_node=2)
    job.submit(options="--steps 10")
    job.finish()


@kind(CLEAN, needs=NEEDS, runs=2)
def noisy_slurm_requeued(run: Run) -> None:
    """The job is requeued by its user and the second attempt completes."""
    job = Job(run, nodes=1)
    job.submit("--requeue", "--open-mode=append", options="--steps 25")
    job.wait_for("step 4/")
    run.blame("scontrol requeue")
    job.cluster.command("scontrol", "requeue", job.id)
    job.cluster.wait(job.id, ("PENDING", "REQUEUED"), 20)
    time.sleep(4)
    job.cluster.command("scontrol", "update", f"JobId={job.id}", "StartTime=now")
    job.wait_for("training finished", 90)
    job.finish()
