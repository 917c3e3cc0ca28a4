"""A fault whose end was recorded long before the job's end did not end the job.

The kernel and Kubernetes say when trouble is over: an NFS server answers again, a link is back, a
container started after all. Timers are why a margin is needed: a collective may wait half an hour
(PyTorch's former default) for what a short outage broke.
"""

from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, RecoveryProposal

SOURCES = ("failure catalogue 3.5 (timers) and 4.3 rows 18 and 23",)
MARGIN_US = 40 * 60 * 1_000_000
# What ends it, and whether that settles it at once: a pod that started was not kept from starting.
ENDED_BY = {
    "nfs_not_responding": ("nfs_recovered", MARGIN_US),
    "lustre_connection_lost": ("lustre_restored", MARGIN_US),
    "parallel_fs_lost": ("parallel_fs_restored", MARGIN_US),
    "nic_link_down": ("nic_link_up", MARGIN_US),
    "volume_mount_failed": ("pod_container_started", 0),
    "failed_scheduling": ("pod_container_started", 0),
    "image_pull_failed": ("pod_container_started", 0),
    "sandbox_failed": ("pod_container_started", 0),
}


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose every fault that its own recovery followed early enough."""
    markers = sorted({marker for marker, _ in ENDED_BY.values()})
    ends: dict[tuple[str, str], list[EpisodeView]] = {}
    for marker in evidence.episodes(*markers, counting=False):
        for place in _places(marker):
            ends.setdefault((marker.symptom, place), []).append(marker)
    for fault in evidence.episodes(*sorted(ENDED_BY)):
        name, margin = ENDED_BY[fault.symptom]
        near = [end for place in _places(fault) for end in ends.get((name, place), ())]
        if any(_settles(fault, end, margin, evidence.end_us) for end in near):
            yield RecoveryProposal(fault)


def _places(episode: EpisodeView) -> tuple[str, ...]:
    """The pod where one is known; else the node, with the device where one is known."""
    if episode.pod:
        return (f"pod {episode.pod}",)
    if not episode.node:
        return ()
    device = episode.nic or (episode.filesystem if episode.symptom.startswith("nfs") else "")
    return (f"{episode.node} {device}",)


def _settles(fault: EpisodeView, end: EpisodeView, margin: int, job_end: int | None) -> bool:
    if fault.last_us is None or end.last_us is None or end.last_us < fault.last_us:
        return False
    return margin == 0 or (job_end is not None and end.last_us + margin <= job_end)
