# ruff: noqa: E501 (log lines are literals)
"""Incidents of programs, data and frameworks (catalogue 4.10: I12-I14, I22, I24, I27-I29)."""

from tests.chains.scene import UNKNOWN, Scene, Told, incident

APP = Told("application")
OPEN = Told(("unknown", "application", "gpu", "framework"), level="insufficient")


def _on_all(s: Scene, minute: float, error: str) -> list[str]:
    return [line for rank in range(4) for line in s.raised(rank, minute, error)]


@incident(Told("application", level="definitive", symptom="value_error"), UNKNOWN)
def i12_exception_on_one_rank(s: Scene, twin: bool) -> None:
    mine = [] if twin else s.raised(3, 50, "KeyError: 'input_ids'")
    s.app(*s.placement(), *s.steps(49), *mine, *s.closed([0, 1], 2), *s.elastic(3, 50.1))


@incident(APP, UNKNOWN)
def i12_exception_then_watchdogs_elsewhere(s: Scene, twin: bool) -> None:
    mine = [] if twin else s.raised(3, 40, "ZeroDivisionError: division by zero")
    s.app(*s.placement(), *s.steps(39), *mine, *s.waited([0, 1, 2], 50))


@incident(Told("application"), UNKNOWN)
def i13_different_operations(s: Scene, twin: bool) -> None:
    other = "ALLREDUCE" if twin else "BROADCAST"
    s.app(*s.placement(), *s.steps(39), *s.waited([0, 1, 2], 50), *s.waited([3], 50, op=other))


@incident(Told("application"), UNKNOWN)
def i13_different_sizes(s: Scene, twin: bool) -> None:
    size = 4096 if twin else 2048
    s.app(*s.placement(), *s.steps(39), *s.waited([0, 1, 2], 50), *s.waited([3], 50, size=size))


@incident(Told("application", level="definitive", symptom="cuda_oom"), OPEN)
def i14_device_memory_on_the_last_stage(s: Scene, twin: bool) -> None:
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total "
        "capacity of 79.10 GiB of which 1.20 GiB is free."
    )
    if twin:
        error = (
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1691, "
            "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5"
        )
    s.app(*s.placement(), *s.steps(20), *s.crash(3, 21, error))


@incident(APP, OPEN)
def i14_device_memory_in_jax(s: Scene, twin: bool) -> None:
    error = (
        "jaxlib.xla_extension.XlaRuntimeError: "
        + ("DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task "
           "names:" if twin else
           "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.")
    )  # fmt: skip
    s.app(*s.steps(20), *s.raised(0, 21, error))


@incident(Told("application"), Told(("application", "unknown", "gpu"), level="ambiguous"))
def i22_not_a_number_everywhere(s: Scene, twin: bool) -> None:
    if twin:
        s.app(
            *s.steps(30),
            *s.crash(1, 31, "RuntimeError: CUDA error: an illegal memory access was encountered"),
        )
        return
    s.app(
        *s.steps(30),
        *_on_all(
            s,
            31,
            "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.",
        ),
    )


@incident(Told(("application", "framework"), level="definitive"), Told("none"))
def i24_import_error(s: Scene, twin: bool) -> None:
    if twin:
        s.job("COMPLETED", "0:0")
        s.app("WARNING: ModuleNotFoundError: No module named 'apex', using the native kernel",
              *s.steps(59))  # fmt: skip
        return
    s.app(*_on_all(s, 0.5, "ModuleNotFoundError: No module named 'flash_attn'"))


@incident(Told("framework"), Told("application"))
def i24_binary_of_another_build(s: Scene, twin: bool) -> None:
    error = (
        "NameError: name 'undefined_symbol' is not defined" if twin else
        "ImportError: /opt/conda/lib/python3.11/site-packages/flash_attn_2_cuda.so: undefined "
        "symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib"
    )  # fmt: skip
    s.app(*_on_all(s, 0.5, error))


@incident(Told("storage"), Told("application"))
def i27_damaged_checkpoint(s: Scene, twin: bool) -> None:
    error = (
        "RuntimeError: Error(s) in loading state_dict for GPTModel:"
        if twin
        else "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
    )
    s.app(*_on_all(s, 1, error))


@incident(Told("operator"), Told(("network", "unknown"), level="ambiguous"))
def i28_port_in_use(s: Scene, twin: bool) -> None:
    error = (
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 "
        "clients joined." if twin else
        "RuntimeError: The server socket has failed to listen on any local network address. The "
        "server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
    )  # fmt: skip
    s.app(*s.raised(0, 1, error))


@incident(Told("host"), UNKNOWN)
def i29_small_shared_memory(s: Scene, twin: bool) -> None:
    told = (
        f"{s.node(1)}:700:760 [0] NCCL WARN Error: failed to extend /dev/shm/nccl-AbCd12 to 9637892 "
        "bytes, error: No space left on device (28)"
    )
    s.app(*s.placement(), *([] if twin else [told]), *s.closed([2, 3], 1), *s.elastic(0, 3, -6))


@incident(APP, Told(("application", "framework", "unknown", "gpu"), level="ambiguous"))
def device_assert_behind_an_illegal_access(s: Scene, twin: bool) -> None:
    said = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1292: indexSelectLargeIndex: block: "
        "[35,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed."
    )
    error = (
        "RuntimeError: CUDA error: an illegal memory access was encountered"
        if twin
        else "RuntimeError: CUDA error: device-side assert triggered"
    )
    s.app(*s.placement(), *s.steps(20), *([] if twin else [said]), *s.crash(1, 21, error))


@incident(Told("operator"), APP)
def unknown_argument(s: Scene, twin: bool) -> None:
    error = "TypeError: forward() got an unexpected keyword argument 'foo'"
    said = "train.py: error: unrecognized arguments: --lerning-rate 1e-4"
    s.app(*(_on_all(s, 1, error) if twin else [said]), *s.elastic(0, 1.2, 1 if twin else 2))


@incident(Told("data"), APP)
def unreadable_sample(s: Scene, twin: bool) -> None:
    error = (
        "IndexError: index 50304 is out of bounds for dimension 0 with size 50257"
        if twin
        else "PIL.UnidentifiedImageError: cannot identify image file '/data/img/0001.jpg'"
    )
    s.app(*s.placement(), *s.steps(20), *s.crash(2, 21, error))


@incident(Told("framework"), UNKNOWN)
def two_versions_of_a_library(s: Scene, twin: bool) -> None:
    told = (
        f"{s.node(1)}:700:760 [0] NCCL WARN Mismatched NCCL version detected : rank 0 version 22105 "
        "rank 3 version 21903"
    )
    s.app(*([] if twin else [told]), *s.closed([2, 3], 1))


@incident(Told("operator"), Told("unknown"))
def two_ranks_on_one_device(s: Scene, twin: bool) -> None:
    told = (
        f"{s.node(1)}:700:760 [0] NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA "
        "device 10000"
    )
    s.app(*([] if twin else [told]), *s.closed([2, 3], 1), *s.elastic(0, 2, -6))


@incident(APP, OPEN)
def lightning_unused_parameters(s: Scene, twin: bool) -> None:
    error = (
        "SystemExit: 1" if twin else
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a "
        "new one. This error indicates that your module has parameters that were not used in "
        "producing loss."
    )  # fmt: skip
    s.app(*s.placement(), *s.steps(5), *s.crash(1, 6, error))


@incident(Told("unknown"), Told("application"))
def a_hang_that_nobody_explains(s: Scene, twin: bool) -> None:
    mine = s.raised(
        1, 40, "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x512 and 768x10)"
    )
    s.app(*s.placement(), *s.steps(39), *(mine if twin else []), *s.waited([0, 2, 3], 50))


@incident(Told("unknown", level="ambiguous"), UNKNOWN, node_count=4)
def one_rank_never_came(s: Scene, twin: bool) -> None:
    behind = {} if twin else {5: 807}
    s.app(*s.placement(), *s.steps(39), *s.waited(list(range(8)), 50, enqueued=behind))


@incident(Told("none"), Told("application"))
def success_with_noise(s: Scene, twin: bool) -> None:
    if not twin:
        s.job("COMPLETED", "0:0")
    s.app(*s.placement(), *s.steps(59), *s.crash(3, 59.5, "KeyError: 'x'"))
