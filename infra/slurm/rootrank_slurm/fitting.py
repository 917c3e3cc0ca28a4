"""Events of huge jobs: what is least missed is left out until the bus takes them."""

import json
from typing import Any, Dict

from rootrank_slurm.bus import MAX_DETAIL_BYTES

_FEW_OBJECTS = 9
_LEFT_OUT = "left_out"


def fitting(detail: Dict[str, Any], limit: int = MAX_DETAIL_BYTES) -> Dict[str, Any]:
    """Return a detail of at most so many bytes; `record.left_out` names what it lacks.

    First go objects beyond the first few (failed pods come first), then the nodes' states, the
    controller's text and the machines, then the ranks, and last the end of the list of nodes.
    """
    if _size(detail) <= limit:
        return detail
    record, workload = dict(detail.get("record") or {}), dict(detail["workload"])
    made = dict(detail, record=record, workload=workload)
    record[_LEFT_OUT] = []
    while len(record.get("objects") or ()) > _FEW_OBJECTS and _size(made) > limit:
        record["objects"] = record["objects"][: max(_FEW_OBJECTS, len(record["objects"]) // 2)]
        _note(record, "objects")
    for place, name in (
        (record, "nodes"), (record, "scontrol"), (record, "instance_ids"), (workload, "ranks"),
    ):  # fmt: skip
        if name in place and _size(made) > limit:
            del place[name]
            _note(record, name)
    while len(workload.get("nodes") or ()) > 1 and _size(made) > limit:
        workload["nodes"] = workload["nodes"][: len(workload["nodes"]) // 2]
        _note(record, "workload.nodes")
    return made


def _note(record: Dict[str, Any], name: str) -> None:
    if name not in record[_LEFT_OUT]:
        record[_LEFT_OUT].append(name)


def _size(detail: Dict[str, Any]) -> int:
    return len(json.dumps(detail, sort_keys=True).encode("utf-8", "replace"))
