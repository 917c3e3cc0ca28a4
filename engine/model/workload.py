"""The scoped attempt and the evidence that a bundle or an event names (CONTRACTS, section 1)."""

import re
from datetime import datetime
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, field_validator, model_validator

from engine.model.canonical import short_id
from engine.model.contract import Document
from engine.model.hostlist import expand_hostlist
from engine.model.moment import parse_rfc3339, zone
from engine.model.vocabulary import Source

_SLURM_LIMIT = re.compile(r"^(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)$")
MAX_NODES: Final = 100_000
MAX_IMAGE: Final = 512
"""Characters of an image's name, or of what stands for it (`image_mark`)."""
MAX_RANKS: Final = 1_000_000
"""More is a slip of the pen: no machine is as large, and the engine counts each rank once."""
_DAYS_HOURS = re.compile(r"^(\d+)-(\d+)$")


def as_list(value: Any) -> Any:
    """Let one scalar stand for a list of one."""
    if value is None or value == "":
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Text = Annotated[str, BeforeValidator(_as_text)]


def nodes_of(listed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that host lists stand for; raises `ValueError` for too many."""
    names: list[str] = []
    for item in listed:
        names += expand_hostlist(item) if "[" in item else [item]
        if len(names) > MAX_NODES:
            raise ValueError(f"more than {MAX_NODES} nodes")
    return tuple(names)


def image_mark(image: Any) -> str | None:
    """Return what tells whether two jobs ran one image, and not its name; None where there is none.

    An image's name is its owner's; it is compared and never shown.
    """
    return short_id("img", image) if isinstance(image, str) and image else None


def parse_time_limit(value: str | int | None) -> int | None:
    """Return seconds of a Slurm limit (`days-hours:minutes:seconds`) or a number of seconds.

    `UNLIMITED`, `INFINITE` and empty mean no limit. Raises `ValueError` otherwise.
    Source: sbatch manual, --time (there a bare number is minutes; the contract says seconds).
    """
    if value is None:
        return None
    text = str(value).strip()
    if text == "" or text.upper() in ("UNLIMITED", "INFINITE", "NONE", "PARTITION_LIMIT"):
        return None
    if text.isdigit():
        return int(text)
    if match := _SLURM_LIMIT.match(text):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if match := _DAYS_HOURS.match(text):
        return (int(match[1]) * 24 + int(match[2])) * 3600
    raise ValueError(f"time limit {text!r} is neither seconds nor days-hours:minutes:seconds")


class RankPlacement(Document):
    """Where one rank ran."""

    rank: int = Field(ge=0)
    node: str
    gpu: int | None = Field(default=None, ge=0)


class Workload(Document):
    """One attempt of one job as its scheduler describes it. Times are aware UTC datetimes."""

    scheduler: str = Field(min_length=1, max_length=64)
    cluster: str = Field(default="default", min_length=1, max_length=128)
    tenant: str = Field(default="default", min_length=1, max_length=128)
    job_id: Text = Field(min_length=1, max_length=256)
    attempt: int | None = Field(default=None, ge=0)
    name: Text | None = None
    user: Text | None = None
    partition: Text | None = None
    queue: Text | None = None
    namespace: Text | None = None
    state: Text | None = None
    exit_code: Text | None = None
    timezone: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    time_limit: Text | None = None
    image: Annotated[Text, Field(max_length=MAX_IMAGE)] | None = None
    nodes: tuple[str, ...] = ()
    world_size: int | None = Field(default=None, ge=0, le=MAX_RANKS)
    ranks: tuple[RankPlacement, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _read_times(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        read = {key: value for key, value in data.items() if value not in (None, "")}
        zone_name = read.get("timezone")
        for key in ("start", "end"):
            if isinstance(read.get(key), str):
                read[key] = parse_rfc3339(read[key], zone_name)
        return read

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        zone(value)
        return value

    @field_validator("time_limit")
    @classmethod
    def _known_limit(cls, value: str | None) -> str | None:
        parse_time_limit(value)
        return value

    @field_validator("nodes", "ranks", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return as_list(value)

    @field_validator("nodes")
    @classmethod
    def _one_name_each(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Spell host lists out: `node-[001-002]` is two nodes, and a count of one would lie."""
        return nodes_of(value)

    @property
    def time_limit_s(self) -> int | None:
        """The limit in seconds, or None where there is none."""
        return parse_time_limit(self.time_limit)


class EvidenceSource(Document):
    """One `evidence` entry: which files, what they are, and what their lines cannot say."""

    path: str = Field(min_length=1, max_length=4096)
    source: Source
    node: tuple[str, ...] = ()
    rank: tuple[int, ...] = ()
    pod: str | None = None
    container: str | None = None
    timezone: str | None = None
    boot_time: datetime | None = None
    captured_at: datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        read = {key: value for key, value in data.items() if value not in (None, "")}
        for key in ("node", "rank"):
            read[key] = as_list(read.get(key))
        for key in ("boot_time", "captured_at"):
            if isinstance(read.get(key), str):
                read[key] = parse_rfc3339(read[key], read.get("timezone"))
        return read

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        zone(value)
        return value


class Bundle(Document):
    """`workload.yaml`: one attempt and the evidence beside it."""

    workload: Workload
    evidence: tuple[EvidenceSource, ...] = ()
