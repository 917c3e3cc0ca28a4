"""The text of one structured source, line by line, and the facts that readers took from it.

Readers work one after another on the same sheet: each consumes the lines it understands. What
nobody consumed is scanned as text, so a reader that is wrong about a line loses it, and one that
is careful loses nothing.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from engine.extract.fact import Fact, fact_line
from engine.model.moment import parse_rfc3339, to_us
from engine.model.observation import Entity, Origin, When
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "workload.state": ("scheduler", "state", "exit", "signal"),
    "slurm.job": (
        "id", "state", "by", "exit", "signal", "derived_exit", "derived_signal", "reason",
        "failed_node", "nodes", "limit", "elapsed", "restarts", "user", "name",
    ),
    "slurm.step": ("id", "step", "state", "exit", "signal", "nodes"),
    "slurm.node": ("node", "state", "reason", "by"),
    "batch.job": ("id", "status", "status_reason", "attempt", "exit", "reason"),
    "sagemaker.job": ("name", "status", "secondary", "failure_reason"),
    "k8s.pod": ("name", "phase", "reason", "node", "message"),
    "k8s.container": (
        "pod", "container", "state", "reason", "exit", "signal", "restarts", "last", "node",
        "message",
    ),
    "k8s.condition": ("kind", "name", "type", "status", "reason", "message"),
    "k8s.event": ("type", "reason", "kind", "name", "count", "node", "message"),
    "inventory.gpu": ("node", "index", "pci", "uuid", "name", "state", "message"),
    "inventory.link": ("node", "device", "port", "state", "message"),
    "inventory.disk": ("node", "filesystem", "mount", "used_percent"),
    "fr.rank": (
        "rank", "pg", "pg_desc", "members", "last_enqueued", "last_started", "last_completed",
        "entries",
    ),
    "fr.blocked": (
        "rank", "pg", "pg_desc", "members", "seq", "op", "state", "sizes", "timeout_ms",
    ),
}  # fmt: skip
"""Key order of every family; the table in docs/architecture.md says what the keys mean."""

OTHER: Final = "-other."
"""`slurm-other.job` is about another job, pod or node: kept to be seen, matched by no rule."""

MAX_VALUE: Final = 1024
MAX_EXCERPT: Final = 4096


@dataclass(slots=True, frozen=True)
class Line:
    """One line: number from 1, byte offset and length without the line end, decoded text."""

    number: int
    offset: int
    length: int
    text: str


@dataclass(slots=True)
class Sheet:
    """One source with its label and job, its lines, and what was read so far.

    `moments` are times of the job's own records that no fact carries, such as its start;
    `strangers` counts the nodes of other jobs that had something to say.
    """

    data: bytes
    label: StreamLabel
    workload: Workload
    lines: list[Line] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    consumed: set[int] = field(default_factory=set)
    moments: list[int] = field(default_factory=list)
    strangers: int = 0
    _offsets: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, data: bytes, label: StreamLabel, workload: Workload) -> "Sheet":
        """Split `data` at line feeds; carriage returns at line ends are dropped from the text."""
        sheet = cls(data, label, workload)
        offset = 0
        for number, raw in enumerate(data.split(b"\n"), start=1):
            text = raw.rstrip(b"\r").decode("utf-8", "replace")
            sheet.lines.append(Line(number, offset, len(raw), text.removeprefix("\ufeff")))
            offset += len(raw) + 1
        if sheet.lines and sheet.lines[-1].length == 0:
            sheet.lines.pop()
        sheet._offsets = [line.offset for line in sheet.lines]
        return sheet

    def line_at(self, offset: int) -> Line:
        """Return the line that holds the byte at `offset`."""
        return self.lines[max(0, bisect_right(self._offsets, offset) - 1)]

    def free(self) -> Iterator[tuple[int, Line]]:
        """Yield (index, line) of every line that no reader has consumed yet."""
        for index, line in enumerate(self.lines):
            if index not in self.consumed:
                yield index, line

    def consume(self, *indexes: int) -> None:
        """Mark lines as understood."""
        self.consumed.update(indexes)

    def unconsumed(self) -> list[tuple[int, int, bytes]]:
        """Return `(line number, byte offset, bytes)` of what nobody understood."""
        return [
            (line.number, line.offset, self.data[line.offset : line.offset + line.length])
            for _, line in self.free()
            if line.text.strip()
        ]

    def add(
        self,
        family: str,
        values: dict[str, Any],
        *,
        lines: Sequence[Line],
        when: When | None = None,
        entity: Entity | None = None,
        excerpt: str | None = None,
        other: bool = False,
    ) -> None:
        """Append a fact read from `lines` (at least one)."""
        ordered = {key: clean(values.get(key)) for key in FAMILIES[family]}
        if not any(ordered.values()):
            return
        first, last = lines[0], lines[-1]
        text = "\n".join(line.text for line in lines) if excerpt is None else excerpt
        self.facts.append(
            Fact(
                text=fact_line(family.replace(".", OTHER, 1) if other else family, **ordered),
                origin=Origin(
                    self.label.uri,
                    first.number,
                    first.offset,
                    last.offset + last.length - first.offset,
                ),
                excerpt=text[:MAX_EXCERPT],
                when=when or When(),
                entity=entity or Entity(),
            )
        )

    def node_entity(self, name: str, **more: Any) -> Entity:
        """Return the entity for a node that a platform record names, if it is the job's own.

        A record of a platform may say which node it means; a name that the job is not known to
        have is kept in the text only, so that a stranger's node is never acted on.
        """
        known = set(self.workload.nodes) | set(self.label.nodes)
        is_own = self.label.trust in ("platform", "node") and name in known
        return Entity(node=name if is_own else "", **more)

    def is_other_node(self, name: str) -> bool:
        """Whether the job is known not to have run on `name`."""
        return bool(self.workload.nodes) and name not in self.workload.nodes

    def local_us(self, text: str | None) -> int | None:
        """Return microseconds of a stamp in the label's or the job's zone, or None."""
        if not text or len(text) > 40 or not text[:1].isdigit():
            return None
        try:
            name = self.label.timezone or self.workload.timezone
            return to_us(parse_rfc3339(text, name))
        except (ValueError, OverflowError):
            return None

    def at(self, text: str | None, *, clock: str = "scheduler") -> When:
        """Return the moment of a record's own stamp."""
        us = self.local_us(text)
        return When() if us is None else When(us, us, "record", clock)

    def at_epoch(self, value: Any, *, scale: int = 1_000_000, clock: str = "scheduler") -> When:
        """Return the moment of epoch seconds (`scale` 1e6) or milliseconds (1e3)."""
        us = epoch_us(value, scale=scale)
        return When() if us is None else When(us, us, "record", clock)

    def before_capture(self, age_us: int | None, *, slack_us: int = 1_000_000) -> When:
        """Return the moment `age_us` before the capture, rounded down by the tool's own unit."""
        captured = self.label.captured_at_us
        if age_us is None or captured is None:
            return When()
        return When(captured - age_us - slack_us, captured - age_us, "relative", "scheduler")


def clean(value: Any) -> str:
    """Return one line of text for a fact value; lists are joined by commas."""
    if value is None or value is False:
        return ""
    if isinstance(value, list | tuple):
        value = ",".join(str(each) for each in value if isinstance(each, str | int))
    if isinstance(value, dict):
        return ""
    return " ".join(str(value).split())[:MAX_VALUE]


def epoch_us(value: Any, *, scale: int = 1_000_000) -> int | None:
    """Return microseconds of an epoch number, if it is a plausible one (1990 to 2100)."""
    try:
        us = int(str(value).split(".", 1)[0]) * scale
    except ValueError:
        return None
    earliest = to_us(datetime(1990, 1, 1, tzinfo=UTC))
    latest = to_us(datetime(2100, 1, 1, tzinfo=UTC))
    return us if earliest <= us <= latest else None


_AGE = re.compile(r"^(?:(\d{1,5})y)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?$")
_AGE_SECONDS = (365 * 86400, 86400, 3600, 60, 1)


def age_us(text: str) -> tuple[int, int] | None:
    """Return (age, unit) in microseconds of a kubectl age such as `3m5s`, `2d`, `65s`.

    kubectl rounds down to the smallest unit it prints.
    """
    match = _AGE.match(text.strip())
    if not match or not text.strip():
        return None
    seconds, unit = 0, 1
    for part, size in zip(match.groups(), _AGE_SECONDS, strict=True):
        if part:
            seconds += int(part) * size
            unit = size
    return seconds * 1_000_000, unit * 1_000_000
