"""The table of kinds: how each fault is made, and what an honest reader of its evidence may say."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

ALL_DOMAINS = (
    "gpu", "nvlink", "pcie", "host", "network", "storage", "scheduler", "framework",
    "application", "data", "operator",
)  # fmt: skip
HARDWARE = ("gpu", "nvlink", "pcie")


@dataclass(frozen=True)
class Label:
    """What `expected.yaml` of a kind says; victims and nodes come from the run's truth.

    `names_ranks`: the evidence shows which ranks started it, so naming them is no accusation.
    `names_nodes`: the same for the nodes; a node that need not be named is in `may_name_nodes`.
    """

    domain: str
    also: tuple[str, ...] = ()
    quality: str = "definitive"
    also_quality: tuple[str, ...] = ("probable",)
    terminal: str = "failed"
    also_terminal: tuple[str, ...] = ()
    names_ranks: bool = False
    names_nodes: bool = False
    may_name_nodes: bool = False
    innocent: tuple[str, ...] = HARDWARE
    why: str = ""


@dataclass(frozen=True)
class Kind:
    """One fault, or one way of having none.

    `shows`: what the logs must show for a run to be a capture of this kind, so that a run that
    failed for another reason is thrown away. It never reaches the capture.
    """

    name: str
    make: Callable[[Any], None]
    label: Label
    needs: tuple[str, ...] = ()
    is_core: bool = False
    runs: int = 3
    shows: str = ""
    about: str = ""
    module: str = field(default="", compare=False)

    @property
    def is_clean(self) -> bool:
        """Whether the run is meant to succeed."""
        return self.label.domain == "none"


KINDS: dict[str, Kind] = {}


def kind(
    label: Label,
    *,
    needs: tuple[str, ...] = (),
    is_core: bool = False,
    runs: int = 3,
    shows: str = "",
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Register a function that makes one run of a kind; its name is the kind's."""

    def register(make: Callable[[Any], None]) -> Callable[[Any], None]:
        name = make.__name__
        if name in KINDS:
            raise ValueError(f"kind {name} is defined twice")
        about = " ".join((make.__doc__ or "").split())
        KINDS[name] = Kind(
            name,
            make,
            label,
            needs,
            is_core,
            runs,
            shows,
            about,
            make.__module__.rsplit(".", 1)[-1],
        )
        return make

    return register


CLEAN = Label(
    "none",
    quality="definitive",
    also_quality=(),
    terminal="completed",
    innocent=ALL_DOMAINS,
    why="The job came to its end; whatever was printed on the way was survived.",
)
OPEN = Label(
    "unknown",
    quality="insufficient",
    also_quality=("ambiguous",),
    why="The evidence shows consequences only.",
)
