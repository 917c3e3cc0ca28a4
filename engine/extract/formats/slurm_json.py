"""Slurm as JSON: sacct, squeue, scontrol and sinfo of several releases, job completion records.

Shapes seen: openapi v0.0.38 (22.05: state as text, exit codes as numbers or objects) and the
data_parser of 23.02 and later (state as list, numbers as `{set, infinite, number}`).
"""

from collections.abc import Iterator
from typing import Any

from engine.extract.formats.jsontext import JsonValue, as_dict, as_items, number_of
from engine.extract.formats.sheet import Sheet
from engine.extract.formats.slurm_jobs import JobRecord, add_jobs, add_node, split_node_reason

_NO_TASK = (None, "", 4294967294, "4294967294")


def is_slurm(value: Any) -> bool:
    """Whether a parsed JSON value is one of Slurm's."""
    if not isinstance(value, dict):
        return False
    if _first_key(value, "jobs", ("job_id", "job_state")) or _first_key(value, "nodes", ("state",)):
        return True
    if "sinfo" in value and isinstance(value["sinfo"], list):
        return True
    return bool(
        {"JOBID", "JOBSTATE"} <= value.keys()
        or {"jobid", "state"} <= value.keys()
        or {"SLURM_JOB_ID"} <= value.keys()
        or ({"job_id", "state"} <= value.keys() and "exit_code" in value)
    )


def _first_key(value: dict[str, Any], name: str, keys: tuple[str, ...]) -> bool:
    items = value.get(name)
    if isinstance(items, dict):  # one release nests `nodes` once more
        items = items.get(name)
    first = items[0] if isinstance(items, list) and items else None
    return isinstance(first, dict) and any(key in first for key in keys)


def read_slurm_json(sheet: Sheet, documents: list[JsonValue]) -> None:
    """Consume every Slurm document of `documents`."""
    records: list[JobRecord] = []
    for document in documents:
        if not is_slurm(document.value):
            continue
        sheet.consume(*document.indexes)
        value = document.value
        if isinstance(value.get("jobs"), list):
            for job in value["jobs"]:
                if isinstance(job, dict):
                    records += _job(sheet, document, job)
        elif isinstance(value.get("nodes"), list | dict) or "sinfo" in value:
            _nodes(sheet, document)
        else:
            records += _completion(sheet, document, value)
    add_jobs(sheet, records)


def _job(sheet: Sheet, document: JsonValue, job: dict[str, Any]) -> Iterator[JobRecord]:
    raw = str(number_of(job.get("job_id")) or "")
    lines, excerpt = document.span("job_id", job.get("job_id"))
    time = as_dict(job.get("time"))
    state, reason = _state(job)
    record = JobRecord(
        id=_array_id(job, raw),
        raw_id=raw,
        state=state,
        exit=_accounted_exit(job.get("exit_code"), state),
        derived=exit_text(job.get("derived_exit_code")),
        start=sheet.at_epoch(number_of(time.get("start", job.get("start_time")))),
        end=sheet.at_epoch(number_of(time.get("end", job.get("end_time")))),
        values={
            "reason": reason,
            "failed_node": job.get("failed_node"),
            "nodes": _node_list(job.get("nodes")),
            "limit": _limit(number_of(time.get("limit", job.get("time_limit")))),
            "elapsed": _seconds(time.get("elapsed")),
            "restarts": number_of(job.get("restart_cnt")),
            "user": as_dict(job.get("association")).get("user")
            or job.get("user")
            or job.get("user_name"),
            "name": job.get("name"),
        },
        lines=tuple(lines),
        excerpt=excerpt,
    )
    yield record
    for step in as_items(job.get("steps")):
        if isinstance(step, dict):
            yield _step(sheet, document, step, record)


def _step(sheet: Sheet, document: JsonValue, step: dict[str, Any], job: JobRecord) -> JobRecord:
    identity = as_dict(step.get("step"))
    given = identity.get("id")
    shown = str(given.get("step_id", "") if isinstance(given, dict) else given or "")
    lines, excerpt = document.span("id", given)
    time = as_dict(step.get("time"))
    return JobRecord(
        id=job.id,
        raw_id=job.raw_id,
        step=shown.rpartition(".")[2].lower() or "0",
        state=_state(step)[0],
        exit=_accounted_exit(step.get("exit_code"), _state(step)[0]),
        start=sheet.at_epoch(number_of(time.get("start"))),
        end=sheet.at_epoch(number_of(time.get("end"))),
        values={
            "nodes": _node_list(step.get("nodes")),
            "name": identity.get("name"),
        },
        lines=tuple(lines),
        excerpt=excerpt,
    )


def _state(record: dict[str, Any]) -> tuple[str, str]:
    given = record.get("state", record.get("job_state"))
    reason = record.get("state_reason", "")
    if isinstance(given, dict):
        reason = given.get("reason", reason)
        given = given.get("current")
    if isinstance(given, list):
        given = next((each for each in given if isinstance(each, str)), "")
    by = record.get("kill_request_user")
    state = str(given or "")
    if state.upper() == "CANCELLED" and isinstance(by, str | int) and by not in ("", -1):
        state = f"{state} by {by}"
    return state, str(reason or "")


def _accounted_exit(value: Any, state: str) -> str:
    """Return an exit code; none where it is the plain SUCCESS that 22.05 (v0.0.38) writes for a
    job that failed with 3."""
    given = as_dict(value)
    is_plain = given.get("status") == "SUCCESS" and isinstance(given.get("return_code"), int)
    return "" if is_plain and state.upper().startswith("FAILED") else exit_text(value)


def exit_text(value: Any) -> str:
    """Return `exit:signal` of a JSON exit code: a wait status or an object of any release."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value >> 8 & 0xFF}:{value & 0x7F}" if value >= 0 else ""
    if not isinstance(value, dict):
        return ""
    if "number" in value and "return_code" not in value:
        number = number_of(value)
        return exit_text(number) if isinstance(number, int) else ""
    code = number_of(value.get("return_code"))
    signal = as_dict(value.get("signal"))
    signal_id = number_of(signal.get("signal_id", signal.get("id")))
    status = value.get("status")
    if code is None and signal_id is None and not status:
        return ""
    return f"{code if isinstance(code, int) else 0}:{signal_id if signal_id else 0}"


def _array_id(job: dict[str, Any], raw: str) -> str:
    array = as_dict(job.get("array"))
    parent = number_of(array.get("job_id", job.get("array_job_id")))
    task = number_of(array.get("task_id", job.get("array_task_id")))
    return f"{parent}_{task}" if parent and task not in _NO_TASK else raw


def _node_list(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("range") or ",".join(map(str, as_items(value.get("list")))))
    return "" if value is None else str(value)


def _limit(minutes: Any) -> str:
    return _seconds(minutes * 60) if isinstance(minutes, int) and minutes < 10**9 else ""


def _seconds(value: Any) -> str:
    if not isinstance(value, int) or value < 0:
        return ""
    days, rest = divmod(value, 86400)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{clock}" if days else clock


def _nodes(sheet: Sheet, document: JsonValue) -> None:
    value = document.value
    items = value.get("nodes", value.get("sinfo"))
    if isinstance(items, dict):
        items = items.get("nodes")
    for node in as_items(items):
        if not isinstance(node, dict):
            continue
        names = as_dict(node.get("nodes")).get("nodes")
        states = node.get("state", as_dict(node.get("node")).get("state"))
        if isinstance(states, list):
            states = "+".join(str(each) for each in states)
        given = node.get("reason")
        if isinstance(given, dict):
            given = given.get("description")
        reason, by, stamp = split_node_reason(str(given or ""))
        when = sheet.at_epoch(number_of(node.get("reason_changed_at")))
        for name in as_items(names) or [node.get("name")]:
            if not isinstance(name, str):
                continue
            lines, excerpt = document.span("name", name)
            add_node(
                sheet,
                name=name,
                state=str(states or ""),
                reason=reason,
                by=str(node.get("reason_set_by_user") or by),
                when=when if when.basis != "none" else sheet.at(stamp),
                lines=lines,
                excerpt=excerpt,
            )


def _completion(sheet: Sheet, document: JsonValue, record: dict[str, Any]) -> Iterator[JobRecord]:
    """Read a jobcomp record (upper or lower case keys) or an EpilogSlurmctld environment."""
    value = {
        key.lower().removeprefix("slurm_job_").lstrip("@"): each for key, each in record.items()
    }
    raw = str(
        value.get("jobid")
        or value.get("job_id")
        or value.get("id")
        or value.get("slurm_jobid")
        or ""
    )
    key = next(
        (each for each in ("JOBID", "jobid", "SLURM_JOB_ID", "job_id") if each in record), ""
    )
    lines, excerpt = document.span(key, record.get(key))
    parent = value.get("array_job_id") or value.get("arrayjobid") or 0
    task = value.get("array_task_id", value.get("arraytaskid"))
    is_array = str(parent) not in ("0", "") and task not in _NO_TASK
    exit_code = value.get("exit_code2") or value.get("exit_code") or value.get("exitcode")
    yield JobRecord(
        id=f"{parent}_{task}" if is_array else raw,
        raw_id=raw,
        state=str(value.get("state") or value.get("jobstate") or ""),
        exit=exit_text(exit_code),
        derived=exit_text(value.get("derived_ec")) if ":" in str(value.get("derived_ec")) else "",
        start=_moment(sheet, value.get("start")),
        end=_moment(sheet, value.get("end")),
        values={
            "reason": value.get("statereasonprev") or value.get("reason"),
            "failed_node": value.get("failed_node"),
            "nodes": value.get("nodes") or value.get("nodelist"),
            "limit": value.get("limit") or _seconds(value.get("time_limit")),
            "elapsed": _seconds(value.get("elapsed")),
            "restarts": value.get("restart_count"),
            "user": value.get("username") or value.get("user"),
            "name": value.get("job_name") or value.get("jobname") or value.get("name"),
        },
        lines=tuple(lines),
        excerpt=redacted_excerpt(excerpt),
    )


def redacted_excerpt(excerpt: str) -> str:
    """Cut a completion record before the job script: it may hold secrets and proves nothing."""
    return excerpt.split('"script"', 1)[0]


def _moment(sheet: Sheet, value: Any) -> Any:
    text = str(value or "")
    return sheet.at_epoch(text) if text.isdigit() else sheet.at(text)
