"""A process that the kernel killed for its memory beside the job is not the job's failure.

Nodes run more than one thing. Where the job tells of an error of its own, and what was killed is no
process of a training program, the kill is somebody else's.
"""

from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, RecoveryProposal

SOURCES = ("kernel mm/oom_kill.c, the name in `Killed process`", "failure catalogue 4.5")
KILLS = ("host_oom_cgroup", "host_oom_global", "host_oom_report")
PROGRAM = ("application", "framework", "data", "operator")
EXPLICIT_TIER = 3
# Interpreters, launchers, workers and shells that a training job consists of, by how they begin.
OWN = (
    "python", "pypy", "pt_", "torch", "ray", "deepspeed", "accelerate", "mpi", "orted", "prted",
    "hydra", "pmi", "train", "main", "slurmstepd", "srun", "bash", "sh", "julia", "jax", "nccl",
)  # fmt: skip


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose kills of other programs, where an explicit error of the job's own is told."""
    kills = list(evidence.episodes(*KILLS))
    if not kills or not any(_is_own_error(episode) for episode in evidence.episodes()):
        return
    names: dict[str, set[str]] = {}
    for kill in kills:
        killed = {sighting.get("process").lower() for sighting in evidence.sightings(kill)}
        names.setdefault(kill.node, set()).update(killed - {""})
    for kill in kills:
        killed = names[kill.node]
        if killed and not any(name.startswith(OWN) for name in killed):
            yield RecoveryProposal(kill, "other_process")


def _is_own_error(episode: EpisodeView) -> bool:
    return (
        episode.domain in PROGRAM
        and episode.role in ("root", "lean_root")
        and 0 < episode.tier <= EXPLICIT_TIER
        and bool({"python_exception", "cuda_error"} & set(episode.tags))
    )
