"""How often Python looks for cycles while a collector reads."""

import gc
from typing import Final

_ALLOCATIONS: Final = 50_000


def collect_rarely() -> None:
    """Let the cycle collector run once in 50,000 new objects instead of 700.

    A storm makes a hundred thousand small objects that live to its end and hold no cycles; at
    the default pace looking through them again and again takes a third of the whole pass.
    """
    gc.set_threshold(_ALLOCATIONS, 20, 50)
