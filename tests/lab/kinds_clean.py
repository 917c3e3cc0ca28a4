"""Runs that succeed, quietly or with all the noise that real jobs make on the way."""

import os
import signal
import subprocess
import time

from tests.lab.kinds_program import _checkpoint
from tests.lab.registry import CLEAN, kind
from tests.lab.run import VENV, Run

NOISY = 1


def _clean(run: Run, *options: str, nodes: int = 1, within: float = 60, **how: object) -> None:
    run.nodes(nodes)
    run.data()
    run.start("--steps", "12", *options, **how)  # type: ignore[arg-type]
    run.finish(within)


@kind(CLEAN, is_core=True)
def clean_one_node(run: Run) -> None:
    """Nothing happens."""
    _clean(run)


@kind(CLEAN)
def clean_two_nodes(run: Run) -> None:
    """Nothing happens, on two nodes."""
    _clean(run, nodes=2)


@kind(CLEAN, runs=NOISY)
def clean_three_nodes(run: Run) -> None:
    """Nothing happens, on three nodes."""
    _clean(run, nodes=3)


@kind(CLEAN, runs=NOISY)
def clean_ddp(run: Run) -> None:
    """DistributedDataParallel."""
    _clean(run, "--parallel", "ddp")


@kind(CLEAN)
def noisy_verbose_logs(run: Run) -> None:
    """All of PyTorch's own chatter is on."""
    _clean(run, env={"TORCH_CPP_LOG_LEVEL": "INFO", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"})


@kind(CLEAN, is_core=True)
def noisy_bad_records_skipped(run: Run) -> None:
    """Broken records are logged with their tracebacks and skipped."""
    run.nodes()
    run.data()
    for rank in range(run.world):
        run.spoil_line(rank, 10 + rank, "{")
    run.start("--steps", "9", "--retries", "2")
    run.finish()


@kind(CLEAN)
def noisy_gradients_skipped(run: Run) -> None:
    """Steps with non-finite gradients are skipped."""
    run.nodes()
    run.data()
    run.edit_record(run.victim(), 18, features=[float("inf")] * 16)
    run.start("--steps", "12", "--skip-nonfinite")
    run.finish()


@kind(CLEAN, runs=NOISY)
def noisy_group_not_destroyed(run: Run) -> None:
    """The process group is not destroyed at the end."""
    _clean(run, "--keep-group")


@kind(CLEAN, runs=NOISY)
def clean_checkpoints(run: Run) -> None:
    """Checkpoints are saved."""
    _clean(run, "--save-every", "3")


@kind(CLEAN, runs=NOISY)
def clean_resume(run: Run) -> None:
    """A run goes on from a checkpoint."""
    run.nodes()
    run.data()
    _checkpoint(run)
    run.start("--steps", "14", "--resume", "checkpoints/step-4.pt")
    run.finish()


@kind(CLEAN, runs=1)
def noisy_elastic_restart(run: Run) -> None:
    """A rank is killed, the launcher restarts all of them, and the job comes to its end."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.start("--steps", "14", "--timeout", "8", torchrun=("--max-restarts", "8", "--standalone"))
    run.wait_step(3)
    run.blame(f"SIGKILL was sent to rank {victim}; the restart succeeded", [victim])
    run.send(victim, signal.SIGKILL)
    run.finish(80)


@kind(CLEAN)
def noisy_rank_paused(run: Run) -> None:
    """A rank is paused for less than the timeout."""
    run.nodes()
    run.data()
    run.start("--steps", "14", "--timeout", "15")
    run.wait_step(3)
    run.blame("a rank was paused for 4 s")
    victim = run.victim()
    run.send(victim, signal.SIGSTOP)
    time.sleep(4)
    run.send(victim, signal.SIGCONT)
    run.finish()


@kind(CLEAN)
def noisy_link_flap(run: Run) -> None:
    """The interface of a node goes down for two seconds and comes back."""
    run.nodes(2)
    run.data()
    run.start("--steps", "14", "--timeout", "20")
    run.wait_step(3)
    run.blame("the interface of a node was down for 2 s")
    run.network.at(1, "ip", "link", "set", "eth0", "down")
    time.sleep(2)
    run.network.at(1, "ip", "link", "set", "eth0", "up")
    run.finish()


@kind(CLEAN)
def noisy_packets_lost(run: Run) -> None:
    """One packet in five is lost."""
    run.nodes(2)
    run.data()
    rules = "add table ip f; add chain ip f i { type filter hook input priority 0 ; }; "
    rule = "add rule ip f i iifname eth0 numgen random mod 5 < 1 drop"
    for node in range(2):
        run.network.at(node, "nft", rules + rule)
    run.start("--steps", "8", "--timeout", "25")
    run.finish(90)


@kind(CLEAN)
def noisy_slow_link(run: Run) -> None:
    """The link of a node carries no more than 500 kbit/s."""
    run.nodes(2)
    run.data()
    words = ("tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "500kbit")
    run.network.at(1, *words, "burst", "4k", "latency", "400ms")
    run.start("--steps", "10", "--timeout", "25")
    run.finish()


@kind(CLEAN, runs=NOISY)
def clean_loader_workers(run: Run) -> None:
    """Data-loader workers."""
    run.nodes(per_node=2)
    run.data()
    run.start("--steps", "10", "--workers", "1")
    run.finish()


@kind(CLEAN, runs=NOISY)
def noisy_too_many_workers(run: Run) -> None:
    """The loader advises against so many workers."""
    run.nodes(per_node=2)
    run.data()
    run.start("--steps", "10", "--workers", "4")
    run.finish(80)


@kind(CLEAN)
def noisy_shutdown_on_request(run: Run) -> None:
    """All ranks are asked to end, handle it, and leave with exit code 0."""
    run.nodes()
    run.data()
    run.start("--steps", "60", "--graceful")
    run.wait_step(3)
    run.blame("SIGUSR1 was sent to all ranks, which leave on it")
    for pid in run.ranks_pids().values():
        os.kill(pid, signal.SIGUSR1)
    run.finish()


@kind(CLEAN, runs=NOISY)
def clean_barriers(run: Run) -> None:
    """Monitored barriers."""
    _clean(run, "--barrier-every", "2")


@kind(CLEAN, runs=NOISY)
def noisy_anomaly_mode(run: Run) -> None:
    """Anomaly detection warns that it is slow."""
    _clean(run, "--detect-anomaly")


@kind(CLEAN, needs=("memory cgroup", "kernel log"))
def noisy_neighbour_out_of_memory(run: Run) -> None:
    """Another program on the node is killed for its memory; the job does not notice."""
    run.nodes()
    run.data()
    run.start("--steps", "25")
    run.wait_step(3)
    run.blame("an unrelated process was killed by its own memory cgroup")
    from tests.lab.machine import Group

    group = Group(f"job_{run.job_id}/session")
    run.at_end(group.close)
    group.limit_bytes(30 << 20)
    code = "b=[]\nfor i in range(80): b.append(bytearray(1<<20))"
    shell = f"echo $$ > {group.path}/cgroup.procs; exec /usr/bin/python3 -c '{code}'"
    subprocess.run(["sh", "-c", shell], check=False, capture_output=True, timeout=20)
    run.finish()


@kind(CLEAN, runs=NOISY)
def noisy_first_attempt_failed(run: Run) -> None:
    """A script tries again after the port was in use, and succeeds."""
    run.nodes(per_node=2)
    run.data()
    (run.work / "launch.sh").write_text(
        "for port in 29500 29501; do\n"
        "torchrun --nproc-per-node 2 --master-port $port train.py --steps 10 && exit 0\n"
        "done\nexit 1\n"
    )
    listener = (
        'python3 -c "import socket,time; s=socket.socket(); '
        's.bind((\\"0.0.0.0\\",29500)); s.listen(); time.sleep(40)" & sleep 0.5'
    )
    run.start(command=["bash", "launch.sh"], setup=listener)
    run.agents[0].process.wait(timeout=70)
    run.finish()


@kind(CLEAN, runs=NOISY)
def clean_static_rendezvous(run: Run) -> None:
    """Two nodes with fixed node ranks."""
    run.nodes(2, per_node=1)
    run.data()
    base = [str(VENV / "bin/torchrun"), "--nnodes", "2", "--nproc-per-node", "1"]
    for node in range(2):
        words = ["--node-rank", str(node), "--master-addr", run.names[0], "--master-port", "29511"]
        run.start(command=[*base, *words, "train.py", "--steps", "10"], only=[node])
    run.finish()
