"""Slurm's records as attempts: sacct and slurmrestd JSON, sacct text, scontrol, job completion.

The tools are run with `TZ=UTC`, so that their times need no offset and no hour is told twice when
clocks change. Where a record has times of another zone, `timezone` names it.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from connectors.schedulers import slurm_fields as fields
from connectors.schedulers.attempt import Attempt
from engine.model.hostlist import expand_hostlist
from engine.model.moment import rfc3339, to_us
from engine.model.workload import Workload, parse_time_limit

SACCT_FIELDS: Final = (
    "JobIDRaw", "JobID", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End",
    "TimelimitRaw", "NodeList", "Partition", "Account", "User", "Cluster", "AllocTRES", "Reason",
    "JobName",
)  # fmt: skip
"""What is asked of sacct. The name comes last: it is the only one that may hold anything."""
_KEY = re.compile(r"(?:^|\s)([A-Z][A-Za-z]*(?:[:/][A-Za-z:]+)?)=")
_ROW = re.compile(r"^\d{1,10}[\w.+\[\]%,-]{0,200}\|")
_SCONTROL_KEYS: Final = frozenset(
    {
        "JobId", "ArrayJobId", "ArrayTaskId", "HetJobId", "HetJobOffset", "JobName", "UserId",
        "Account", "JobState", "Reason", "Restarts", "ExitCode", "DerivedExitCode", "TimeLimit",
        "SubmitTime", "StartTime", "EndTime", "Partition", "NodeList", "StdErr", "StdOut", "TRES",
    }
)  # fmt: skip


def read_jobs_json(document: Any, *, cluster: str = "") -> list[Attempt]:
    """Return the attempts of a `sacct --json`, `squeue --json` or slurmrestd answer, by start."""
    jobs = document.get("jobs") if isinstance(document, Mapping) else None
    found = [_json_job(job, cluster) for job in jobs or () if isinstance(job, Mapping)]
    return _ordered(found)


def read_sacct_text(text: str, *, cluster: str = "", timezone: str | None = None) -> list[Attempt]:
    """Return the attempts of sacct's `--parsable2` or fixed-width output, steps left out."""
    lines = text.splitlines()
    if not lines:
        return []
    rows = _parsable(lines) if "|" in lines[0] else _fixed_width(lines)
    return _ordered([_sacct_row(row, cluster, timezone) for row in rows])


def read_scontrol(text: str, *, cluster: str = "", timezone: str | None = None) -> list[Attempt]:
    """Return the attempts of `scontrol show job`, of one line a job or of several."""
    blocks = re.split(r"\n\s*\n|\n(?=JobId=)", text.strip())
    return _ordered(
        [
            _scontrol_job(_keys(block), cluster, timezone)
            for block in blocks
            if block.lstrip().startswith("JobId=")
        ]
    )


def read_record(record: Mapping[str, Any], *, timezone: str | None = None) -> Attempt | None:
    """Return the attempt of a job completion record or an `EpilogSlurmctld` environment.

    None where it names no job. Scripts, comments and directories are not looked at.
    """
    value = {_short_key(key): each for key, each in record.items()}
    nothing = ("", "0", 0, None)
    het = value.get("het_job_id", value.get("hetjobid", value.get("pack_job_id")))
    is_het = het not in nothing
    offset = value.get("het_job_offset", value.get("hetjoboffset", value.get("pack_job_offset")))
    array = value.get("array_job_id", value.get("arrayjobid"))
    limit = value.get("time_limit", value.get("limit"))
    return _attempt(
        raw=value.get("jobid", value.get("job_id", value.get("id", value.get("id")))),
        array=None if array in nothing else array,
        task=value.get("array_task_id", value.get("arraytaskid")),
        het=het if is_het else None,
        offset=offset if is_het else None,
        state=fields.state(value.get("state", value.get("jobstate", value.get("job_state")))),
        exit_code=fields.exit_code(
            value.get("exit_code2") or value.get("exitcode") or value.get("exit_code")
        ),
        derived=fields.exit_code(value.get("derived_ec")),
        submit=fields.moment(value.get("submit"), timezone),
        start=fields.moment(value.get("start", value.get("start_time")), timezone),
        end=fields.moment(value.get("end", value.get("end_time")), timezone),
        limit_s=_record_limit(limit),
        nodes=fields.node_list(value.get("nodes", value.get("nodelist"))),
        partition=value.get("partition"),
        account=value.get("account"),
        user=value.get("username", value.get("user", value.get("user_name"))),
        name=value.get("job_name", value.get("jobname", value.get("name"))),
        cluster=value.get("cluster", value.get("cluster_name")),
        restarts=fields.number(value.get("restart_count")),
        reason=value.get("statereason", value.get("reason")),
        failed=fields.node_list(value.get("failed_node")),
        gpus=fields.gpu_count(value.get("tres_alloc")),
        stdout=value.get("std_out", value.get("stdout")),
        stderr=value.get("std_err", value.get("stderr")),
    )


def _json_job(job: Mapping[str, Any], cluster: str) -> Attempt | None:
    time = _dict(job.get("time"))
    array = _dict(job.get("array"))
    het = _dict(job.get("het"))
    association = _dict(job.get("association"))
    told = job.get("state", job.get("job_state"))
    reason = told.get("reason") if isinstance(told, Mapping) else job.get("state_reason")
    limit = fields.number(time.get("limit", job.get("time_limit")))
    task = array.get("task_id", job.get("array_task_id"))
    het_id = fields.number(het.get("job_id", job.get("het_job_id")))
    return _attempt(
        raw=fields.number(job.get("job_id")),
        array=fields.number(array.get("job_id", job.get("array_job_id"))) or None,
        task=fields.number(task),
        het=het_id or None,
        offset=fields.number(het.get("job_offset", job.get("het_job_offset"))),
        state=fields.state(told, killed_by=job.get("kill_request_user")),
        exit_code=_json_exit(job.get("exit_code"), fields.state(told)),
        derived=fields.exit_code(job.get("derived_exit_code")),
        submit=fields.moment(time.get("submission", job.get("submit_time"))),
        start=fields.moment(time.get("start", job.get("start_time"))),
        end=fields.moment(time.get("end", job.get("end_time"))),
        limit_s=None if limit is None else limit * 60,
        nodes=fields.node_list(job.get("nodes")),
        partition=job.get("partition"),
        account=job.get("account") or association.get("account"),
        user=association.get("user") or job.get("user") or job.get("user_name"),
        name=job.get("name"),
        cluster=job.get("cluster") or cluster,
        restarts=fields.number(job.get("restart_cnt")),
        reason=reason,
        failed=fields.node_list(job.get("failed_node")),
        gpus=fields.gpu_count(job.get("tres", job.get("tres_alloc_str")))
        or fields.gres_gpu_count(job.get("gres_detail")),
        stdout=job.get("stdout_expanded") or job.get("stdout") or job.get("standard_output"),
        stderr=job.get("stderr_expanded") or job.get("stderr") or job.get("standard_error"),
    )


def _json_exit(value: Any, state: str) -> str:
    """22.05 (v0.0.38) prints SUCCESS and 0 for a job that failed with 3: that is no exit code."""
    text = fields.exit_code(value)
    return "" if text == "0:0" and state.startswith("FAILED") else text


def _sacct_row(row: Mapping[str, str], cluster: str, timezone: str | None) -> Attempt | None:
    shown = row.get("jobid", "")
    raw = row.get("jobidraw") or shown
    if "." in shown or "." in raw:
        return None
    parent, _, task = shown.partition("_")
    minutes = row.get("timelimitraw", "")
    limit_s = int(minutes) * 60 if minutes.isdigit() else _limit(row.get("timelimit", ""))
    het, plus, offset = shown.partition("+")
    return _attempt(
        raw=raw,
        array=parent if task else None,
        task=task or None,
        het=het if plus else None,
        offset=offset if plus else None,
        state=fields.word(row.get("state")),
        exit_code=fields.exit_code(row.get("exitcode")),
        derived=fields.exit_code(row.get("derivedexitcode")),
        submit=fields.moment(row.get("submit"), timezone),
        start=fields.moment(row.get("start"), timezone),
        end=fields.moment(row.get("end"), timezone),
        limit_s=limit_s,
        nodes=fields.node_list(row.get("nodelist")),
        partition=row.get("partition"),
        account=row.get("account"),
        user=row.get("user"),
        name=row.get("jobname"),
        cluster=row.get("cluster") or cluster,
        restarts=fields.number(row.get("restarts")),
        reason=row.get("reason"),
        failed=fields.node_list(row.get("failednode")),
        gpus=fields.gpu_count(row.get("alloctres", "")),
    )


def _scontrol_job(job: Mapping[str, str], cluster: str, timezone: str | None) -> Attempt | None:
    user = job.get("UserId", "").partition("(")[0]
    return _attempt(
        raw=job.get("JobId"),
        array=job.get("ArrayJobId"),
        task=job.get("ArrayTaskId"),
        het=job.get("HetJobId"),
        offset=job.get("HetJobOffset"),
        state=fields.word(job.get("JobState")),
        exit_code=fields.exit_code(job.get("ExitCode")),
        derived=fields.exit_code(job.get("DerivedExitCode")),
        submit=fields.moment(job.get("SubmitTime"), timezone),
        start=fields.moment(job.get("StartTime"), timezone),
        end=fields.moment(job.get("EndTime"), timezone),
        limit_s=_limit(job.get("TimeLimit", "")),
        nodes=fields.node_list(job.get("NodeList")),
        partition=job.get("Partition"),
        account=job.get("Account"),
        user=user,
        name=job.get("JobName"),
        cluster=cluster,
        restarts=fields.number(job.get("Restarts")),
        reason=job.get("Reason"),
        gpus=fields.gpu_count(job.get("TRES", "")),
        stdout=job.get("StdOut"),
        stderr=job.get("StdErr"),
    )


def _attempt(
    *,
    raw: Any,
    array: Any,
    task: Any,
    het: Any,
    offset: Any,
    state: str,
    exit_code: str,
    derived: str,
    submit: datetime | None,
    start: datetime | None,
    end: datetime | None,
    limit_s: int | None,
    nodes: str,
    partition: Any,
    account: Any,
    user: Any,
    name: Any,
    cluster: Any,
    restarts: int | None,
    reason: Any,
    failed: str = "",
    gpus: int | None = None,
    stdout: Any = None,
    stderr: Any = None,
) -> Attempt | None:
    raw_id = fields.word(raw)
    task_id = "" if task is None or str(task) == str(fields.NO_VALUE) else fields.word(task)
    parent = fields.word(array)
    is_task = bool(parent) and task_id.isdigit()
    het_id, het_offset = fields.word(het), fields.word(offset)
    over = fields.is_over(state)
    if over and not nodes and start == end:
        # Of a job that never began Slurm writes the moment of its end as its start (22.05).
        start = None
    given = {
        "scheduler": "slurm",
        "cluster": fields.word(cluster) or None,
        "tenant": fields.word(account) or None,
        "job_id": f"{parent}_{task_id}" if is_task else _het_name(het_id, het_offset) or raw_id,
        "name": fields.word(name) or None,
        "user": fields.word(user) or None,
        "partition": fields.word(partition) or None,
        "state": state or None,
        "exit_code": exit_code or None,
        "start": start,
        "end": end if over or not state else None,
        "time_limit": fields.limit_text(limit_s),
        "nodes": tuple(expand_hostlist(nodes)),
    }
    try:
        workload = Workload.model_validate({k: v for k, v in given.items() if v not in (None, ())})
    except ValidationError:
        return None
    return Attempt(
        workload=workload,
        raw_job_id=raw_id,
        array_job_id=parent if is_task else "",
        array_task_id=task_id if is_task else "",
        het_job_id=het_id,
        het_offset=het_offset,
        restarts=restarts,
        submitted=None if submit is None else rfc3339(to_us(submit)),
        derived_exit_code=derived,
        reason=fields.word(reason),
        failed_nodes=tuple(expand_hostlist(failed)),
        gpus=gpus,
        stdout=fields.word(stdout),
        stderr=fields.word(stderr),
        submitter=fields.word(user),
        is_over=over,
    )


def _het_name(het_id: str, offset: str) -> str:
    return f"{het_id}+{offset}" if het_id and offset.isdigit() else ""


def _ordered(found: list[Attempt | None]) -> list[Attempt]:
    """Return the attempts of each job in the order in which they began."""
    kept = [each for each in found if each is not None]
    return sorted(kept, key=lambda each: (each.workload.job_id, _began(each)))


def _began(attempt: Attempt) -> tuple[str, str]:
    start = attempt.workload.start
    # An attempt that never started comes after those that did: it waits, or was cancelled.
    return ("~" if start is None else rfc3339(to_us(start)), attempt.submitted or "")


def _parsable(lines: list[str]) -> Iterator[dict[str, str]]:
    """Read `a|b|c` rows. A line that begins with no job id goes on with the value before it."""
    header = [name.strip().lower() for name in lines[0].split("|")]
    count = len(header)
    starts_with_id = header[0] in ("jobid", "jobidraw")
    rows: list[str] = []
    for line in lines[1:]:
        if rows and starts_with_id and not _ROW.match(line):
            rows[-1] += "\n" + line
        else:
            rows.append(line)
    for row in rows:
        parts = row.split("|")
        if len(parts) >= count:
            # What is too much belongs to the last column.
            values = [*parts[: count - 1], "|".join(parts[count - 1 :])]
            yield dict(zip(header, values, strict=True))


def _fixed_width(lines: list[str]) -> Iterator[dict[str, str]]:
    """Read columns under a line of dashes; a `+` at the end of a value says that it is cut."""
    if len(lines) < 2 or not re.fullmatch(r"[-\s]{2,}", lines[1]):
        return
    spans = [match.span() for match in re.finditer(r"-+", lines[1])]
    names = [lines[0][start:stop].strip().lower() for start, stop in spans]
    for line in lines[2:]:
        if line.strip():
            values = [line[start:stop].strip() for start, stop in spans]
            yield dict(zip(names, values, strict=True))


def _keys(block: str) -> dict[str, str]:
    """Return the first value of each key that is wanted: a job's name may imitate later ones."""
    text = " ".join(block.split("\n"))
    marks = [match for match in _KEY.finditer(text) if match[1] in _SCONTROL_KEYS]
    found: dict[str, str] = {}
    found_end = 0
    for mark in marks:
        following = _KEY.search(text, mark.end())
        stop = len(text) if following is None else following.start()
        if mark[1] == "JobName":
            # The name ends where scontrol's own next key begins, on the same line.
            user = text.find(" UserId=", mark.end())
            stop = user if user >= 0 else stop
        if mark.start() < found_end:
            continue
        found_end = stop
        found.setdefault(mark[1], text[mark.end() : stop].strip())
    return found


def _record_limit(value: Any) -> int | None:
    """jobcomp gives seconds as a number, and `01:00:00` as text."""
    plain = fields.number(value)
    return plain if plain is not None else _limit(str(value or ""))


def _limit(text: str) -> int | None:
    try:
        return parse_time_limit(fields.word(text))
    except ValueError:
        return None


def _short_key(key: str) -> str:
    return key.lower().removeprefix("slurm_job_").removeprefix("slurm_").lstrip("@")


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
