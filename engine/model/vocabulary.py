"""The closed word lists that other people's software depends on (CONTRACTS, section 2)."""

from typing import Final, Literal, get_args

Domain = Literal[
    "gpu", "nvlink", "pcie", "host", "network", "storage", "scheduler", "framework",
    "application", "data", "operator", "unknown", "none",
]  # fmt: skip
TerminalState = Literal[
    "completed", "failed", "hung", "timeout", "out_of_memory", "node_fail", "preempted",
    "cancelled", "evicted", "not_started", "running", "unknown",
]  # fmt: skip
Manifestation = Literal[
    "crash", "hang", "slow", "numeric", "never_started", "stopped_by_policy", "node_lost",
    "none", "unknown",
]  # fmt: skip
QualityLevel = Literal["definitive", "probable", "ambiguous", "insufficient"]
EntityRole = Literal["culprit", "suspect", "victim", "observed"]
EntityKind = Literal[
    "job", "node", "gpu", "rank", "nic", "link", "switch", "switch_port", "filesystem", "pod",
    "process", "queue",
]  # fmt: skip
EpisodeRole = Literal["root", "contributing", "downstream", "teardown", "noise", "unrelated"]
Source = Literal[
    "applog", "syslog", "scheduler", "kubernetes", "metrics", "flight_recorder", "inventory"
]
Trust = Literal["platform", "node", "workload", "caller"]
CoverageState = Literal[
    "complete", "partial", "filtered", "sampled", "empty", "unverified", "lost", "failed",
    "not_configured",
]  # fmt: skip
WindowClass = Literal["startup", "tail", "whole", "history"]
ReportStatus = Literal["ok", "empty", "partial", "error", "skipped"]
RevisionStatus = Literal["provisional", "final", "correction"]
ActionName = Literal[
    "retry", "retry_excluding_nodes", "reset_gpu", "reboot_node", "drain_node", "replace_node",
    "check_network", "check_storage", "fix_application", "fix_data", "raise_memory_limit",
    "extend_time_limit", "fix_configuration", "collect_more_evidence", "none",
]  # fmt: skip
ObservationKind = Literal[
    "match", "block", "stream_summary", "metric_change", "record", "inventory"
]
Runner = Literal["lambda", "spoke", "edge"]
DetectionSignal = Literal["crash", "hang", "straggler"]

DOMAINS: Final[tuple[str, ...]] = get_args(Domain)
TERMINAL_STATES: Final[tuple[str, ...]] = get_args(TerminalState)
SOURCES: Final[tuple[str, ...]] = get_args(Source)

# Only a cause in one of these domains may put a node out of service (CONTRACTS, "role").
NODE_CULPRIT_DOMAINS: Final[frozenset[str]] = frozenset(
    {"gpu", "nvlink", "pcie", "host", "network"}
)
HARDWARE_DOMAINS: Final[frozenset[str]] = NODE_CULPRIT_DOMAINS
