"""Faults under Open MPI."""

import os
import shutil
import signal
import time

from tests.lab.kinds_process import KILLED, SENT, STOPPED
from tests.lab.kinds_program import OTHERS, PROGRAM, SETTINGS
from tests.lab.registry import CLEAN, Label, kind
from tests.lab.run import PROGRAMS, PYTHON, Run

NEEDS = ("mpirun", "python:mpi4py")
ENV = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def _start(run: Run, *words: str, steps: int = 60, plain: bool = False) -> None:
    shutil.copy(PROGRAMS / "mpi_train.py", run.work / "mpi_train.py")
    base = ["mpirun", "-n", str(run.world), "--oversubscribe", "--mca", "btl", "self,vader"]
    tags = ["--tag-output"] if run.index % 2 else []
    python = [str(PYTHON), *([] if plain else ["-m", "mpi4py"])]
    command = [*base, *tags, *words, *python, "mpi_train.py", str(steps), "0.1"]
    run.start(command=command, env=ENV | {"OMPI_MCA_plm": "isolated"})


def _pids(run: Run) -> dict[int, int]:
    found = {}
    for pid in run.groups[0].pids():
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        for word in words:
            if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(word.split(b"=")[1])] = pid
    return found


@kind(
    Label(
        "application", also=("data", "operator", "unknown"), also_quality=("probable", "ambiguous"),
        names_ranks=True, also_terminal=("cancelled", "hung"), innocent=(*OTHERS, "storage"),
        why="The traceback of one rank; its peers waited on until somebody interrupted mpirun.",
    ),
    needs=NEEDS,
    shows="JSONDecodeError",
)  # fmt: skip
def mpi_exception_hangs(run: Run) -> None:
    """A rank meets a broken record, the others wait, and somebody interrupts mpirun."""
    run.nodes(per_node=2 + run.index)
    run.data(records=80)
    victim = run.victim()
    run.spoil_line(victim, 12, '{"features": [')
    run.blame("a broken record", [victim])
    _start(run, steps=30, plain=True)
    run.wait_for("JSONDecodeError")
    time.sleep(5)
    run.send_agent(0, signal.SIGINT)
    run.finish(25)


def _signal(run: Run, number: signal.Signals) -> None:
    run.nodes(per_node=2 + run.index)
    run.data(records=80)
    victim = run.victim()
    _start(run)
    run.wait_step()
    run.blame(f"{number.name} was sent to rank {victim}", [victim])
    os.kill(_pids(run)[victim], number)
    run.finish()


@kind(KILLED, needs=NEEDS)
def mpi_rank_sigkill(run: Run) -> None:
    """A rank under mpirun is killed from outside."""
    _signal(run, signal.SIGKILL)


@kind(SENT, needs=NEEDS)
def mpi_rank_sigsegv(run: Run) -> None:
    """A rank under mpirun gets SIGSEGV."""
    _signal(run, signal.SIGSEGV)


@kind(PROGRAM, needs=NEEDS, shows="JSONDecodeError")
def mpi_exception(run: Run) -> None:
    """A rank under mpirun meets a broken record."""
    run.nodes(per_node=2 + run.index)
    run.data(records=80)
    victim = run.victim()
    run.spoil_line(victim, 12, '{"features": [')
    run.blame("a broken record", [victim])
    _start(run, steps=30)
    run.finish(25)


@kind(
    Label(
        "application", also=("data", "unknown", "framework", "operator"), quality="probable",
        also_quality=("definitive", "ambiguous", "insufficient"), names_ranks=True,
        also_terminal=("cancelled", "hung"), innocent=(*OTHERS, "storage"),
        why="Ranks entered an all-reduce with buffers of unequal size.",
    ),
    needs=NEEDS, shows="step 5/",
)  # fmt: skip
def mpi_message_truncated(run: Run) -> None:
    """One rank enters an all-reduce with a larger buffer than the others."""
    run.nodes(per_node=2 + run.index)
    run.data(records=80)
    victim = run.victim()
    run.edit_record(victim, 14, features=[0.5] * 4000)
    run.blame("a record of 4000 features", [victim])
    _start(run, steps=30)
    run.finish(25)


@kind(SETTINGS, needs=NEEDS, shows="unable to|not find|could not")
def mpi_program_missing(run: Run) -> None:
    """mpirun is given a program that does not exist."""
    run.nodes(per_node=2)
    run.data()
    run.blame("the program does not exist", [0, 1])
    name = ("./run_train", "python3.8-cuda", "/opt/apps/train.sh")[run.index % 3]
    run.start(command=["mpirun", "-n", "2", name, "10"], env=ENV | {"OMPI_MCA_plm": "isolated"})
    run.finish()


@kind(SETTINGS, needs=NEEDS, shows="slots")
def mpi_not_enough_slots(run: Run) -> None:
    """mpirun is asked for more ranks than there are slots."""
    run.nodes(per_node=2)
    run.data()
    run.blame("more ranks than slots")
    words = ["mpirun", "-n", str(64 + run.index), "--host", "localhost:2", "python3", "train.py"]
    run.start(command=words, env=ENV | {"OMPI_MCA_plm": "isolated"})
    run.finish()


@kind(STOPPED, needs=NEEDS)
def mpi_interrupted(run: Run) -> None:
    """mpirun gets SIGINT or SIGTERM."""
    run.nodes(per_node=2)
    run.data(records=80)
    _start(run)
    run.wait_step()
    run.blame("mpirun was told to stop")
    run.send_agent(0, (signal.SIGINT, signal.SIGTERM)[run.index % 2])
    run.finish()


@kind(CLEAN, needs=NEEDS)
def clean_mpi(run: Run) -> None:
    """Nothing happens under mpirun."""
    run.nodes(per_node=2 + run.index)
    run.data(records=40)
    _start(run, steps=12)
    run.finish()
