"""Slurm as text: sacct tables, scontrol blocks, sinfo and squeue listings."""

import re
from collections.abc import Sequence
from typing import Final

from engine.extract.formats.sheet import Line, Sheet
from engine.extract.formats.slurm_jobs import (
    EMPTY,
    JobRecord,
    add_jobs,
    add_node,
    split_node_reason,
)
from engine.model.hostlist import expand_hostlist
from engine.model.observation import When

_SHORT_STATES: Final = {
    "PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED",
    "F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL",
    "DL": "DEADLINE", "OOM": "OUT_OF_MEMORY", "CG": "COMPLETING", "CF": "CONFIGURING",
    "RQ": "REQUEUED", "ST": "STOPPED", "SE": "SPECIAL_EXIT",
}  # fmt: skip
_JOB_ID = re.compile(r"^(\d+(?:_(?:\d+|\[[^\]]{0,200}\]))?(?:\+\d+)?)(?:\.([\w+]{1,20}))?$")
_DASHES = re.compile(r"^\s*-{2,}(?:\s+-{2,})*\s*$")
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z0-9_/:&-]{0,40})=")
_DRAIN = re.compile(
    r"^(?P<reason>\S.{0,400}?)\s+(?P<user>\S+)\s+(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown)"
    r"\s+(?:(?P<state>[a-z][a-z*~#!%$@^+-]{1,30})\s+)?(?P<nodes>\S+)\s*$"
)
_SEFF = re.compile(r"^([A-Z][A-Za-z/ -]{1,40}): (.{0,200})$")
_FREE_TEXT: Final = frozenset(
    {"jobname", "comment", "admincomment", "systemcomment", "submitline", "workdir", "constraints"}
)


def read_slurm_text(sheet: Sheet) -> None:
    """Consume every Slurm listing of the sheet."""
    records: list[JobRecord] = []
    index = 0
    while index < len(sheet.lines):
        text = sheet.lines[index].text
        if index in sheet.consumed or not text.strip():
            index += 1
            continue
        after = _read_block(sheet, index, records)
        if after > index:
            sheet.consume(*range(index, after))
        index = max(after, index + 1)
    add_jobs(sheet, records)


def _read_block(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    """Read the block that starts at `index`; return the index after it, or `index`."""
    text = sheet.lines[index].text
    stripped = text.strip()
    if stripped.startswith("JobId="):
        return _scontrol_job(sheet, index, records)
    if stripped.startswith("NodeName="):
        return _scontrol_node(sheet, index)
    if stripped.startswith("Job ID: "):
        return _seff(sheet, index, records)
    words = stripped.split()
    if words[:4] == ["REASON", "USER", "TIMESTAMP", "NODELIST"] or (
        words[:3] == ["REASON", "USER", "TIMESTAMP"] and words[-1] == "NODELIST"
    ):
        return _drained(sheet, index)
    if words[:1] == ["JOBID"] and ("ST" in words or "STATE" in words):
        return _squeue(sheet, index, records)
    if words[:1] in (["PARTITION"], ["NODELIST"]) and "STATE" in words:
        return _sinfo(sheet, index)
    if "|" in stripped and _is_sacct_header([each.strip() for each in stripped.split("|")]):
        return _parsable(sheet, index, records)
    if _is_sacct_header(words):
        return _fixed_width(sheet, index, records)
    return index


def _is_sacct_header(names: Sequence[str]) -> bool:
    lowered = {name.lower() for name in names}
    return bool(lowered & {"jobid", "jobidraw"}) and bool(
        lowered & {"state", "exitcode", "elapsed", "start", "end"}
    )


def _parsable(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    names = [name.strip().lower() for name in sheet.lines[index].text.strip().split("|")]
    if names and not names[-1]:
        names.pop()
    free = next((at for at, name in enumerate(names) if name in _FREE_TEXT), len(names))
    after = index + 1
    for line in sheet.lines[index + 1 :]:
        cells = line.text.split("|")
        if len(cells) < max(2, len(names)) - 1:
            break
        extra = len(cells) - len(names)
        if extra > 0 and not cells[-1].strip():
            extra -= 1
        values = {
            name: cells[at + (max(0, extra) if at > free else 0)].strip()
            for at, name in enumerate(names)
            if at + (max(0, extra) if at > free else 0) < len(cells)
        }
        if not _add_row(sheet, values, line, records):
            break
        after += 1
    return after


def _fixed_width(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    header = sheet.lines[index].text
    names = [name.lower() for name in header.split()]
    rows = index + 1
    spans: list[tuple[int, int]] = []
    if rows < len(sheet.lines) and _DASHES.match(sheet.lines[rows].text):
        spans = [match.span() for match in re.finditer(r"-+", sheet.lines[rows].text)]
        rows += 1
    if spans and len(spans) != len(names):
        return index
    after = rows
    for line in sheet.lines[rows:]:
        words = line.text.split()
        if len(words) == len(names):
            cells = words
        elif spans and words:
            cells = _cut_row(line.text, spans)
        else:
            break
        if not _add_row(sheet, dict(zip(names, cells, strict=True)), line, records):
            break
        after += 1
    return after if after > rows else index


def _cut_row(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Give each word to the column it overlaps most; what people paste is often off by a few.

    Column borders that cut a word in two would lose both halves.
    """
    cells: list[list[str]] = [[] for _ in spans]
    for word in re.finditer(r"\S+", text):
        low, high = word.span()
        best = max(
            range(len(spans)),
            key=lambda at: (
                min(high, spans[at][1]) - max(low, spans[at][0]),
                -at,
            ),
        )
        cells[best].append(word[0])
    return [" ".join(cell) for cell in cells]


def _add_row(sheet: Sheet, values: dict[str, str], line: Line, records: list[JobRecord]) -> bool:
    shown = values.get("jobid") or values.get("jobidraw") or ""
    match = _JOB_ID.match(shown.removesuffix("+") if shown.count("+") == 1 else shown)
    if not match:
        return False
    records.append(
        JobRecord(
            id=match[1],
            step=_full_step(match[2] or "", values.get("jobname", "")),
            raw_id=values.get("jobidraw", ""),
            state=values.get("state", ""),
            exit=values.get("exitcode", ""),
            derived=values.get("derivedexitcode", ""),
            start=sheet.at(values.get("start")),
            end=sheet.at(values.get("end")),
            values={
                "reason": values.get("reason"),
                "failed_node": values.get("failednode"),
                "nodes": values.get("nodelist"),
                "limit": values.get("timelimit"),
                "elapsed": values.get("elapsed"),
                "restarts": values.get("restarts"),
                "user": values.get("user"),
                "name": values.get("jobname"),
            },
            lines=(line,),
        )
    )
    return True


def _full_step(step: str, name: str) -> str:
    """Undo sacct's cut of `batch` and `extern` (`410050.ba+`)."""
    if step.isdigit() or not step:
        return step
    cut = step.rstrip("+")
    return next((full for full in ("batch", "extern", "interactive") if full.startswith(cut)), cut)


def _block_values(lines: Sequence[Line]) -> dict[str, str]:
    """Return `Key=value` pairs; a value runs to the next key, so it may hold spaces."""
    values: dict[str, str] = {}
    for line in lines:
        keys = list(_KEY.finditer(line.text))
        for at, match in enumerate(keys):
            end = keys[at + 1].start() if at + 1 < len(keys) else len(line.text)
            value = line.text[match.end() : end].strip()
            values.setdefault(match[1], "" if value in EMPTY else value)
    return values


def _block_end(sheet: Sheet, index: int) -> int:
    after = index + 1
    while after < len(sheet.lines):
        text = sheet.lines[after].text
        if not text[:1].isspace() or not _KEY.search(text):
            break
        after += 1
    return after


def _scontrol_job(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    after = _block_end(sheet, index)
    lines = sheet.lines[index:after]
    values = _block_values(lines)
    raw = re.match(r"\d+", values.get("JobId", ""))
    if not raw:
        return index
    job_id = raw[0]
    if values.get("ArrayJobId") and values.get("ArrayTaskId", "").isdigit():
        job_id = f"{values['ArrayJobId']}_{values['ArrayTaskId']}"
    records.append(
        JobRecord(
            id=job_id,
            raw_id=raw[0],
            state=values.get("JobState", ""),
            exit=values.get("ExitCode", ""),
            derived=values.get("DerivedExitCode", ""),
            start=sheet.at(values.get("StartTime")),
            end=sheet.at(values.get("EndTime")),
            values={
                "reason": values.get("Reason"),
                "failed_node": values.get("FailedNode"),
                "nodes": values.get("NodeList"),
                "limit": values.get("TimeLimit"),
                "elapsed": values.get("RunTime"),
                "restarts": values.get("Restarts"),
                "user": values.get("UserId", "").split("(", 1)[0],
                "name": values.get("JobName"),
            },
            lines=tuple(lines),
        )
    )
    return after


def _seff(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    """Read the block that `seff` prints: `Job ID: 7`, `State: OUT_OF_MEMORY (exit code 0)`."""
    after = index + 1
    values: dict[str, str] = {}
    while after < len(sheet.lines) and (match := _SEFF.match(sheet.lines[after].text)):
        values.setdefault(match[1], match[2])
        after += 1
    job_id = sheet.lines[index].text.strip().removeprefix("Job ID: ")
    state = re.match(r"(\S+)(?: \(exit code (\d{1,3})\))?", values.get("State", ""))
    if not state or not _JOB_ID.match(job_id):
        return index
    records.append(
        JobRecord(
            id=job_id,
            state=state[1],
            exit=state[2] or "",
            values={
                "user": values.get("User/Group", "").split("/")[0],
                "elapsed": values.get("Job Wall-clock time"),
            },
            lines=tuple(sheet.lines[index:after]),
        )
    )
    return after


def _scontrol_node(sheet: Sheet, index: int) -> int:
    after = _block_end(sheet, index)
    lines = sheet.lines[index:after]
    values = _block_values(lines)
    reason, by, stamp = split_node_reason(values.get("Reason", ""))
    add_node(
        sheet,
        name=values.get("NodeName", ""),
        state=values.get("State", ""),
        reason=reason,
        by=by,
        when=sheet.at(stamp),
        lines=lines,
    )
    return after


def _drained(sheet: Sheet, index: int) -> int:
    after = index + 1
    for line in sheet.lines[index + 1 :]:
        match = _DRAIN.match(line.text)
        if not match:
            break
        for name in _names(match["nodes"]):
            add_node(
                sheet,
                name=name,
                state=match["state"] or "",
                reason=match["reason"],
                by=match["user"],
                when=sheet.at(match["time"]),
                lines=[line],
            )
        after += 1
    return after


def _names(hostlist: str) -> list[str]:
    try:
        return expand_hostlist(hostlist)[:10_000]
    except ValueError:
        return [hostlist]


def _squeue(sheet: Sheet, index: int, records: list[JobRecord]) -> int:
    names = sheet.lines[index].text.split()
    after = index + 1
    for line in sheet.lines[index + 1 :]:
        cells = line.text.split(None, len(names) - 1)
        if len(cells) < len(names) - 1 or not _JOB_ID.match(cells[0]):
            break
        values = dict(zip(names, cells, strict=False))
        place = values.get("NODELIST(REASON)", values.get("NODELIST", "")).strip()
        is_reason = place.startswith("(")
        short = values.get("ST") or values.get("STATE", "")
        records.append(
            JobRecord(
                id=cells[0],
                state=_SHORT_STATES.get(short, short),
                values={
                    "reason": place.strip("()") if is_reason else "",
                    "nodes": "" if is_reason else place,
                    "elapsed": values.get("TIME"),
                    "limit": values.get("TIME_LIMIT"),
                    "user": values.get("USER"),
                    "name": values.get("NAME"),
                },
                lines=(line,),
            )
        )
        after += 1
    return after


def _sinfo(sheet: Sheet, index: int) -> int:
    names = sheet.lines[index].text.split()
    after = index + 1
    for line in sheet.lines[index + 1 :]:
        cells = line.text.split(None, len(names) - 1)
        if len(cells) != len(names):
            break
        values = dict(zip(names, cells, strict=True))
        state = values.get("STATE", "")
        for name in _names(values.get("NODELIST", "")):
            reason = values.get("REASON", "").strip()
            add_node(
                sheet,
                name=name,
                state=state,
                reason="" if reason.lower() == "none" else reason,
                by="",
                when=When(),
                lines=[line],
            )
        after += 1
    return after
