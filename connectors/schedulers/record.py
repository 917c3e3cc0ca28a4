"""What a scheduler said in its event, as evidence: an allow-listed record that travels in the plan.

It is read by the same formats as `sacct` or `kubectl` output, so that rules see it as facts.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from connectors.parts import Part, open_parts
from connectors.protocol import ByteStream, Collected, SourceAbsentError
from connectors.schedulers.attempt import Attempt
from connectors.schedulers.kubernetes_objects import slim
from engine.model.moment import rfc3339, to_us
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

NAME: Final = "record"
QUERY: Final = "record"
NODE: Final = "node"
"""Keys of the item's query: the text, and the node that it speaks of, if one."""
MAX_RECORD_CHARS: Final = 32_768
"""A record of a scheduler is a few hundred bytes; what is longer is cut between lines."""


@dataclass(slots=True)
class RecordConnector:
    """Yields the record that the item carries."""

    name: str = NAME

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield one stream of JSON lines."""

        def fetch() -> bytes:
            text = item.query.get(QUERY)
            if text is None:
                raise SourceAbsentError("the item carries no record")
            return text.encode("utf-8", "replace")

        node = item.query.get(NODE)
        label = StreamLabel(
            f"event/{item.shard}",
            item.source or "scheduler",
            "platform",
            nodes=() if node is None else (node,),
        )
        yield from open_parts([Part(label, fetch)], cursor=item.cursor, collected=collected)


def slurm_text(attempt: Attempt) -> str:
    """Return an attempt of Slurm as its completion record, and its nodes' states, as JSON lines."""
    workload = attempt.workload
    record: dict[str, Any] = {
        "jobid": int(attempt.raw_job_id) if attempt.raw_job_id.isdigit() else attempt.raw_job_id,
        "array_job_id": attempt.array_job_id,
        "array_task_id": attempt.array_task_id,
        "state": workload.state,
        "exit_code": workload.exit_code,
        "derived_ec": attempt.derived_exit_code,
        "@start": None if workload.start is None else rfc3339(to_us(workload.start)),
        "@end": None if workload.end is None else rfc3339(to_us(workload.end)),
        "reason": attempt.reason,
        "failed_node": ",".join(attempt.failed_nodes),
        "nodes": ",".join(workload.nodes),
        "time_limit": workload.time_limit_s,
        "restart_count": attempt.restarts,
        "username": workload.user,
        "job_name": workload.name,
    }
    lines = [_line({name: value for name, value in record.items() if value not in (None, "")})]
    for each in attempt.node_reports:
        node = {"name": each.node, "state": each.state.split("+"), "reason": each.reason}
        lines.append(_line({"nodes": [node]}))
    return bounded(lines)


def kubernetes_text(objects: Any) -> str | None:
    """Return the objects of an event as JSON lines, reduced again to what may be kept."""
    if not isinstance(objects, list):
        return None
    lines = [_line(slim(each)) for each in objects if isinstance(each, dict) and "kind" in each]
    return bounded(lines) or None


def bounded(lines: list[str]) -> str:
    """Return the lines that fit, whole."""
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line) + 1
        if size > MAX_RECORD_CHARS:
            break
        kept.append(line + "\n")
    return "".join(kept)


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
