"""Raw scheduler words to a terminal state and to what the scheduler claims ended the job.

The table is printed in docs/verdict.md. Unknown words are `unknown`, never a guess.
"""

import re
from dataclasses import dataclass
from typing import Final

from engine.model.workload import Workload

# word (upper case, letters only) -> (terminal state, well-known symptom)
# Sources: Slurm job state codes (squeue manual), Kubernetes pod and job phases, Kueue workload
# conditions, Batch job status, SageMaker TrainingJobStatus, PCS jobcomp records; LSF bjobs,
# HTCondor JobStatus, Vertex JobState, Azure ML and SkyPilot job states.
_COMPLETED: Final = ("completed", "sched_completed")
_FAILED: Final = ("failed", "sched_failed")
_CANCELLED: Final = ("cancelled", "sched_cancelled")
_TIMEOUT: Final = ("timeout", "sched_timeout")
_PREEMPTED: Final = ("preempted", "sched_preempted")
_EVICTED: Final = ("evicted", "sched_evicted")
_NODE_FAIL: Final = ("node_fail", "sched_node_fail")
_OOM: Final = ("out_of_memory", "sched_out_of_memory")
_WAITING: Final = ("not_started", "")
_RUNNING: Final = ("running", "")
_UNKNOWN: Final = ("unknown", "")

STATES: Final[dict[str, tuple[str, str]]] = {
    "COMPLETED": _COMPLETED,
    "COMPLETE": _COMPLETED,
    "SUCCEEDED": _COMPLETED,
    "SUCCESS": _COMPLETED,
    "SUCCESSFUL": _COMPLETED,
    "JOBSTATESUCCEEDED": _COMPLETED,
    "FINISHED": _COMPLETED,
    "DONE": _COMPLETED,
    "CD": _COMPLETED,
    "FAILED": _FAILED,
    "FAILURE": _FAILED,
    "FAIL": _FAILED,
    "F": _FAILED,
    "ERROR": _FAILED,
    "CRASHED": _FAILED,
    "EXITED": _FAILED,
    "EXIT": _FAILED,
    "ABORTED": _FAILED,
    "FAILEDSETUP": _FAILED,
    "JOBSTATEFAILED": _FAILED,
    "DEAD": _FAILED,
    "BACKOFFLIMITEXCEEDED": _FAILED,
    "CRASHLOOPBACKOFF": _FAILED,
    "FAILEDNORESOURCE": ("not_started", "sched_failed"),
    "LAUNCHFAILED": ("not_started", "sched_failed"),
    "RECONFIGFAIL": ("not_started", "sched_failed"),
    "CANCELLED": _CANCELLED,
    "CANCELED": _CANCELLED,
    "CA": _CANCELLED,
    "STOPPED": _CANCELLED,
    "STOPPING": _CANCELLED,
    "TERMINATED": _CANCELLED,
    "DELETED": _CANCELLED,
    "KILLED": _FAILED,
    "REVOKED": _CANCELLED,
    "REMOVED": _CANCELLED,
    "JOBSTATECANCELLED": _CANCELLED,
    "TIMEOUT": _TIMEOUT,
    "TIMEDOUT": _TIMEOUT,
    "TO": _TIMEOUT,
    "DEADLINEEXCEEDED": _TIMEOUT,
    "MAXRUNTIMEEXCEEDED": _TIMEOUT,
    "EXPIRED": _TIMEOUT,
    "JOBSTATEEXPIRED": _TIMEOUT,
    "MAXIMUMEXECUTIONTIMEEXCEEDED": _TIMEOUT,
    "DEADLINE": ("timeout", "sched_deadline"),
    "DL": ("timeout", "sched_deadline"),
    "PREEMPTED": _PREEMPTED,
    "PR": _PREEMPTED,
    "INTERRUPTED": _PREEMPTED,
    "MAXWAITTIMEEXCEEDED": ("not_started", "sched_evicted"),
    "EVICTED": _EVICTED,
    "NODEFAIL": _NODE_FAIL,
    "NF": _NODE_FAIL,
    "NODELOST": _NODE_FAIL,
    "LOST": _NODE_FAIL,
    "BOOTFAIL": ("not_started", "sched_boot_fail"),
    "BF": ("not_started", "sched_boot_fail"),
    "OUTOFMEMORY": _OOM,
    "OOM": _OOM,
    "OOMKILLED": _OOM,
    "PENDING": _WAITING,
    "SUBMITTED": _WAITING,
    "RUNNABLE": _WAITING,
    "STARTING": _WAITING,
    "CONFIGURING": _WAITING,
    "PD": _WAITING,
    "QUEUED": _WAITING,
    "SUSPENDEDPENDING": _WAITING,
    "RUNNING": _RUNNING,
    "INPROGRESS": _RUNNING,
    "ACTIVE": _RUNNING,
    "R": _RUNNING,
    "COMPLETING": _RUNNING,
    "SUSPENDED": _RUNNING,
    "REQUEUED": _UNKNOWN,
    "RESIZING": _RUNNING,
    "UNKNOWN": _UNKNOWN,
}
_CODE: Final = re.compile(r"^(-?\d{1,5})(?::(\d{1,3}))?$")


@dataclass(slots=True, frozen=True)
class Claim:
    """What the scheduler says: the state, the well-known symptom, exit code and signal."""

    terminal: str
    symptom: str
    word: str
    by: str
    exit_code: int | None
    signal: int | None


def read_exit(text: str | None) -> tuple[int | None, int | None]:
    """Return (exit code, signal) of `1:0`, `137`, `-9`, `n/a`."""
    match = _CODE.match((text or "").strip())
    if not match:
        return None, None
    code = int(match[1])
    signal = int(match[2]) if match[2] else None
    if code < 0:
        return code, -code
    if signal is None and code > 128 and code < 160:
        signal = code - 128
    return code, signal or None


def read_state(workload: Workload) -> Claim:
    """Return the scheduler's claim about how the attempt ended."""
    raw = (workload.state or "").strip()
    words = raw.split()
    word = re.sub(r"[^A-Za-z]", "", words[0] if words else "").upper()
    code, signal = read_exit(workload.exit_code)
    if not words and workload.state is None and code is not None:
        # A state that is missing beside an exit code: the code speaks for itself.
        terminal, symptom = _COMPLETED if code == 0 and not signal else _FAILED
    else:
        whole = re.sub(r"[^A-Za-z]", "", raw).upper()
        terminal, symptom = STATES.get(whole) or STATES.get(word) or _UNKNOWN
    if terminal == "completed" and code not in (None, 0):
        # Batch and docker "exited" words do not say how; a non-zero code does.
        terminal, symptom = _FAILED
    if word == "EXITED" and code == 0 and not signal:
        terminal, symptom = _COMPLETED
    by = " ".join(words[1:]).removeprefix("by ").strip()
    return Claim(terminal, symptom, raw, by, code, signal)
