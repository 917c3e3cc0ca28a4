"""AWS Parallel Computing Service: the completion records of its vended logs (`PCS_JOBCOMP_LOGS`).

A record has `resource_id`, `scheduler_type` and `fields`; the names inside `fields` are not
documented, so they are compared without case and punctuation and with those of Slurm's own
completion records. Source: docs.aws.amazon.com/pcs/latest/userguide/monitoring_job-completion-logs
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from connectors.schedulers.attempt import Attempt
from connectors.schedulers.slurm_record import read_record

_MAX_CHARS: Final = 16_384
_PLAIN = re.compile(r"[^a-z0-9]")
_NAMES: Final = {
    "job_id": ("jobid", "id"),
    "array_job_id": ("arrayjobid",),
    "array_task_id": ("arraytaskid",),
    "het_job_id": ("hetjobid",),
    "het_job_offset": ("hetjoboffset",),
    "job_name": ("jobname", "name"),
    "state": ("jobstate", "state"),
    "exit_code": ("exitcode",),
    "derived_ec": ("derivedec", "derivedexitcode"),
    "start": ("start", "starttime"),
    "end": ("end", "endtime"),
    "submit": ("submit", "submittime"),
    "time_limit": ("timelimit", "limit"),
    "nodes": ("nodes", "nodelist"),
    "partition": ("partition",),
    "account": ("account",),
    "username": ("username", "user"),
    "failed_node": ("failednode",),
}
_INSTANCE: Final = re.compile(r"^i-[0-9a-f]{8,17}$")


def read_pcs_record(record: Mapping[str, Any]) -> Attempt | None:
    """Return the attempt of a record; None where it is none of a completed job."""
    completion = completion_of(record)
    attempt = None if completion is None else read_record(completion)
    if attempt is None:
        return None
    workload = attempt.workload.model_copy(update={"scheduler": "pcs"})
    instances = _instances(_fields(record).get("nodedetails"))
    return attempt.model_copy(update={"workload": workload, "instance_ids": instances})


def completion_of(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is kept of a record, under Slurm's own names; None where it is no record."""
    plain = _fields(record)
    if not plain or not record.get("resource_id"):
        return None
    completion: dict[str, Any] = {"cluster": str(record["resource_id"])}
    for name, spellings in _NAMES.items():
        value = next((plain[each] for each in spellings if plain.get(each) not in (None, "")), None)
        if isinstance(value, str | int):
            completion[name] = value[:_MAX_CHARS] if isinstance(value, str) else value
    return completion


def _fields(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = record.get("fields")
    if not isinstance(fields, Mapping):
        return {}
    return {_PLAIN.sub("", str(key).lower()): value for key, value in fields.items()}


def _instances(details: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in details if isinstance(details, list) else ():
        if not isinstance(each, Mapping):
            continue
        plain = {_PLAIN.sub("", str(key).lower()): value for key, value in each.items()}
        node = plain.get("nodename", plain.get("name", plain.get("node")))
        instance = plain.get("instanceid")
        if isinstance(node, str) and isinstance(instance, str) and _INSTANCE.match(instance):
            found[node] = instance
    return found
