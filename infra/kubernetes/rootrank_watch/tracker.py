"""What the watcher knows: where pods ran, when Workloads were admitted, which ends were told. Pure.

Everything is kept in a state that survives a restart, since pods may be gone by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from connectors.schedulers.kubernetes_objects import (
    End,
    admitted_at,
    as_map,
    end_of,
    group_of,
    instance_of,
    is_made_by_a_job,
    is_part_of_a_job,
    is_queued_by_kueue,
    job_name_of,
    limit_of,
    name_of,
    namespace_of,
    requested_signal,
    started_at,
)
from connectors.schedulers.kubernetes_placement import Placement
from rootrank_watch.details import first_exit, make_detail, terminations

MAX_TOLD: Final = 20_000
MAX_PLACEMENTS: Final = 20_000
"""Jobs that nobody deletes; the oldest is forgotten first."""

Detail = dict[str, Any]
Item = dict[str, Any]


@dataclass(slots=True)
class Tracker:
    """One cluster. `note` takes what a list or watch says and returns the events to send.

    `admitted` is by Workload; `running` when a queued job's present attempt began; `clusters`
    the RayJob of a Ray cluster; `group_ends` when a LeaderWorkerSet's group last failed.
    """

    cluster: str
    has_kueue: bool = True
    placements: dict[str, Placement] = field(default_factory=dict)
    admitted: dict[str, str] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    group_ends: dict[str, str] = field(default_factory=dict)
    told: dict[str, bool] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)

    def note(self, what: str, item: Item) -> list[Detail]:
        """Take one object; returns details of events. The same end is told once."""
        kind = item.get("kind")
        if kind == "Node":
            if instance := instance_of(item):
                self.instances[name_of(item)] = instance
            return []
        if kind == "Pod":
            return self._pod(item)
        if kind == "RayJob" and (cluster := as_map(item.get("status")).get("rayClusterName")):
            self.clusters[f"{namespace_of(item)}/{cluster}"] = job_name_of(item)
        if kind == "Workload" and (moment := admitted_at(item)):
            self._admit(item, moment)
        details = [] if is_made_by_a_job(item) else self._job(item)
        if what == "DELETED":
            self._forget(item)
        return details

    def state(self) -> dict[str, Any]:
        """Return all that has to survive a restart."""
        return {
            "admitted": self.admitted,
            "running": self.running,
            "clusters": self.clusters,
            "group_ends": self.group_ends,
            "told": list(self.told)[-MAX_TOLD:],
            "placements": {
                key: {"nodes": each.nodes, "places": each.places, "devices": each.devices,
                      "pods": each.pods}
                for key, each in self.placements.items()
            },
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Take up an earlier state; what an earlier release wrote and we no longer know is left."""
        for name in ("admitted", "running", "clusters", "group_ends"):
            setattr(self, name, dict(state.get(name) or {}))
        self.told = dict.fromkeys(state.get("told") or (), True)
        for key, each in (state.get("placements") or {}).items():
            known = {name: each[name] for name in Placement.__slots__ if name in each}
            self.placements[key] = Placement(**known)

    def _job(self, item: Item) -> list[Detail]:
        is_queued = self.has_kueue and is_queued_by_kueue(item)
        end = end_of(item)
        if end is None:
            signal = requested_signal(item)
            return [] if signal is None else self._request(item, signal, is_queued=is_queued)
        return [] if is_queued else self._end(item, end)

    def _pod(self, item: Item) -> list[Detail]:
        if not is_part_of_a_job(item):
            return []
        placement = self.placements.setdefault(self._key(item), Placement())
        placement.note(item)
        while len(self.placements) > MAX_PLACEMENTS:
            self.placements.pop(next(iter(self.placements)))
        return [] if group_of(item) is None else self._group(item, placement)

    def _group(self, pod: Item, placement: Placement) -> list[Detail]:
        """A LeaderWorkerSet never ends; a group of it fails with its first container that does."""
        failed = [each for each in terminations(pod) if each.get("exitCode")]
        if not failed:
            return []
        first = min(failed, key=lambda each: str(each.get("finishedAt") or "~"))
        start, finished = (str(first.get(name) or "") for name in ("startedAt", "finishedAt"))
        key = self._key(pod)
        if not finished or start <= self.group_ends.get(key, ""):
            return []
        self.group_ends[key] = finished
        workload = self._workload(pod, "Failed", start=start, end=finished)
        workload |= {
            "job_id": key.partition("/")[2], "name": job_name_of(pod),
            "exit_code": str(first["exitCode"]),
        }  # fmt: skip
        return [make_detail(pod, workload, placement=placement, instances=self.instances)]

    def _admit(self, item: Item, moment: str) -> None:
        """A new admission is a new attempt: its pods are others."""
        uid = _uid(item)
        if self.admitted.get(uid) not in (None, moment):
            self.placements.pop(self._key(item), None)
        self.admitted[uid] = self.running[self._key(item)] = moment

    def _end(self, item: Item, end: End) -> list[Detail]:
        start = end.start or self.admitted.get(_uid(item))
        if self._is_told(f"{_uid(item)} {end.state} {start or end.end}"):
            return []
        placement = self.placements.get(self._key(item), Placement())
        workload = self._workload(item, end.state, start=start, end=end.end)
        workload["exit_code"] = first_exit(placement)
        return [make_detail(item, workload, placement=placement, instances=self.instances)]

    def _request(self, item: Item, signal: str, *, is_queued: bool) -> list[Detail]:
        """Ask about a running attempt, under the name that its end will have."""
        key = self._key(item)
        start = self.running.get(key) if is_queued else started_at(item)
        if start is None or self._is_told(f"{_uid(item)} requested {signal} {start}"):
            return []
        workload = self._workload(item, "Running", start=start, end=None)
        if is_queued:
            workload["scheduler"] = "kueue"
        placement = self.placements.get(key, Placement())
        return [
            make_detail(
                item, workload, placement=placement, instances=self.instances, signal=signal
            )
        ]

    def _workload(
        self, item: Item, state: str, *, start: str | None, end: str | None
    ) -> dict[str, Any]:
        return {
            "scheduler": "kueue" if item.get("kind") == "Workload" else "kubernetes",
            "cluster": self.cluster,
            "tenant": namespace_of(item),
            "namespace": namespace_of(item),
            "job_id": job_name_of(item),
            "state": state,
            "start": start,
            "end": end,
            "time_limit": limit_of(item),
        }

    def _is_told(self, name: str) -> bool:
        """Whether this was told before; it is from now on."""
        if name in self.told:
            return True
        self.told[name] = True
        return False

    def _forget(self, item: Item) -> None:
        key = self._key(item)
        self.placements.pop(key, None)
        self.running.pop(key, None)
        self.admitted.pop(_uid(item), None)
        self.clusters = {name: job for name, job in self.clusters.items() if job != key}

    def _key(self, item: Mapping[str, Any]) -> str:
        """Return namespace and job; a group of a LeaderWorkerSet is a job of its own."""
        namespace, name = namespace_of(item), job_name_of(item)
        group = group_of(item)
        if group is not None:
            return f"{namespace}/{name}-{group}"
        return f"{namespace}/{self.clusters.get(f'{namespace}/{name}', name)}"


def _uid(item: Mapping[str, Any]) -> str:
    name = f"{namespace_of(item)}/{job_name_of(item)}"
    return str(as_map(item.get("metadata")).get("uid") or name)
