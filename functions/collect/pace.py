"""How often Python looks for cycles, and the C library returns memory, while a collector reads."""

import gc
from typing import Final

_ALLOCATIONS: Final = 50_000
_LARGEST_PIECE_BYTES: Final = 24 << 20


def collect_rarely() -> None:
    """Let the cycle collector run once in 50,000 new objects instead of 700.

    A storm makes a hundred thousand small objects that live to its end and hold no cycles; at
    the default pace looking through them again and again takes a third of the whole pass.
    """
    gc.set_threshold(_ALLOCATIONS, 20, 50)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Let glibc reuse the pages of freed buffers instead of returning and faulting them in again.

    Its threshold for that follows the largest mapped block that was freed (mallopt(3),
    M_MMAP_THRESHOLD), 128 KiB at first, and buffers of a stream have 256 KiB. The block is never
    touched, so it costs no memory; a tenth of a pass over a log without errors is saved.
    """
    bytes(_LARGEST_PIECE_BYTES)
