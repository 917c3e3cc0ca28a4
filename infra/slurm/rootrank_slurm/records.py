"""What is taken of Slurm's records, and what is asked of Slurm beside them.

Only names on these lists leave the controller: never scripts, comments, environments or commands.
"""

import calendar
import os
import re
import subprocess
import time
from typing import Any, Dict, List, Mapping, Optional

EPILOG = (
    "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID", "SLURM_CLUSTER_NAME", "SLURM_HET_JOB_ID",
    "SLURM_HET_JOB_OFFSET", "SLURM_JOB_ACCOUNT", "SLURM_JOB_DERIVED_EC", "SLURM_JOB_END_TIME",
    "SLURM_JOB_EXIT_CODE", "SLURM_JOB_EXIT_CODE2", "SLURM_JOB_ID", "SLURM_JOB_NAME",
    "SLURM_JOB_NODELIST", "SLURM_JOB_PARTITION", "SLURM_JOB_RESTART_COUNT",
    "SLURM_JOB_START_TIME", "SLURM_JOB_STDERR", "SLURM_JOB_STDOUT", "SLURM_JOB_USER",
    "SLURM_PACK_JOB_ID", "SLURM_PACK_JOB_OFFSET",
)  # fmt: skip
JOBCOMP = (
    "ACCOUNT", "ARRAYJOBID", "ARRAYTASKID", "CLUSTER", "DERIVED_EC", "END", "EXITCODE", "HETJOBID",
    "HETJOBOFFSET", "JOBID", "JOBNAME", "JOBSTATE", "LIMIT", "NODES", "PARTITION", "START",
    "STATEREASONPREV", "STDERR", "STDOUT", "SUBMIT", "USERNAME",
)  # fmt: skip
POSTED = (
    "@end", "@start", "@submit", "account", "array_job_id", "array_task_id", "cluster",
    "derived_ec", "exit_code", "failed_node", "het_job_id", "het_job_offset", "job_name", "jobid",
    "nodes", "partition", "state", "std_err", "std_out", "time_limit", "tres_alloc", "username",
)  # fmt: skip
SACCT = (
    "JobIDRaw", "JobID", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End",
    "TimelimitRaw", "NodeList", "Partition", "Account", "User", "Cluster", "AllocTRES", "Reason",
    "JobName",
)  # fmt: skip
SIGNALS = ("crash", "hang", "straggler")
"""What may be noticed of a job that still runs."""
_OVER = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REQUEUED", "REVOKED", "TIMEOUT",
)  # fmt: skip
_TIMEOUT_S = 20
_NODES_CHARS = 60000
_REASON = re.compile(r"\bReason=(.{1,400}?)(?=\s+[A-Z]\w+=|$)")
_VALUE_CHARS = 4096
ACCOUNTING_LAG_S = 5
"""On 22.05 limit and array id were written up to some seconds after the end."""


def taken(record: Mapping[str, Any], names: Any) -> Dict[str, Any]:
    """Return the listed fields, long texts cut, bytes that are no UTF-8 replaced.

    slurmctld hands names on as the user gave them; JSON with such bytes is refused on its way.
    """
    found = {name: record[name] for name in names if record.get(name) not in (None, "")}
    return {
        name: value[:_VALUE_CHARS].encode("utf-8", "replace").decode()
        if isinstance(value, str)
        else value
        for name, value in found.items()
        if isinstance(value, (str, int, float))
    }


def job_of(record: Mapping[str, Any]) -> str:
    """Return the job's own number (also of an array's task), or "" where there is none."""
    for name in ("SLURM_JOB_ID", "JOBID", "jobid"):
        text = str(record.get(name, "")).strip()
        if text.isdigit():
            return text
    return ""


def field_of(text: str, name: str) -> str:
    """Return the value of a key in what `scontrol --oneliner` prints, or ""."""
    for word in text.split():
        if word.startswith(name + "="):
            return word[len(name) + 1 :]
    return ""


def node_line(text: str) -> str:
    """Return what is kept of a node's record; "" for a line that is none."""
    kept = []
    for name in ("NodeName", "State", "InstanceId"):
        value = field_of(text, name)
        if value:
            kept.append("%s=%s" % (name, value[:256]))
    reason = _REASON.search(text)
    if reason:
        kept.append("Reason=%s" % reason.group(1).strip()[:400])
    return " ".join(kept) if text.startswith("NodeName=") else ""


class Slurm:
    """Slurm's programs, asked in UTC with short patience."""

    def __init__(self, settings: Dict[str, str]):
        self.sacct = settings["sacct"]
        self.scontrol = settings["scontrol"]
        self.conf = settings["slurm_conf"]

    def accounting(self, job: str) -> str:
        """Return all attempts of a job, as `sacct --parsable2` prints them; "" where none can."""
        return self._run(
            [self.sacct, "--duplicates", "--allocations", "--parsable2",
             "--format=" + ",".join(SACCT), "--jobs=" + job]
        )  # fmt: skip

    def ended_since(self, since: str) -> Optional[str]:
        """Return all attempts that ended since a time; None where accounting does not answer."""
        return self._run(
            [self.sacct, "--allusers", "--duplicates", "--allocations", "--parsable2",
             "--format=" + ",".join(SACCT), "--starttime=" + since, "--endtime=now",
             "--state=BF,CA,CD,DL,F,NF,OOM,PR,RQ,TO"],
            nothing=None,
        )  # fmt: skip

    def controller(self, job: str) -> str:
        """Return what the controller says of a job, less what may hold secrets."""
        text = self._run([self.scontrol, "--oneliner", "show", "job", job])
        drop = ("Command=", "Comment=", "AdminComment=", "SystemComment=", "WorkDir=")
        words = text.split(" ")
        kept: List[str] = []
        is_dropped = False
        for word in words:
            if "=" in word and word[:1].isupper():
                is_dropped = word.startswith(drop)
            if not is_dropped:
                kept.append(word)
        return " ".join(kept)

    def nodes(self, names: str) -> str:
        """Return state, reason and instance of nodes, one a line, those with a reason first.

        A job of thousands of nodes must not make an event that the bus refuses.
        """
        text = self._run([self.scontrol, "--oneliner", "show", "node", names]) if names else ""
        found = [line for line in (node_line(each) for each in text.splitlines()) if line]
        found.sort(key=lambda line: " Reason=" not in line)
        kept: List[str] = []
        size = 0
        for line in found:
            size += len(line) + 1
            if size > _NODES_CHARS:
                break
            kept.append(line)
        return "\n".join(kept)

    def _run(self, argv: List[str], nothing: Any = "") -> Any:
        environment = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        environment["PATH"] = os.defpath
        if self.conf:
            environment["SLURM_CONF"] = self.conf
        try:
            done = subprocess.run(  # noqa: S603  fixed programs, no shell
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=environment, timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return nothing
        return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else nothing


def rows_of(text: str) -> List[Dict[str, str]]:
    """Return the rows of sacct's output; a line that begins with no number goes on a name."""
    lines = text.splitlines()
    if not lines:
        return []
    names = lines[0].split("|")
    joined: List[str] = []
    for line in lines[1:]:
        if joined and not line.split("|", 1)[0].isdigit():
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    parts = [row.split("|", len(names) - 1) for row in joined]
    return [dict(zip(names, each)) for each in parts if len(each) == len(names)]


def is_over(state: str) -> bool:
    """Whether a state word ends an attempt."""
    words = state.split()
    return bool(words) and words[0].rstrip("+") in _OVER


def attempt_row(job: str, rows: List[Dict[str, str]], at: float) -> Optional[Dict[str, str]]:
    """Return accounting's row of the attempt of a job that ended at a time, or None.

    It is the last that had begun by then. (The epilog's restart count will not do: of a requeued
    job it already counts the next attempt, as seen on 22.05.)
    """
    began = [(moment(row["Start"]), row) for row in rows if row["JobIDRaw"] == job]
    past = [(start, row) for start, row in began if start is not None and start <= at]
    return max(past, key=lambda each: each[0])[1] if past else None


def moment(text: str) -> Optional[float]:
    """Return the epoch seconds of one of Slurm's times in UTC; None for `Unknown`."""
    try:
        return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return None


def is_settled(row: Mapping[str, str], now: float) -> bool:
    """Whether accounting has written all of an ended attempt: array ids and limits come late."""
    end = moment(row["End"])
    return is_over(row["State"]) and end is not None and now - end >= ACCOUNTING_LAG_S
