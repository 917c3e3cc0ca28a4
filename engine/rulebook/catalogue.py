"""The closed vocabularies of rules that are no model: capture names, blocks, facts and tags."""

from typing import Final

ENTITY_CAPTURES: Final = frozenset(
    [
        "rank",
        "local_rank",
        "pid",
        "pod",
        "pci",
        "gpu_index",
        "gpu_uuid",
        "serial",
        "nic",
        "link",
        "switch",
        "filesystem",
    ]
)
POINTER_CAPTURES: Final = frozenset(["peer_rank", "peer_addr", "peer_node", "host"])
COLLECTIVE_CAPTURES: Final = frozenset(
    [
        "seq",
        "op",
        "pg",
        "pg_desc",
        "last_enqueued",
        "last_started",
        "last_completed",
        "timeout_ms",
        "numel_in",
        "numel_out",
    ]
)
GENERAL_CAPTURES: Final = frozenset(
    [
        "code",
        "exit_code",
        "signal",
        "error",
        "message",
        "step",
        "path",
        "limit",
        "state",
        "reason",
        "uid",
        "user",
        "process",
    ]
)
RESERVED_CAPTURES: Final = (
    ENTITY_CAPTURES | POINTER_CAPTURES | COLLECTIVE_CAPTURES | GENERAL_CAPTURES
)
FORBIDDEN_CAPTURES: Final = {
    "node": "a node is the connector's label, never read from text; capture `host` (or `peer_node`)"
}
BLOCK_FIELDS: Final[dict[str, frozenset[str]]] = {
    "python_traceback": frozenset(
        ["exception", "error", "frame_file", "frame_function", "frame_package"]
    ),
    "elastic_report": frozenset(
        ["rank", "local_rank", "host", "exit_code", "signal", "pid", "first"]
    ),
    "oom_report": frozenset(["pid", "process", "constraint"]),
    "kernel_oops": frozenset(),
    "multiline": frozenset(),
}
FACT_FAMILIES: Final = frozenset(
    [
        "workload.state",
        "slurm.job",
        "slurm.step",
        "slurm.node",
        "batch.job",
        "sagemaker.job",
        "k8s.pod",
        "k8s.container",
        "k8s.condition",
        "k8s.event",
        "inventory.gpu",
        "inventory.link",
        "fr.rank",
        "fr.blocked",
    ]
)
TAGS: Final = frozenset(
    [
        "collective_failure",
        "rank_exit",
        "launcher_report",
        "cuda_error",
        "gpu_error",
        "nvlink_error",
        "ib_error",
        "link_event",
        "gpu_loss",
        "storage_error",
        "store_error",
        "rendezvous_error",
        "python_exception",
        "host_oom",
        "node_loss",
        "job_stop",
        "progress_stall",
        "process_killed",
        "teardown",
    ]
)
ENGINE_SYMPTOMS: Final = frozenset(
    [
        "rank_silent",
        "rank_never_entered",
        "rank_lagging",
        "rank_mismatched",
        "progress_stopped",
        "unobserved_cause",
    ]
)
"""Made by the engine without a signature; a rule may give them their meaning."""
