"""Slurm jobs, steps and nodes as records, whatever tool showed them, and their facts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from engine.extract.formats.sheet import Line, Sheet
from engine.model.moment import to_us
from engine.model.observation import When
from engine.model.workload import Workload

# slurm.h job_state_string; the last ones are flags that squeue shows as states.
STATES: Final = (
    "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL",
    "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY", "COMPLETING", "CONFIGURING", "REQUEUED",
    "RESIZING", "REVOKED", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "REQUEUE_HOLD", "REQUEUE_FED",
    "SIGNALING", "RESV_DEL_HOLD", "LAUNCH_FAILED", "UPDATE_DB", "EXPEDITING",
)  # fmt: skip
_NODE_REASON = re.compile(r"^(.{0,900}?)\s*\[([^\[\]@]{1,64})@([0-9T:.+-]{10,32})\]\s*$")
MAX_OTHER: Final = 100
EMPTY: Final = frozenset({"", "None", "(null)", "N/A", "n/a", "Unknown", "None assigned", "null"})
_SAME_START_US: Final = 120_000_000


@dataclass(slots=True)
class JobRecord:
    """One job or step as any Slurm tool shows it; values as given, empty where absent."""

    id: str
    step: str = ""
    raw_id: str = ""
    state: str = ""
    exit: str = ""
    derived: str = ""
    start: When = field(default_factory=When)
    end: When = field(default_factory=When)
    values: dict[str, Any] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    excerpt: str | None = None


def full_state(text: str) -> tuple[str, str]:
    """Return (state, by) of `CANCELLED by 1000`, `CANCELLED+`, `OUT_OF_ME+`, `TIMEOUT`."""
    words = text.split()
    if not words:
        return "", ""
    state = words[0].upper()
    by = words[2] if len(words) > 2 and words[1] == "by" else ""
    cut = state.rstrip("+")
    if state not in STATES:
        state = next((full for full in STATES if cut and full.startswith(cut)), cut)
    return state, by


def split_exit(text: str) -> tuple[str, str]:
    """Return (exit, signal) of `1:0`, `0:125`, `3`; empty where there is none."""
    code, _, signal = text.strip().partition(":")
    return (
        code if code.isdigit() else "",
        signal if signal.isdigit() else "",
    )


def add_jobs(sheet: Sheet, records: Sequence[JobRecord]) -> None:
    """Add the facts of `records`; those of other jobs or attempts are marked as other."""
    own = own_ids(records, sheet.workload)
    mine = {id(record) for record in _own_attempts(records, own, sheet.workload)}
    others = 0
    for record in records:
        is_other = id(record) not in mine
        others += is_other
        if not is_other or others <= MAX_OTHER:
            _add_job(sheet, record, is_other=is_other)


def _add_job(sheet: Sheet, record: JobRecord, *, is_other: bool) -> None:
    state, by = full_state(record.state)
    code, signal = split_exit(record.exit)
    derived_code, derived_signal = split_exit(record.derived)
    if record.start.earliest_us is not None and not is_other:
        sheet.moments.append(record.start.earliest_us)
    values = {key: each for key, each in record.values.items() if str(each) not in EMPTY}
    values |= {"id": record.id, "step": record.step, "state": state, "by": by}
    values |= {"exit": code, "signal": signal}
    values |= {"derived_exit": derived_code, "derived_signal": derived_signal}
    sheet.add(
        "slurm.step" if record.step else "slurm.job",
        values,
        lines=record.lines,
        when=record.end if record.end.basis != "none" else record.start,
        excerpt=record.excerpt,
        other=is_other,
    )


def own_ids(records: Sequence[JobRecord], workload: Workload) -> set[str]:
    """Return the ids under which the attempt's job appears.

    An array or het job named as a whole owns its parts. Where no id matches, a file about one
    job only is about this job if its scheduler knows no Slurm ids.
    """
    wanted = workload.job_id
    found = set()
    for record in records:
        base = re.split(r"[_+]", record.id)[0]
        if wanted in (record.id, record.raw_id) or wanted == base:
            found.add(record.id)
    if not found and workload.scheduler in ("none", "unknown", "docker"):
        every = {record.id for record in records}
        return every if len(every) == 1 else set()
    return found


def _own_attempts(
    records: Sequence[JobRecord], own: set[str], workload: Workload
) -> Iterator[JobRecord]:
    """Yield the records of the attempt: of several runs of one job the one that fits its start."""
    mine = [record for record in records if record.id in own]
    jobs = [record for record in mine if not record.step]
    starts = {record.start.earliest_us for record in jobs if record.start.earliest_us}
    if workload.start is None or len(starts) < 2 or len({record.id for record in jobs}) > 1:
        yield from mine
        return
    wanted = to_us(workload.start)
    nearest = min(sorted(starts), key=lambda us: abs(us - wanted))
    later = [us for us in sorted(starts) if us > nearest]
    for record in mine:
        begun = record.start.earliest_us
        if begun is None or (nearest - _SAME_START_US <= begun and (not later or begun < later[0])):
            yield record


def split_node_reason(text: str) -> tuple[str, str, str]:
    """Split `Not responding [slurm@2024-01-01T00:00:00]` into reason, user and stamp."""
    match = _NODE_REASON.match(text)
    return (match[1], match[2], match[3]) if match else (text, "", "")


def add_node(
    sheet: Sheet,
    *,
    name: str,
    state: str,
    reason: str,
    by: str,
    when: When,
    lines: Sequence[Line],
    excerpt: str | None = None,
) -> None:
    """Add a `slurm.node` fact; nodes of other jobs are marked and only kept when not healthy."""
    if not name:
        return
    is_other = sheet.is_other_node(name)
    if is_other:
        sheet.strangers += bool(reason)
        if not reason or sheet.strangers > MAX_OTHER:
            return
    sheet.add(
        "slurm.node",
        {"node": name, "state": state.upper(), "reason": reason, "by": by},
        lines=lines,
        when=when,
        entity=sheet.node_entity(name),
        excerpt=excerpt,
        other=is_other,
    )
