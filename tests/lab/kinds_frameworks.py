"""Faults under other launchers: Accelerate, DeepSpeed, Lightning, Ray."""

import base64
import json
import os
import shutil
import signal

from tests.lab.kinds_process import KILLED
from tests.lab.kinds_program import PROGRAM
from tests.lab.registry import CLEAN, kind
from tests.lab.run import PROGRAMS, PYTHON, VENV, Run

RUN_HERE = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_MEMORY_MONITOR": "1"}


def _accelerate(run: Run, *options: str) -> None:
    # Several processes on CPU would need MPI here, so Accelerate starts one.
    words = [str(VENV / "bin/accelerate"), "launch", "--cpu", "--num_processes", "1"]
    words += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    env = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    run.start(command=[*words, "train.py", "--log-style", "stamped", *options], env=env)


@kind(PROGRAM, shows="JSONDecodeError", needs=("python:accelerate",))
def accelerate_bad_record(run: Run) -> None:
    """A broken record under `accelerate launch`."""
    run.nodes(per_node=1)
    run.data()
    victim = run.victim()
    run.spoil_line(victim, 18, "{")
    run.blame("a broken record", [victim])
    _accelerate(run, "--steps", "30")
    run.finish(60)


@kind(KILLED, needs=("python:accelerate",))
def accelerate_rank_sigkill(run: Run) -> None:
    """A rank under `accelerate launch` is killed."""
    run.nodes(per_node=1)
    run.data()
    victim = run.victim()
    _accelerate(run, "--steps", "60")
    run.wait_step()
    run.blame(f"SIGKILL was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGKILL)
    run.finish(60)


@kind(CLEAN, needs=("python:accelerate",), runs=1)
def clean_accelerate(run: Run) -> None:
    """Nothing happens under `accelerate launch`."""
    run.nodes(per_node=1)
    run.data()
    _accelerate(run, "--steps", "10")
    run.finish(60)


def _deepspeed(run: Run, *options: str) -> None:
    words = [str(PYTHON), "-m", "deepspeed.launcher.launch", "--world_info", _world_info(run)]
    words += ["--master_addr", "127.0.0.1", "--master_port", "29500", "--no_local_rank"]
    run.start(command=[*words, "train.py", "--log-style", "stamped", *options])


def _world_info(run: Run) -> str:
    slots = {"localhost": list(range(run.per_node))}
    return base64.urlsafe_b64encode(json.dumps(slots).encode()).decode()


@kind(PROGRAM, shows="JSONDecodeError", needs=("python:deepspeed",))
def deepspeed_bad_record(run: Run) -> None:
    """A broken record under DeepSpeed's launcher."""
    run.nodes(per_node=2 + run.index % 2)
    run.data()
    victim = run.victim()
    run.spoil_line(victim, 18, "{")
    run.blame("a broken record", [victim])
    _deepspeed(run, "--steps", "30")
    run.finish(60)


@kind(KILLED, needs=("python:deepspeed",))
def deepspeed_rank_sigkill(run: Run) -> None:
    """A rank under DeepSpeed's launcher is killed."""
    run.nodes(per_node=2 + run.index % 2)
    run.data()
    victim = run.victim()
    _deepspeed(run, "--steps", "60")
    run.wait_step()
    run.blame(f"SIGKILL was sent to rank {victim}", [victim])
    run.send(victim, signal.SIGKILL)
    run.finish(60)


@kind(CLEAN, needs=("python:deepspeed",), runs=1)
def clean_deepspeed(run: Run) -> None:
    """Nothing happens under DeepSpeed's launcher."""
    run.nodes(per_node=2)
    run.data()
    _deepspeed(run, "--steps", "10")
    run.finish(60)


def _lightning(run: Run, epochs: int) -> None:
    shutil.copy(PROGRAMS / "lightning_train.py", run.work / "lightning_train.py")
    run.start(command=[str(PYTHON), "lightning_train.py", str(run.world), str(epochs)])


@kind(PROGRAM, shows="JSONDecodeError", needs=("python:lightning",))
def lightning_bad_record(run: Run) -> None:
    """A broken record under Lightning."""
    run.nodes(per_node=2)
    run.data()
    run.blame("a broken record", list(range(run.world)))
    run.spoil_line(0, 20 + run.index, "{")
    _lightning(run, 2)
    run.finish(80)


@kind(CLEAN, needs=("python:lightning",), runs=1)
def clean_lightning(run: Run) -> None:
    """Nothing happens under Lightning."""
    run.nodes(per_node=2)
    run.data()
    _lightning(run, 1)
    run.finish(80)


def _ray(run: Run, steps: int) -> None:
    shutil.copy(PROGRAMS / "ray_train.py", run.work / "ray_train.py")
    run.start(
        command=[str(PYTHON), "ray_train.py", str(run.world), str(steps)],
        env=RUN_HERE | {"RAY_TMPDIR": str(run.work / "r"), "GLOO_SOCKET_IFNAME": "lo"},
    )


@kind(PROGRAM, shows="JSONDecodeError", needs=("python:ray",))
def ray_bad_record(run: Run) -> None:
    """A broken record under Ray."""
    run.nodes(per_node=2)
    run.data()
    victim = run.victim()
    run.spoil_line(victim, 8, "{")
    run.blame("a broken record", [victim])
    _ray(run, 20)
    run.finish(90)


@kind(KILLED, needs=("python:ray",))
def ray_worker_sigkill(run: Run) -> None:
    """A worker process of Ray is killed."""
    run.nodes(per_node=2)
    run.data(records=400)
    victim = run.victim()
    _ray(run, 300)
    if not run.wait_for(r"step 4/", 150):
        raise RuntimeError("step 4 was not reached")
    run.blame(f"SIGKILL was sent to the worker of rank {victim}", [victim])
    pids = json.loads((run.work / "workers.pid").read_text())
    os.kill(pids[victim], signal.SIGKILL)
    run.finish(90)


@kind(CLEAN, needs=("python:ray",), runs=1)
def clean_ray(run: Run) -> None:
    """Nothing happens under Ray."""
    run.nodes(per_node=2)
    run.data()
    _ray(run, 8)
    run.finish(90)
