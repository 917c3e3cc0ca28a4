"""Faults that happen to processes: signals, memory, hangs, data-loader workers."""

import contextlib
import os
import random
import signal
import time
from functools import partial

from tests.lab.registry import HARDWARE, OPEN, Label, kind
from tests.lab.run import Run

OTHERS = (*HARDWARE, "network", "storage", "scheduler")
KILLED = Label(
    "unknown", also=("operator", "host"), quality="ambiguous",
    also_quality=("insufficient",), names_ranks=True, innocent=OTHERS,
    why="A signal without a record of its sender: the rank is known, the reason is not.",
)  # fmt: skip
CRASHED = Label(
    "application", also=("framework", "unknown"), quality="probable",
    also_quality=("ambiguous", "insufficient", "definitive"), names_ranks=True, innocent=OTHERS,
    why="A native fault inside the process of one rank.",
)  # fmt: skip
SENT = Label(
    "unknown", also=("application", "framework", "operator"), quality="insufficient",
    also_quality=("ambiguous", "probable"), names_ranks=True, innocent=OTHERS,
    why="One rank ended by a signal; whether it or somebody else raised it is not shown.",
)  # fmt: skip
STOPPED = Label(
    "operator", also=("unknown", "scheduler"), quality="probable",
    also_quality=("definitive", "ambiguous", "insufficient"),
    also_terminal=("cancelled",), innocent=OTHERS,
    why="The launcher was told to stop from outside.",
)  # fmt: skip


def _signal_one_rank(run: Run, number: signal.Signals, nodes: int = 1) -> None:
    run.nodes(nodes)
    run.data()
    victim = run.victim()
    run.start("--steps", "60")
    run.wait_step()
    run.blame(f"{number.name} was sent to rank {victim}", [victim])
    run.send(victim, number)
    run.finish()


@kind(KILLED, is_core=True)
def rank_sigkill(run: Run) -> None:
    """One rank is killed from outside."""
    _signal_one_rank(run, signal.SIGKILL)


@kind(KILLED)
def rank_sigkill_two_nodes(run: Run) -> None:
    """One rank of two nodes is killed from outside."""
    _signal_one_rank(run, signal.SIGKILL, nodes=2)


@kind(KILLED)
def rank_sigterm(run: Run) -> None:
    """One rank is asked to end from outside."""
    _signal_one_rank(run, signal.SIGTERM)


@kind(KILLED)
def rank_sigusr1(run: Run) -> None:
    """One rank gets a signal that it does not handle."""
    _signal_one_rank(run, signal.SIGUSR1)


@kind(KILLED)
def rank_sighup(run: Run) -> None:
    """One rank gets SIGHUP."""
    _signal_one_rank(run, signal.SIGHUP)


@kind(SENT)
def rank_sigabrt(run: Run) -> None:
    """One rank gets SIGABRT without a word."""
    _signal_one_rank(run, signal.SIGABRT)


@kind(SENT)
def rank_sigfpe(run: Run) -> None:
    """One rank gets SIGFPE."""
    _signal_one_rank(run, signal.SIGFPE)


@kind(SENT)
def rank_sigill(run: Run) -> None:
    """One rank gets SIGILL."""
    _signal_one_rank(run, signal.SIGILL)


@kind(STOPPED, is_core=True)
def launcher_interrupted(run: Run) -> None:
    """Ctrl-C at the launcher."""
    run.nodes()
    run.data()
    run.start("--steps", "60")
    run.wait_step()
    run.blame("SIGINT was sent to the launcher")
    run.send_agent(0, signal.SIGINT)
    run.finish()


@kind(STOPPED)
def launcher_terminated(run: Run) -> None:
    """The launcher is asked to end, as a scheduler or an admin does."""
    run.nodes()
    run.data()
    run.start("--steps", "60")
    run.wait_step()
    run.blame("SIGTERM was sent to the launcher")
    run.send_agent(0, signal.SIGTERM)
    run.finish()


@kind(STOPPED)
def launcher_hangup(run: Run) -> None:
    """The terminal of the launcher goes away."""
    run.nodes()
    run.data()
    run.start("--steps", "60")
    run.wait_step()
    run.blame("SIGHUP was sent to the launcher")
    run.send_agent(0, signal.SIGHUP)
    run.finish()


@kind(CRASHED, is_core=True)
def native_segfault(run: Run) -> None:
    """A native function is given a null pointer because a record lacks a field."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.edit_record(victim, run.rng.randrange(16, 30), text=None)
    run.start("--steps", "30", "--decode", "native")
    run.blame(f"record without text in the shard of rank {victim}: strlen(NULL)", [victim])
    run.finish()


@kind(
    Label(
        "storage", also=("application", "data", "unknown"), quality="probable",
        also_quality=("ambiguous", "insufficient", "definitive"), names_ranks=True,
        innocent=(*HARDWARE, "network", "scheduler", "operator"),
        why="A mapped file became shorter while it was read: SIGBUS in one rank.",
    )
)  # fmt: skip
def mapped_file_truncated(run: Run) -> None:
    """A memory-mapped data file is truncated while the job reads it."""
    run.nodes()
    width = 4096
    run.data()
    victim = run.victim()
    for rank in range(run.world):
        path = run.shard(rank).with_suffix(".bin")
        path.write_bytes(os.urandom(64) * (40 * width * 4 // 64))
        os.truncate(path, 40 * width * 4)
    run.start("--steps", "80", "--decode", "mapped", "--width", str(width), "--lr", "0")
    run.wait_step(4)
    run.blame(f"the mapped file of rank {victim} was truncated", [victim])
    os.truncate(run.shard(victim).with_suffix(".bin"), 4096)
    run.finish()


OOM = Label(
    "host", also=("application",), quality="definitive", terminal="failed",
    also_terminal=("out_of_memory",), names_ranks=True, may_name_nodes=True,
    innocent=(*HARDWARE, "network", "storage"),
    why="The kernel's log holds the kill by the memory cgroup.",
)  # fmt: skip


@kind(OOM, needs=("memory cgroup", "kernel log"), is_core=True)
def cgroup_out_of_memory(run: Run) -> None:
    """One rank keeps its features until the node's memory cgroup is full."""
    run.nodes()
    run.data(pad=0)
    victim = run.victim()
    run.write_shard(victim, [row | {"pad": 6_000_000} for row in run.read_shard(victim)])
    run.groups[0].limit_bytes((400 + 350 * run.world) << 20)
    run.blame(f"rank {victim} keeps features until the memory limit", [victim])
    run.start("--steps", "100", "--keep-features", "--pace", "0.05")
    run.finish()


@kind(OPEN, needs=("memory cgroup", "kernel log"))
def cgroup_out_of_memory_unseen(run: Run) -> None:
    """The same, and nobody collected the kernel's log."""
    cgroup_out_of_memory(run)
    run.truth.kind = run.kind
    run.kernel_log = lambda: []  # type: ignore[method-assign]


@kind(
    Label(
        "application", also=("host",), quality="probable", also_quality=("definitive", "ambiguous"),
        names_ranks=True, innocent=(*HARDWARE, "network", "storage"),
        why="The allocator was refused memory under an address-space limit.",
    ),
    shows="allocate|MemoryError",
)  # fmt: skip
def allocation_refused(run: Run) -> None:
    """An address-space limit refuses memory to one rank."""
    run.nodes()
    run.data(pad=0)
    victim = run.victim()
    run.write_shard(victim, [row | {"pad": 30_000_000} for row in run.read_shard(victim)])
    run.blame(f"rank {victim} keeps features until its address space is full", [victim])
    run.start("--steps", "80", "--keep-features", setup="ulimit -v 3500000")
    run.finish(90)


LOADER_KILLED = Label(
    "unknown", also=("host", "application", "operator"), quality="ambiguous",
    also_quality=("insufficient", "probable"), names_ranks=True, innocent=OTHERS,
    why="A data-loader worker was killed; nothing says by whom.",
)  # fmt: skip


@kind(LOADER_KILLED, is_core=True)
def loader_worker_killed(run: Run) -> None:
    """A data-loader worker of one rank is killed."""
    run.nodes(per_node=2 + run.index % 2)
    run.data()
    victim = run.victim()
    run.start("--steps", "60", "--workers", "1")
    run.wait_step()
    run.blame(f"SIGKILL was sent to a data-loader worker of rank {victim}", [victim])
    workers = run.children_of(run.ranks_pids()[victim])
    os.kill(workers[-1], signal.SIGKILL)
    run.finish()


@kind(
    Label(
        "host", also=("application", "operator"), quality="definitive",
        also_quality=("probable", "ambiguous"),
        also_terminal=("out_of_memory",), names_ranks=True, may_name_nodes=True,
        innocent=(*HARDWARE, "network", "storage"),
        why="The kernel killed a data-loader worker in the memory cgroup.",
    ),
    needs=("memory cgroup", "kernel log"),
)  # fmt: skip
def loader_worker_out_of_memory(run: Run) -> None:
    """A record is so large that the data-loader worker that reads it exceeds the memory limit."""
    run.nodes(per_node=2)
    run.data()
    victim = run.victim()
    run.edit_record(victim, 9, text="a" * (180 << 20))
    run.groups[0].limit_bytes(800 << 20)
    run.blame(f"a record of 180 MB in the shard of rank {victim}, decoded by a worker", [victim])
    run.start("--steps", "60", "--workers", "2", "--decode", "native")
    run.finish()


HUNG = Label(
    "unknown", also=("application", "framework"), quality="insufficient",
    also_quality=("ambiguous", "probable"), names_ranks=True,
    also_terminal=("hung", "cancelled", "timeout"),
    innocent=(*HARDWARE, "network", "host", "scheduler", "operator"),
    why="All others waited in a collective; what held the missing rank is not in the logs.",
)  # fmt: skip


@kind(HUNG, is_core=True)
def rank_frozen(run: Run) -> None:
    """One rank is stopped (SIGSTOP); the others time out in the all-reduce."""
    run.nodes(per_node=3 if run.index == 1 else None)
    run.data()
    victim = run.victim()
    run.start("--steps", "100", "--timeout", "6")
    run.wait_step()
    run.blame(f"SIGSTOP was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGSTOP)
    run.finish(75)


@kind(HUNG)
def rank_frozen_two_nodes(run: Run) -> None:
    """The same over two nodes."""
    run.nodes(2)
    run.data()
    victim = run.victim()
    run.start("--steps", "100", "--timeout", "6")
    run.wait_step()
    run.blame(f"SIGSTOP was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGSTOP)
    run.finish(75)


@kind(HUNG)
def data_read_never_returns(run: Run) -> None:
    """The shard of one rank is a pipe that nobody writes to any more: its read never returns."""
    run.nodes()
    run.data()
    victim = run.victim()
    text = "".join(run.shard(victim).read_text().splitlines(keepends=True)[:24])
    run.shard(victim).unlink()
    os.mkfifo(run.shard(victim))
    run.start("--steps", "60", "--timeout", "6")
    run.blame(f"the input of rank {victim} dries up", [victim])
    _feed(run, run.shard(victim), text)
    run.finish(75)


def _feed(run: Run, path: object, text: str) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            handle = os.open(str(path), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.2)
            continue
        os.write(handle, text.encode())
        run.at_end(partial(os.close, handle))
        return


@kind(
    Label(
        "unknown", also=("application", "framework"), quality="insufficient",
        also_quality=("ambiguous", "probable", "definitive"), names_ranks=True,
        innocent=(*HARDWARE, "network", "host", "scheduler", "operator"),
        why="The barrier names who did not come in time; why is not in the logs.",
    ),
    is_core=True,
)  # fmt: skip
def monitored_barrier_missed(run: Run) -> None:
    """One rank is stopped; the others wait in a monitored barrier that names it."""
    run.nodes(per_node=3 if run.index == 1 else None)
    run.data()
    victim = run.victim(first=1)
    run.start("--steps", "100", "--timeout", "5", "--barrier-every", "1", "--pace", "0.3")
    run.wait_step()
    run.blame(f"SIGSTOP was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGSTOP)
    run.finish(75)


@kind(HUNG)
def rank_too_slow(run: Run) -> None:
    """One rank is paused for longer than the collective timeout, again and again."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.start("--steps", "100", "--timeout", "4")
    run.wait_step()
    run.blame(f"rank {victim} was paused for 9 s", [victim])
    pid = run.ranks_pids()[victim]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(9)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
    run.finish(75)


@kind(OPEN)
def everything_killed_at_once(run: Run) -> None:
    """All processes of the only node are killed, as a power cut does."""
    run.nodes()
    run.data()
    run.start("--steps", "60")
    run.wait_step()
    run.blame("all processes were killed", nodes=[0])
    run.kill_node(0)
    run.finish()


@kind(OPEN)
def one_node_lost(run: Run) -> None:
    """All processes of one of two or three nodes are killed at once."""
    count = 2 + random.Random(run.index).randrange(2)
    run.nodes(count, per_node=1 if count == 3 else 2)
    run.data()
    node = 1 + run.index % (count - 1)
    run.start("--steps", "60", "--timeout", "6")
    run.wait_step()
    run.blame(f"all processes on node {run.names[node]} were killed", nodes=[node])
    run.kill_node(node)
    run.finish(40)


@kind(OPEN)
def first_node_lost(run: Run) -> None:
    """All processes of the node that hosts the store are killed at once."""
    run.nodes(2)
    run.data()
    run.start("--steps", "60", "--timeout", "6")
    run.wait_step()
    run.blame(f"all processes on node {run.names[0]} were killed", nodes=[0])
    run.kill_node(0)
    run.finish(40)


@kind(
    Label(
        "unknown", also=("operator", "application", "framework"), quality="insufficient",
        also_quality=("ambiguous", "probable", "definitive"), names_ranks=True,
        also_terminal=("cancelled", "hung"),
        innocent=(*HARDWARE, "network", "host", "storage", "scheduler"),
        why="Somebody interrupted a job that had stopped making steps; what held it is not shown.",
    )
)  # fmt: skip
def frozen_then_interrupted(run: Run) -> None:
    """One rank is stopped; after a while somebody presses Ctrl-C at the launcher."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.start("--steps", "100", "--timeout", "300")
    run.wait_step()
    run.blame(f"SIGSTOP was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGSTOP)
    time.sleep(8)
    run.send_agent(0, signal.SIGINT)
    run.finish(75)
