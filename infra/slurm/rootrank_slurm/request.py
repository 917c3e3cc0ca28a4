"""`Attribution Requested`: somebody, or a watchdog, saw that a running job hangs or straggles."""

import re
from typing import Any, Dict

from rootrank_slurm.records import Slurm, field_of

_JOB = re.compile(r"^\d{1,10}(?:[_+]\d{1,10})?$")
_RUNS = ("RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT")


class RequestError(Exception):
    """A job that attribution cannot be requested for."""


def request_record(slurm: Slurm, job: str, signal: str) -> Dict[str, Any]:
    """Return the spool's record of a request; raises `RequestError`.

    `job` is as Slurm writes it (410050, 410050_7, 410050+1); the record names the job's own number.
    """
    if not _JOB.match(job):
        raise RequestError("%r is no Slurm job id (410050, 410050_7 or 410050+1)" % job)
    text = slurm.controller(job)
    number, state = field_of(text, "JobId"), field_of(text, "JobState")
    if not number:
        raise RequestError("scontrol tells of no job %s; is it over, or of another cluster?" % job)
    if state not in _RUNS:
        raise RequestError("job %s is %s; a job that ended is told by the epilog" % (job, state))
    return {"jobid": number, "detection_signal": signal, "scontrol": text.strip()}
