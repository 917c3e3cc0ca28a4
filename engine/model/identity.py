"""Who an attempt is, and where everything of it is stored: S3 prefixes and table keys.

Terminal state is evidence, not identity: FAILED and NODE_FAIL of one attempt share one key.
"""

import hashlib
from typing import Final
from urllib.parse import quote

from engine.model.moment import to_us
from engine.model.workload import Workload

_SAFE: Final = "-_.~+:=,"
_MAX_PART: Final = 180  # four of them and a file's name fit into an S3 key of 1024 bytes


def _part(text: str) -> str:
    quoted = quote(text, safe=_SAFE)
    if len(quoted) > _MAX_PART:
        digest = hashlib.sha256(text.encode()).hexdigest()[:32]
        return f"{quoted[:120].rsplit('%', 1)[0]}~{digest}"
    return quoted if quoted not in (".", "..") else quoted.replace(".", "%2E")


def attempt_part(workload: Workload) -> str:
    """`r<restart count>` where known, else `t<start, epoch seconds>`, else `r0`."""
    if workload.attempt is not None:
        return f"r{workload.attempt}"
    if workload.start is not None:
        return f"t{to_us(workload.start) // 1_000_000}"
    return "r0"


def attempt_key(workload: Workload) -> str:
    """`tenant/cluster/scheduler/job/attempt`, each part percent-encoded: an S3 prefix."""
    parts = (workload.tenant, workload.cluster, workload.scheduler, workload.job_id)
    return "/".join(_part(part) for part in parts) + "/" + attempt_part(workload)


def execution_name(key: str, generation: int) -> str:
    """`a-<hash of key>-<generation>`: the Step Functions execution of one generation."""
    return f"a-{hashlib.sha256(key.encode()).hexdigest()[:32]}-{generation}"
