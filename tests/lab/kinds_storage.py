"""Faults of file systems, made with small ones of the run's own."""

import os
import signal
import subprocess
import time

from tests.lab.registry import HARDWARE, Label, kind
from tests.lab.run import Run

OTHERS = (*HARDWARE, "network", "scheduler")
STORAGE = Label(
    "storage", also=("operator",), also_quality=("probable",), names_ranks=True,
    may_name_nodes=True, innocent=(*OTHERS, "application"),
    why="The operating system's own error for the file system.",
)  # fmt: skip


def _tmpfs(run: Run, folder: str, size: str, options: str = "") -> str:
    (run.work / folder).mkdir(exist_ok=True)
    return f"mount -t tmpfs -o size={size}{options} tmpfs {run.work}/{folder}"


@kind(STORAGE, needs=("root",), is_core=True)
def disk_full_at_checkpoint(run: Run) -> None:
    """The file system of the checkpoints is full."""
    run.nodes()
    run.data()
    run.blame("a checkpoint file system that is too small", [0])
    setup = _tmpfs(run, "checkpoints", "32k")
    run.start("--steps", "40", "--save-every", "4", "--hidden", "200", setup=setup)
    run.finish()


@kind(STORAGE, needs=("root",))
def inodes_exhausted(run: Run) -> None:
    """The file system of the checkpoints takes no more files."""
    run.nodes()
    run.data()
    run.blame("a checkpoint file system without free inodes", [0])
    setup = _tmpfs(run, "checkpoints", "20m", ",nr_inodes=3")
    run.start("--steps", "40", "--save-every", "3", setup=setup)
    run.finish()


@kind(STORAGE, needs=("root",))
def file_system_read_only(run: Run) -> None:
    """The file system of the checkpoints is mounted read-only."""
    run.nodes()
    run.data()
    run.blame("a read-only checkpoint file system", [0])
    setup = _tmpfs(run, "checkpoints", "20m,ro")
    run.start("--steps", "40", "--save-every", "4", setup=setup)
    run.finish()


def _mount_data(run: Run) -> subprocess.Popen[bytes]:
    """Serve the data folder through a FUSE daemon of the run's own."""
    seen = run.work / "mounted"
    seen.mkdir()
    daemon = subprocess.Popen(
        ["bindfs", "-f", "--no-allow-other", str(run.work / "data"), str(seen)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip

    def close() -> None:
        daemon.send_signal(signal.SIGCONT)
        daemon.kill()
        daemon.wait(timeout=5)
        subprocess.run(["umount", "-l", str(seen)], check=False, capture_output=True)

    run.at_end(close)
    for _ in range(50):
        if os.path.ismount(seen):
            break
        time.sleep(0.1)
    return daemon


@kind(
    Label(
        "storage", also_quality=("probable",), names_ranks=True, may_name_nodes=True,
        innocent=(*OTHERS, "application", "operator"),
        why="The mount answers 'transport endpoint is not connected' after its daemon died.",
    ),
    needs=("root", "bindfs"),
)  # fmt: skip
def mount_lost(run: Run) -> None:
    """The daemon of the data mount dies in the middle of training."""
    run.nodes()
    run.data(records=3000, width=200)
    daemon = _mount_data(run)
    run.start("--steps", "400", "--data", "mounted", "--width", "200")
    run.wait_step()
    run.blame("the daemon of the data mount was killed", list(range(run.world)))
    daemon.kill()
    run.finish()


@kind(
    Label(
        "unknown", also=("storage", "application", "framework"), quality="insufficient",
        also_quality=("ambiguous", "probable"), names_ranks=True,
        also_terminal=("cancelled", "hung"),
        innocent=(*HARDWARE, "network", "host", "scheduler"),
        why="Reads never return and nothing is printed about it.",
    ),
    needs=("root", "bindfs"),
)  # fmt: skip
def mount_hung(run: Run) -> None:
    """The daemon of the data mount stops answering in the middle of training."""
    run.nodes()
    run.data(records=3000, width=200)
    daemon = _mount_data(run)
    run.start("--steps", "400", "--data", "mounted", "--width", "200", "--timeout", "6")
    run.wait_step()
    run.blame("the daemon of the data mount was stopped", list(range(run.world)))
    daemon.send_signal(signal.SIGSTOP)
    run.finish(75)


SHM = Label(
    "operator", also=("host", "application"), also_quality=("probable", "ambiguous"),
    names_ranks=True, innocent=(*OTHERS, "storage"),
    why="The loader's own advice: shared memory is too small.",
)  # fmt: skip


@kind(SHM, needs=("root",))
def shared_memory_full(run: Run) -> None:
    """/dev/shm is too small for the data-loader workers."""
    run.nodes(per_node=2 + run.index % 2)
    run.data(width=6000, records=24)
    run.blame("a /dev/shm of 128 kB", list(range(run.world)))
    run.start(
        "--steps", "20", "--workers", "2", "--width", "6000", "--batch", "8",
        setup="mount -t tmpfs -o size=128k tmpfs /dev/shm",
    )  # fmt: skip
    run.finish()


@kind(
    Label(
        "operator", also=("storage", "application"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=OTHERS, why="The user may not write the checkpoint folder.",
    ),
    needs=("root", "setpriv"),
)  # fmt: skip
def checkpoint_folder_not_writable(run: Run) -> None:
    """The checkpoint folder belongs to somebody else."""
    run.nodes()
    run.data()
    (run.work / "checkpoints").mkdir(mode=0o755)
    run.blame("the checkpoint folder is not writable for the user", [0])
    drop = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    (run.work / "logs").mkdir()
    (run.work / "logs").chmod(0o777)
    run.start("--steps", "30", "--save-every", "4", prefix=drop)
    run.finish()
