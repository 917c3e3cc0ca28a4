"""What the watcher knows: where pods ran, when Workloads were admitted, which ends were told. Pure.

Everything is kept in a state that survives a restart, since pods may be gone by then.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from connectors.schedulers.kubernetes_objects import (
    End,
    Placement,
    admitted_at,
    as_map,
    end_of,
    instance_of,
    is_queued_by_kueue,
    job_name_of,
    name_of,
    namespace_of,
    slim,
)

MAX_PODS_TOLD: Final = 64
"""So many pods' objects go into an event, the failed ones first; placement names all."""
MAX_TOLD: Final = 20_000


@dataclass(slots=True)
class Tracker:
    """One cluster. `note` takes what a list or watch says and returns the events to send."""

    cluster: str
    has_kueue: bool = True
    placements: dict[str, Placement] = field(default_factory=dict)
    admitted: dict[str, str] = field(default_factory=dict)
    told: dict[str, bool] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, item: dict[str, Any]) -> list[dict[str, Any]]:
        """Take one object; returns details of `Job Completed`. The same end is told once."""
        kind = item.get("kind")
        if kind == "Node":
            if instance := instance_of(item):
                self.instances[name_of(item)] = instance
            return []
        if kind == "Pod":
            self._placement(item).note(item)
            return []
        if kind == "Workload" and (moment := admitted_at(item)):
            self._admit(item, moment)
        end = end_of(item)
        if end is None or (self.has_kueue and is_queued_by_kueue(item)):
            if what == "DELETED":
                self._forget(item)
            return []
        details = self._end(item, end)
        if what == "DELETED":
            self._forget(item)
        return details

    def state(self) -> dict[str, Any]:
        """Return all that has to survive a restart."""
        return {
            "admitted": self.admitted,
            "told": list(self.told)[-MAX_TOLD:],
            "placements": {
                key: {"nodes": each.nodes, "ranks": each.ranks, "pods": each.pods}
                for key, each in self.placements.items()
            },
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take up an earlier state."""
        self.admitted = dict(state.get("admitted") or {})
        self.told = dict.fromkeys(state.get("told") or (), True)
        for key, each in (state.get("placements") or {}).items():
            self.placements[key] = Placement(**each)

    def _admit(self, item: dict[str, Any], moment: str) -> None:
        """A new admission is a new attempt: its pods are others."""
        uid = _uid(item)
        if self.admitted.get(uid) not in (None, moment):
            self.placements.pop(_key(item), None)
        self.admitted[uid] = moment

    def _end(self, item: dict[str, Any], end: End) -> list[dict[str, Any]]:
        start = end.start or self.admitted.get(_uid(item))
        name = f"{_uid(item)} {end.state} {start or end.end}"
        if name in self.told:
            return []
        self.told[name] = True
        placement = self.placements.get(_key(item), Placement())
        return [self._detail(item, end, start, placement)]

    def _detail(
        self, item: dict[str, Any], end: End, start: str | None, placement: Placement
    ) -> dict[str, Any]:
        ranked = sorted(placement.nodes, key=lambda pod: (placement.ranks.get(pod, 1 << 30), pod))
        nodes = list(dict.fromkeys(placement.nodes[pod] for pod in ranked))
        workload = {
            "scheduler": "kueue" if item.get("kind") == "Workload" else "kubernetes",
            "cluster": self.cluster,
            "tenant": namespace_of(item),
            "namespace": namespace_of(item),
            "job_id": job_name_of(item),
            "state": end.state,
            "exit_code": _first_exit(placement),
            "start": start,
            "end": end.end,
            "nodes": nodes,
            "ranks": [
                {"rank": placement.ranks[pod], "node": placement.nodes[pod]}
                for pod in ranked
                if pod in placement.ranks
            ],
        }
        pods = sorted(placement.pods.values(), key=lambda pod: (not _has_failed(pod), name_of(pod)))
        return {
            "version": 1,
            "workload": {key: each for key, each in workload.items() if each not in (None, [])},
            "record": {
                "objects": [slim(item), *pods[:MAX_PODS_TOLD]],
                "instance_ids": {n: self.instances[n] for n in nodes if n in self.instances},
            },
        }

    def _placement(self, pod: dict[str, Any]) -> Placement:
        return self.placements.setdefault(_key(pod), Placement())

    def _forget(self, item: dict[str, Any]) -> None:
        self.placements.pop(_key(item), None)
        self.admitted.pop(_uid(item), None)


def _key(item: dict[str, Any]) -> str:
    return f"{namespace_of(item)}/{job_name_of(item)}"


def _uid(item: dict[str, Any]) -> str:
    return str(as_map(item.get("metadata")).get("uid") or _key(item))


def _terminations(pod: dict[str, Any]) -> list[dict[str, Any]]:
    statuses = as_map(pod.get("status")).get("containerStatuses")
    found = []
    for status in statuses if isinstance(statuses, list) else ():
        for place in ("state", "lastState"):
            ended = as_map(as_map(as_map(status).get(place)).get("terminated"))
            if ended:
                found.append(dict(ended))
    return found


def _has_failed(pod: dict[str, Any]) -> bool:
    return any(each.get("exitCode") for each in _terminations(pod))


def _first_exit(placement: Placement) -> str | None:
    """Return the code of the container that failed first, where one did."""
    failed = [
        (str(each.get("finishedAt") or "~"), name, each["exitCode"])
        for name, pod in placement.pods.items()
        for each in _terminations(pod)
        if each.get("exitCode")
    ]
    return str(min(failed)[2]) if failed else None
