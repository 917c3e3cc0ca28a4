"""Links of several nodes drop in the same seconds: the switches between them, no one node.

A GPU or adapter that fails takes its own links down and leaves those of others to their switch.
Where three nodes lose links at once and no node reports a fault of its own, the fabric did.
"""

from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, SymptomProposal

SOURCES = (
    "NVIDIA XID catalogue, NVLink 5 link events; failure catalogue 2.2",
    "failure catalogue 4.4: many nodes of one switch",
)
# What is seen, what else it explains, and what it then means.
FABRICS = (
    (
        ("nvlink5_link_down_by_peer", "nvlink5_link_down"),
        ("nvlink5_peer_lost",),
        "nvlink_fabric_links_lost",
    ),
    (("nic_link_down",), ("nic_port_error", "ib_retry_exceeded"), "network_links_lost"),
)
MIN_NODES = 3
SPAN_US = 30 * 1_000_000


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose that a fabric lost its links unless a device or node reports its own fault."""
    for links, more, symptom in FABRICS:
        seen = [one for one in evidence.episodes(*links) if one.node and one.first_us is not None]
        times = [one.first_us for one in seen if one.first_us is not None]
        if len({one.node for one in seen}) < MIN_NODES or max(times) - min(times) > SPAN_US:
            continue
        if any(_is_own_fault(one) for one in evidence.episodes() if one.symptom not in links):
            continue
        yield SymptomProposal(symptom, tuple(seen), (*seen, *evidence.episodes(*more)))


def _is_own_fault(episode: EpisodeView) -> bool:
    """Whether a node says of a part of its own that it failed, or of a switch that it did."""
    is_physical = episode.role == "root" and episode.tier <= 2
    return is_physical and episode.trust in ("node", "platform")
