"""One attempt of one job as any scheduler tells it: the model that all of them are read into."""

from pydantic import Field

from engine.model.contract import Document
from engine.model.workload import Workload


class NodeReport(Document):
    """What a scheduler says about a node of the attempt."""

    node: str
    state: str = ""
    reason: str = ""


class Attempt(Document):
    """`workload` is what the pipeline keeps; the rest is what a scheduler knows beside it.

    Exit codes are `code:signal`. `nodes` of the workload are in the scheduler's order, which is
    the order of ranks by default. `is_over` says that this attempt will not change any more.
    """

    workload: Workload
    raw_job_id: str = ""
    array_job_id: str = ""
    array_task_id: str = ""
    het_job_id: str = ""
    het_offset: str = ""
    restarts: int | None = None
    submitted: str | None = None
    derived_exit_code: str = ""
    reason: str = ""
    failed_nodes: tuple[str, ...] = ()
    node_reports: tuple[NodeReport, ...] = ()
    instance_ids: dict[str, str] = Field(default_factory=dict)
    gpus: int | None = None
    stdout: str = ""
    stderr: str = ""
    submitter: str = ""
    is_over: bool = True


def pick_attempt(attempts: list[Attempt], wanted: Workload) -> Attempt | None:
    """Return the attempt that `wanted` means: by start, then by restart count, else the last.

    Start times of two sources may differ by the second that one of them rounds away.
    """
    if not attempts:
        return None
    if wanted.start is not None:
        for each in attempts:
            start = each.workload.start
            if start is not None and abs((start - wanted.start).total_seconds()) <= 1:
                return each
        return None
    if wanted.attempt is not None:
        for each in attempts:
            if each.restarts == wanted.attempt:
                return each
        started = [each for each in attempts if each.workload.start is not None]
        return started[wanted.attempt] if wanted.attempt < len(started) else None
    return attempts[-1]


def enrich(told: Workload, attempt: Attempt) -> Workload:
    """Return `told` with what only the scheduler knows; nothing that an event says is changed.

    `attempt` (the restart count) is left out: it would give the same attempt another key.
    """
    known = attempt.workload.model_dump(exclude_unset=True, exclude_none=True, exclude={"attempt"})
    given = told.model_dump(exclude_unset=True, exclude_none=True)
    if given.get("nodes") == ():
        given.pop("nodes")
    return Workload.model_validate(known | given)
