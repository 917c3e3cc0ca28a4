"""XID 13 in the same unit (GPC and TPC) of one GPU, under different processes: leans to the GPU.

A single exception, or one in differing units, is the program's. So is one that several GPUs of the
job raise: a kernel's defect follows the kernel, a chip's defect stays where it is.
"""

import re
from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, SymptomProposal

SOURCES = ("NVIDIA XID catalogue, workflow for XID 13", "failure catalogue 2.7")
EXCEPTION = "gpu_engine_exception"
DAY_US = 24 * 3600 * 1_000_000
_UNIT = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})")

Hit = tuple[int | None, int | None]


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose `gpu_repeated_exception` where one GPU alone repeats it in one unit."""
    by_gpu: dict[str, list[EpisodeView]] = {}
    for episode in evidence.episodes(EXCEPTION, counting=False):
        if episode.gpu and episode.trust in ("node", "platform"):
            by_gpu.setdefault(episode.gpu, []).append(episode)
    failing = [gpu for gpu, seen in sorted(by_gpu.items()) if any(not e.set_aside for e in seen)]
    if len(failing) != 1:
        return
    episodes = by_gpu[failing[0]]
    units: dict[tuple[str, str], list[Hit]] = {}
    for episode in episodes:
        for sighting in evidence.sightings(episode):
            if unit := _UNIT.search(sighting.text):
                units.setdefault((unit[1], unit[2]), []).append((sighting.pid, sighting.first_us))
    if any(_repeats(hits) for hits in units.values()):
        own = tuple(episode for episode in episodes if not episode.set_aside)
        yield SymptomProposal("gpu_repeated_exception", own, explains=own)


def _repeats(hits: list[Hit]) -> bool:
    """At least two processes within a day."""
    pids = {pid for pid, _ in hits if pid is not None}
    times = [when for _, when in hits if when is not None]
    return len(pids) > 1 and (not times or max(times) - min(times) <= DAY_US)
