"""From the spool to the bus: each entry is completed with what Slurm knows, then sent."""

import sys
import time
from typing import Any, Callable, Dict, List, Optional

from rootrank_slurm.bus import Bus, BusDownError, BusRefusedError
from rootrank_slurm.fitting import fitting
from rootrank_slurm.instances import instances_of, read_instances
from rootrank_slurm.records import ACCOUNTING_LAG_S, Slurm, attempt_row, is_settled, job_of, rows_of
from rootrank_slurm.spool import Spool

SOURCE = "rootrank.scheduler"
COMPLETED = "Job Completed"
REQUESTED = "Attribution Requested"
_LOOK_AGAIN_S = 1.0


class Deliverer:
    """Drains one spool. `clock` is the time of day, `pause` sleeps seconds."""

    def __init__(
        self,
        settings: Dict[str, str],
        slurm: Slurm,
        bus: Bus,
        spool: Spool,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ):
        self.cluster = settings["cluster"]
        self.settle_s = int(settings["settle_s"])
        self.retry_s = int(settings["retry_s"])
        self.instances = settings["instances"]
        self.slurm, self.bus, self.spool = slurm, bus, spool
        self.clock, self.pause = clock, pause

    def drain(self) -> bool:
        """Deliver what waits; returns False where the bus is down or another process drains.

        Looked at again after the lock is gone: who spools meanwhile finds the lock taken and
        relies on us.
        """
        while self.spool.names():
            with self.spool.drained_by_me() as is_mine:
                if not is_mine:
                    return False
                try:
                    left = self._round()
                except BusDownError as error:
                    say("the bus is down, %d events wait: %s" % (len(self.spool.names()), error))
                    return False
            if left:
                self.pause(_LOOK_AGAIN_S)
        return True

    def drain_for_ever(self) -> None:
        """Deliver what waits, and go on."""
        while True:
            self.drain()
            self.pause(self.retry_s)

    def _round(self) -> int:
        """Send every entry that is ready; returns how many are not."""
        left = 0
        for name in self.spool.names():
            try:
                entry = self.spool.read(name)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                self.spool.bury(name, "cannot be read: %s" % error)
                continue
            detail = self.detail_of(entry, is_last_call=self.clock() - entry["at"] > self.settle_s)
            if detail is None:
                left += 1
                continue
            try:
                self.bus.put(SOURCE, detail_type_of(detail), fitting(detail))
            except BusRefusedError as error:
                say("event %s is refused: %s" % (name, error))
                self.spool.bury(name, str(error))
                continue
            self.spool.done(name)
        return left

    def detail_of(self, entry: Dict[str, Any], is_last_call: bool) -> Optional[Dict[str, Any]]:
        """Return the event's detail, or None while accounting has to catch up."""
        record: Dict[str, Any] = entry["record"]
        told = entry["kind"]
        job = job_of(record)
        asked: Dict[str, Any] = {"kind": told, "completion": record}
        at, now = float(entry["at"]), self.clock()
        if told == "poll":
            asked = {"kind": told, "sacct": record.get("sacct")}
            rows = rows_of(record.get("sacct") or "")
            row = rows[0] if rows else None
            return self._detail(record, asked, row)
        if told == "request":
            row = attempt_row(job, rows_of(self.slurm.accounting(job)), at)
            # The cluster's name, which is part of what identifies the attempt, comes from here.
            if row is None and not is_last_call:
                return None
            return self._request(record, row)
        if now - at < ACCOUNTING_LAG_S:
            return None
        rows = rows_of(self.slurm.accounting(job))
        row = attempt_row(job, rows, at) if told == "epilog" else _same_start(record, rows)
        if row is not None and is_settled(row, now):
            asked["sacct"] = _table([row])
        elif not is_last_call and (told == "epilog" or rows):
            return None
        else:
            asked["scontrol"] = self.slurm.controller(job)
        return self._detail(record, asked, row)

    def _detail(
        self, record: Dict[str, Any], asked: Dict[str, Any], row: Optional[Dict[str, str]]
    ) -> Dict[str, Any]:
        state = str((row or {}).get("State") or record.get("JOBSTATE") or record.get("state") or "")
        nodes = str((row or {}).get("NodeList") or record.get("NODES") or record.get("nodes") or "")
        if not state.startswith("COMPLETED"):
            self._ask_nodes(asked, nodes)
        return {"version": 1, "workload": self._workload(record), "record": asked}

    def _request(self, record: Dict[str, Any], row: Optional[Dict[str, str]]) -> Dict[str, Any]:
        asked = {"kind": "request", "scontrol": record.get("scontrol", "")}
        if row is not None:
            asked["sacct"] = _table([row])
            self._ask_nodes(asked, row["NodeList"])
        workload = dict(self._workload(record), state="RUNNING")
        return {
            "version": 1, "workload": workload, "record": asked,
            "detection_signal": record["detection_signal"],
        }  # fmt: skip

    def _ask_nodes(self, asked: Dict[str, Any], names: str) -> None:
        """Add the nodes' states, and which machines they are: what AWS says names machines."""
        told = self.slurm.nodes(names)
        if told:
            asked["nodes"] = told
            instances = instances_of(told, read_instances(self.instances) if self.instances else {})
            if instances:
                asked["instance_ids"] = instances

    def _workload(self, record: Dict[str, Any]) -> Dict[str, str]:
        workload = {"scheduler": "slurm", "job_id": job_of(record)}
        if self.cluster:
            workload["cluster"] = self.cluster
        return workload


def detail_type_of(detail: Dict[str, Any]) -> str:
    """Return the kind of event that a detail is: a request names what was noticed."""
    return REQUESTED if "detection_signal" in detail else COMPLETED


def _same_start(record: Dict[str, Any], rows: List[Dict[str, str]]) -> Optional[Dict[str, str]]:
    """Return the row that began when a completion record says, or None."""
    start = str(record.get("START", record.get("@start", "")))
    if start.isdigit():
        start = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(int(start)))
    return next((row for row in rows if row["Start"] == start), None)


def _table(rows: List[Dict[str, str]]) -> str:
    names = list(rows[0])
    return "\n".join(["|".join(names)] + ["|".join(row[name] for name in names) for row in rows])


def say(text: str) -> None:
    """Tell on stderr: slurmctld's log for its programs, the journal for services."""
    sys.stderr.write("rootrank: %s\n" % text)
    sys.stderr.flush()
