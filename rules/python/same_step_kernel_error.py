"""The same device error on many ranks within seconds: the kernel's defect, no GPU's.

An illegal access that one rank reports may come from its GPU. Several GPUs do not break in the same
step; the program that they all run does.
"""

from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, SymptomProposal

SOURCES = ("failure catalogue 2.7 and 4.7 (same step, many ranks)",)
ERRORS = ("cuda_illegal_access", "cuda_launch_failure", "cuda_bad_instruction")
MIN_RANKS = 3
STEP_US = 60 * 1_000_000


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose `kernel_error_on_many_ranks` unless a device or a node may be at fault.

    The fabric joins GPUs: whatever a switch or link reports may break several at once. All ranks
    run the same program, so an error on the ranks of one node among several speaks for the node.
    """
    nodes: set[str] = set()
    for device in evidence.episodes():
        if device.rank is not None:
            nodes.add(device.node)
        is_hardware = device.domain in ("gpu", "pcie") and device.tier <= 2
        is_fabric = device.domain == "nvlink" and device.tier <= 5
        if (is_hardware or is_fabric) and device.trust in ("node", "platform"):
            return
    for symptom in ERRORS:
        seen = [episode for episode in evidence.episodes(symptom) if episode.rank is not None]
        stamped = [episode.first_us for episode in seen if episode.first_us is not None]
        if len({episode.rank for episode in seen}) < MIN_RANKS or not _is_one_step(stamped):
            continue
        if len(nodes) > 1 and len({episode.node for episode in seen}) == 1:
            continue
        yield SymptomProposal("kernel_error_on_many_ranks", tuple(_ordered(seen)), tuple(seen))
        return


def _is_one_step(times: list[int]) -> bool:
    return not times or max(times) - min(times) <= STEP_US


def _ordered(episodes: list[EpisodeView]) -> list[EpisodeView]:
    return sorted(episodes, key=lambda episode: episode.rank or 0)
