"""Faults of programs, data and settings."""

import json
import os
import shutil

from tests.lab.registry import HARDWARE, Label, kind
from tests.lab.run import Run

OTHERS = (*HARDWARE, "host", "network", "scheduler")
PROGRAM = Label(
    "application", also=("data",), names_ranks=True, innocent=(*OTHERS, "storage"),
    also_quality=("probable",),
    why="A Python exception with its traceback on the rank that raised it first.",
)  # fmt: skip
SETTINGS = Label(
    "operator", also=("application",), also_quality=("probable",), names_ranks=True,
    innocent=(*OTHERS, "storage"), why="A setting was wrong from the start.",
)  # fmt: skip


def _run_with(run: Run, *options: str, cause: str, ranks: list[int] | None = None) -> None:
    run.blame(cause, ranks if ranks is not None else list(range(run.world)))
    run.start(*options)
    run.finish()


@kind(PROGRAM, is_core=True, shows="JSONDecodeError")
def bad_record_one_rank(run: Run) -> None:
    """One line of one rank's data is no JSON."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.spoil_line(victim, run.rng.randrange(16, 30), '{"features": [0.1, 0.2')
    _run_with(run, "--steps", "30", cause="a broken record", ranks=[victim])


@kind(PROGRAM, shows="JSONDecodeError")
def bad_record_one_rank_two_nodes(run: Run) -> None:
    """The same over two nodes."""
    run.nodes(2)
    run.data()
    victim = run.victim()
    run.spoil_line(victim, run.rng.randrange(16, 30), '{"features": [0.1, 0.2')
    _run_with(run, "--steps", "30", cause="a broken record", ranks=[victim])


@kind(PROGRAM, shows="KeyError")
def bad_record_some_ranks(run: Run) -> None:
    """Two ranks meet a record without its label in the same step."""
    run.nodes(per_node=3 + run.index % 2)
    run.data()
    victims = sorted(run.rng.sample(range(run.world), 2))
    number = run.rng.randrange(16, 30)
    for victim in victims:
        run.edit_record(victim, number, label=None)
    _run_with(run, "--steps", "30", cause="records without a label", ranks=victims)


@kind(PROGRAM, shows="KeyError")
def bad_record_all_ranks(run: Run) -> None:
    """Every rank meets a record without features."""
    run.nodes()
    run.data()
    for rank in range(run.world):
        run.edit_record(rank, 20, features=None)
    _run_with(run, "--steps", "30", cause="records without features")


@kind(PROGRAM, shows="JSONDecodeError")
def bad_record_in_loader_worker(run: Run) -> None:
    """A data-loader worker of one rank meets the broken record."""
    run.nodes(per_node=2)
    run.data()
    victim = run.victim()
    run.spoil_line(victim, run.rng.randrange(16, 30), "\\x00\\x00\\x00")
    _run_with(run, "--steps", "30", "--workers", "1", cause="a broken record", ranks=[victim])


@kind(PROGRAM, shows="shapes cannot be multiplied")
def wrong_shape_one_rank(run: Run) -> None:
    """All records of one rank are wider than the model."""
    run.nodes()
    run.data()
    victim = run.victim()
    rows = [row | {"features": [0.5] * 24} for row in run.read_shard(victim)]
    run.write_shard(victim, rows)
    _run_with(run, "--steps", "30", cause="24 features where the model takes 16", ranks=[victim])


@kind(PROGRAM, shows="shapes cannot be multiplied")
def wrong_shape_all_ranks(run: Run) -> None:
    """The model is built for another width than the data has."""
    run.nodes()
    run.data(width=20)
    _run_with(run, "--steps", "30", "--width", "16", cause="20 features, the model takes 16")


@kind(PROGRAM, shows="RuntimeError: ")
def ragged_batch(run: Run) -> None:
    """Records of unequal length cannot be stacked into a batch."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.edit_record(victim, 22, features=[0.1] * 9)
    _run_with(run, "--steps", "30", cause="a record of another length", ranks=[victim])


@kind(PROGRAM, shows="ValueError: loss is")
def loss_not_finite(run: Run) -> None:
    """Infinite values in the data of one rank make the loss infinite; the program checks it."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.edit_record(victim, 18, features=[float("inf")] * 16)
    _run_with(run, "--steps", "30", "--check-finite", cause="infinite features", ranks=[victim])


@kind(PROGRAM, shows="returned nan")
def nan_gradient_detected(run: Run) -> None:
    """Anomaly detection finds NaN in the backward pass of one rank."""
    run.nodes(per_node=2)
    run.data()
    victim = run.victim()
    run.edit_record(victim, 18, features=[float("nan")] * 16)
    _run_with(run, "--steps", "30", "--detect-anomaly", cause="NaN features", ranks=[victim])


@kind(
    Label(
        "application", also=("framework",), names_ranks=True, innocent=(*OTHERS, "storage"),
        also_quality=("probable", "ambiguous"),
        why="DistributedDataParallel says that parameters took no part in the loss.",
    ),
)  # fmt: skip
def unused_parameters(run: Run) -> None:
    """A branch of the model is not used, which DistributedDataParallel does not allow."""
    run.nodes(per_node=2 + run.index % 2)
    run.data()
    _run_with(run, "--steps", "20", "--parallel", "ddp", "--branches", cause="an unused branch")


MISMATCH = Label(
    "application", also=("framework", "unknown", "data"), quality="probable",
    also_quality=("ambiguous", "insufficient", "definitive"), names_ranks=True,
    innocent=(*OTHERS, "storage", "operator"),
    why="The ranks called collectives that do not fit together.",
)  # fmt: skip


@kind(MISMATCH)
def collective_skipped(run: Run) -> None:
    """One rank skips an all-reduce because its batch has no positive label."""
    run.nodes(per_node=3 if run.index == 1 else None)
    run.data()
    victim = run.victim()
    rows = run.read_shard(victim)
    for row in rows[20:]:
        row["label"] = 0.0
    run.write_shard(victim, rows)
    _run_with(
        run, "--steps", "60", "--metrics", "labelled", "--timeout", "6",
        cause="an all-reduce under a condition on local data", ranks=[victim],
    )  # fmt: skip


@kind(MISMATCH, is_core=True)
def collective_shapes_differ(run: Run) -> None:
    """An all-gather of batches of unequal size."""
    run.nodes()
    run.data()
    victim = run.victim()
    counts = [40] * run.world
    counts[victim] = 26
    (run.work / "data" / "manifest.json").write_text(json.dumps({"records": counts}))
    _run_with(
        run, "--steps", "40", "--metrics", "gather", "--timeout", "6",
        cause="the last batch of one rank is smaller", ranks=[victim],
    )  # fmt: skip


@kind(MISMATCH)
def collective_shapes_differ_debug(run: Run) -> None:
    """The same with TORCH_DISTRIBUTED_DEBUG=DETAIL, which tells the shapes."""
    run.nodes()
    run.data()
    victim = run.victim()
    counts = [40] * run.world
    counts[victim] = 26
    (run.work / "data" / "manifest.json").write_text(json.dumps({"records": counts}))
    run.blame("the last batch of one rank is smaller", [victim])
    run.start(
        "--steps", "40", "--metrics", "gather", "--timeout", "6",
        env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
    )  # fmt: skip
    run.finish()


@kind(MISMATCH)
def rank_leaves_early(run: Run) -> None:
    """One rank believes that it is done and leaves; the others lose the connection."""
    run.nodes()
    run.data()
    victim = run.victim()
    short = run.work / "short.json"
    run.blame("one rank has another number of steps", [victim])
    short.write_text(json.dumps({"training": {"steps": 8}}))
    wrapper = run.work / "launch.sh"
    wrapper.write_text(
        'if [ "$RANK" = '
        + str(victim)
        + ' ]; then exec python -u train.py "$@" --config short.json; fi\n'
        'exec python -u train.py "$@"\n'
    )
    from tests.lab.run import VENV

    command = [str(VENV / "bin/torchrun"), "--nproc-per-node", str(run.per_node), "--no-python"]
    run.start(command=[*command, "bash", "launch.sh", "--steps", "40", "--log-style", "stamped"])
    run.finish()


@kind(
    Label(
        "framework", also=("application", "operator"), also_quality=("probable",), names_ranks=True,
        innocent=(*OTHERS, "storage"), why="A module that the program imports is not installed.",
    ),
    is_core=True,
)  # fmt: skip
def module_missing(run: Run) -> None:
    """A package is not installed."""
    run.nodes()
    run.data()
    name = ("sentencepiece", "flash_attn", "apex.optimizers")[run.index % 3]
    _run_with(run, "--tokenizer", name, cause=f"{name} is not installed")


@kind(SETTINGS)
def unknown_argument(run: Run) -> None:
    """An argument that the program does not know."""
    run.nodes()
    run.data()
    word = ("--learning-rate", "--fp16", "--num-epochs")[run.index % 3]
    _run_with(run, word, "3", cause=f"{word} is no argument")


@kind(SETTINGS)
def config_not_json(run: Run) -> None:
    """The configuration file has a comma too many."""
    run.nodes()
    run.data()
    (run.work / "config.json").write_text('{"training": {"steps": 10, "lr": 0.1,}}\n')
    _run_with(run, "--config", "config.json", cause="a comma too many in config.json")


@kind(SETTINGS)
def config_key_missing(run: Run) -> None:
    """The configuration file lacks its main section."""
    run.nodes()
    run.data()
    (run.work / "config.json").write_text('{"train": {"steps": 10}}\n')
    _run_with(run, "--config", "config.json", cause="no section 'training' in config.json")


@kind(SETTINGS)
def config_file_missing(run: Run) -> None:
    """The configuration file is not where the command says."""
    run.nodes()
    run.data()
    _run_with(run, "--config", "configs/7b.json", cause="configs/7b.json does not exist")


@kind(
    Label(
        "operator", also=("application", "data", "storage"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=OTHERS, why="The data of one rank is not there.",
    )
)  # fmt: skip
def data_file_missing(run: Run) -> None:
    """The shard of one rank does not exist."""
    run.nodes()
    run.data()
    victim = run.victim()
    run.shard(victim).unlink()
    _run_with(run, "--steps", "20", cause="a shard is missing", ranks=[victim])


@kind(SETTINGS)
def script_missing(run: Run) -> None:
    """The launcher is given a script that does not exist."""
    run.nodes()
    run.data()
    (run.work / "train.py").unlink()
    _run_with(run, "--steps", "20", cause="train.py does not exist")


@kind(
    Label(
        "application", also=("operator", "framework"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=("nvlink", "pcie", "host", "network", "storage", "scheduler"),
        why="A build of PyTorch without CUDA was asked for a CUDA device.",
    )
)  # fmt: skip
def device_not_available(run: Run) -> None:
    """A CUDA device is asked of a CPU build."""
    run.nodes()
    run.data()
    _run_with(run, "--device", "cuda", cause="--device cuda on a CPU build")


CHECKPOINT = Label(
    "storage", also=("application", "operator"), also_quality=("probable", "ambiguous"),
    names_ranks=True, innocent=OTHERS, why="The checkpoint cannot be read.",
)  # fmt: skip


def _checkpoint(run: Run, *, options: tuple[str, ...] = ()) -> None:
    """Train a few steps to have a checkpoint of this very program."""
    run.start("--steps", "4", "--save-every", "4", "--pace", "0", *options, only=[0])
    for agent in run.agents:
        agent.process.wait(timeout=60)
    for agent in run.agents:
        agent.log.unlink()
    run.agents.clear()
    shutil.rmtree(run.work / "logs", ignore_errors=True)
    run.start_at = ""


@kind(
    Label(
        "operator", also=("application", "storage"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=OTHERS, why="The checkpoint to resume from is not there.",
    )
)  # fmt: skip
def checkpoint_missing(run: Run) -> None:
    """The checkpoint to resume from does not exist."""
    run.nodes()
    run.data()
    _run_with(run, "--resume", "checkpoints/step-500.pt", cause="no such checkpoint")


@kind(CHECKPOINT, is_core=True)
def checkpoint_truncated(run: Run) -> None:
    """The checkpoint ends in the middle, as after a crash while saving."""
    run.nodes(per_node=2 + run.index % 2)
    run.data()
    _checkpoint(run)
    path = run.work / "checkpoints" / "step-4.pt"
    os.truncate(path, path.stat().st_size * (3 + run.index) // 7)
    _run_with(run, "--resume", "checkpoints/step-4.pt", cause="a truncated checkpoint")


@kind(CHECKPOINT)
def checkpoint_empty(run: Run) -> None:
    """The checkpoint has no bytes."""
    run.nodes()
    run.data()
    (run.work / "checkpoints").mkdir()
    (run.work / "checkpoints" / "step-4.pt").touch()
    _run_with(run, "--resume", "checkpoints/step-4.pt", cause="an empty checkpoint")


@kind(
    Label(
        "application", also=("operator",), also_quality=("probable",), names_ranks=True,
        innocent=(*OTHERS, "storage"), why="The checkpoint is of a model of another size.",
    )
)  # fmt: skip
def checkpoint_of_another_model(run: Run) -> None:
    """The checkpoint holds a model of another width."""
    run.nodes(per_node=2)
    run.data()
    _checkpoint(run)
    _run_with(
        run, "--resume", "checkpoints/step-4.pt", "--hidden", str(48 + 16 * run.index),
        cause="a checkpoint of another model",
    )  # fmt: skip


@kind(
    Label(
        "operator", also=("storage", "application"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=OTHERS, why="The user may not read the checkpoint.",
    ),
    needs=("root", "setpriv"),
)  # fmt: skip
def checkpoint_unreadable(run: Run) -> None:
    """The checkpoint belongs to somebody else and may not be read."""
    run.nodes(per_node=2)
    run.data()
    _checkpoint(run)
    (run.work / "checkpoints" / "step-4.pt").chmod(0o600)
    run.blame("the checkpoint is not readable for the user", list(range(run.world)))
    drop = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    run.start("--resume", "checkpoints/step-4.pt", prefix=drop, torchrun=())
    run.finish()


@kind(
    Label(
        "application", also=("operator", "host"), also_quality=("probable", "ambiguous"),
        names_ranks=True, innocent=(*HARDWARE, "network", "storage", "scheduler"),
        why="The process may not open more files.",
    )
)  # fmt: skip
def too_many_open_files(run: Run) -> None:
    """The program opens more files than its limit allows."""
    run.nodes()
    run.data()
    run.blame("an open-file limit of 128", list(range(run.world)))
    run.start("--steps", "20", "--open-shards", "200", setup="ulimit -n 128")
    run.finish()
