"""Once more after what a retry may cure and AWS's client does not: an answer that broke off."""

from collections.abc import Callable
from typing import Final, TypeVar

from connectors.protocol import TransientError

Answer = TypeVar("Answer")
_TRIES: Final = 3
_PAUSE_S: Final = 0.5


def patiently(ask: Callable[[], Answer], pause: Callable[[float], None]) -> Answer:
    """Return what `ask` gives; a `TransientError` is tried again twice. `pause` sleeps seconds."""
    for number in range(1, _TRIES):
        try:
            return ask()
        except TransientError:
            pause(_PAUSE_S * number)
    return ask()
