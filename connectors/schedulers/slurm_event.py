"""The record that our Slurm programs put into an event (`detail.record`) as an attempt.

`completion` is the job completion record or the epilog's environment, `sacct` accounting's row,
`scontrol` the controller's text, `nodes` that of `scontrol show node`. Each may be missing.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from connectors.schedulers.attempt import Attempt, NodeReport, enrich
from connectors.schedulers.slurm_record import read_record, read_sacct_text, read_scontrol
from engine.model.workload import Workload

_MAX_CHARS: Final = 200_000
_NODE = re.compile(r"^NodeName=(\S{1,253})", re.M)
_NODE_STATE = re.compile(r"\bState=(\S{1,128})")
_NODE_REASON = re.compile(r"\bReason=([^\n]{1,400}?)(?=\s+[A-Z]\w+=|\n|$)")
_ACCOUNTED: Final = ("state", "exit_code", "end", "time_limit", "nodes")
"""Where accounting has the attempt's end, its word is fuller: `CANCELLED by 1000`."""


def read_slurm_event(record: Mapping[str, Any]) -> Attempt | None:
    """Return the attempt that a record speaks of; None where it names no job."""
    completion = record.get("completion")
    told = read_record(completion) if isinstance(completion, Mapping) else None
    accounted = read_sacct_text(_text(record, "sacct"))
    live = read_scontrol(_text(record, "scontrol"))
    fuller = _of_same_job(accounted, told) or _of_same_attempt(live, told)
    best = fuller or told
    if best is None:
        return None
    if told is not None and fuller is not None:
        best = _merged(told, fuller)
    if best.workload.start is None and best.restarts is not None:
        workload = best.workload.model_copy(update={"attempt": best.restarts})
        best = best.model_copy(update={"workload": workload})
    return best.model_copy(update={"node_reports": read_nodes(_text(record, "nodes"))})


def read_nodes(text: str) -> tuple[NodeReport, ...]:
    """Return what `scontrol show node` says of each node."""
    starts = [match.start() for match in _NODE.finditer(text)]
    found = []
    for start, stop in zip(starts, [*starts, len(text)][1:], strict=True):
        block = text[start:stop]
        name, state, reason = (each.search(block) for each in (_NODE, _NODE_STATE, _NODE_REASON))
        found.append(
            NodeReport(
                node=name[1] if name else "",
                state=state[1] if state else "",
                reason=reason[1].strip() if reason else "",
            )
        )
    return tuple(sorted(found, key=lambda each: each.node))


def _of_same_job(found: list[Attempt], told: Attempt | None) -> Attempt | None:
    wanted = None if told is None else told.raw_job_id
    own = [each for each in found if wanted in (None, each.raw_job_id)]
    return own[-1] if own else None


def _of_same_attempt(found: list[Attempt], told: Attempt | None) -> Attempt | None:
    """The controller speaks of the newest attempt: of another one it says nothing."""
    own = _of_same_job(found, told)
    if own is None or told is None:
        return own
    starts = (own.workload.start, told.workload.start)
    if None not in starts:
        return own if starts[0] == starts[1] else None
    return own if told.restarts in (None, own.restarts) else None


def _merged(told: Attempt, fuller: Attempt) -> Attempt:
    """Join two reports of one attempt; a state that both know is taken where it says more.

    Of a requeued job the completion record and the epilog already tell the next attempt's state
    and restart count (seen on 22.05): there accounting alone is right.
    """
    workload = enrich(told.workload, fuller)
    words = [(each.workload.state or "").split(maxsplit=1) for each in (told, fuller)]
    if fuller.is_over and (not told.is_over or words[0][0] == words[1][0]):
        known = {name: getattr(fuller.workload, name) for name in _ACCOUNTED}
        update = {name: value for name, value in known.items() if value not in (None, ())}
        workload = Workload.model_validate(workload.model_dump(exclude_unset=True) | update)
    return fuller.model_copy(
        update={
            "workload": workload,
            "derived_exit_code": told.derived_exit_code or fuller.derived_exit_code,
            "failed_nodes": told.failed_nodes or fuller.failed_nodes,
            "reason": fuller.reason or told.reason,
            "stdout": fuller.stdout or told.stdout,
            "stderr": fuller.stderr or told.stderr,
            "is_over": told.is_over or fuller.is_over,
        }
    )


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value[:_MAX_CHARS] if isinstance(value, str) else ""
