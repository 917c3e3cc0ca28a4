"""Lists and watches every kind, feeds the tracker, spools what it says and delivers it."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from rootrank_slurm.bus import Bus, BusDownError, BusRefusedError
from rootrank_slurm.deliver import detail_type_of
from rootrank_slurm.fitting import fitting
from rootrank_slurm.spool import Spool

from connectors.protocol import ConnectorError, CursorExpiredError, SourceAbsentError
from connectors.schedulers.kubernetes_api import KubernetesApi
from rootrank_watch.tracker import Tracker

KINDS: Final = (
    "Node", "Pod", "Workload", "Job", "JobSet", "PyTorchJob", "MPIJob", "TrainJob", "RayJob",
    "HyperPodPyTorchJob",
)  # fmt: skip
STATE: Final = "watch.json"
SOURCE: Final = "rootrank.scheduler"
_QUEUED: Final = 10_000
_WATCH_S: Final = 20
"""Below the client's own patience, so that a quiet watch is no failure."""
_AGAIN_S: Final = 60
"""A kind that the server does not have may be installed later."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Watching:
    """One cluster. `api_for` makes a client for one kind's thread."""

    tracker: Tracker
    api_for: Callable[[], KubernetesApi]
    spool: Spool
    bus: Bus
    say: Say
    namespaces: tuple[str, ...] = ()
    kinds: Sequence[str] = KINDS
    retry_s: float = 5.0
    stopped: threading.Event = field(default_factory=threading.Event)
    _seen: "queue.Queue[tuple[str, dict[str, Any]]]" = field(
        default_factory=lambda: queue.Queue(_QUEUED)
    )

    def run(self) -> None:
        """Work until `stopped` is set."""
        self.tracker.restore(self.spool.read_state(STATE))
        places: Sequence[str | None] = self.namespaces or (None,)
        for kind in self.kinds:
            for namespace in places if kind != "Node" else (None,):
                arguments = (kind, namespace)
                threading.Thread(target=self._follow, args=arguments, daemon=True).start()
        threading.Thread(target=self._deliver, daemon=True).start()
        while not self.stopped.is_set():
            self._take()

    def _take(self) -> None:
        """Take what came, spool what it means, and only then remember that it was told."""
        try:
            batch = [self._seen.get(timeout=0.5)]
        except queue.Empty:
            return
        while not self._seen.empty() and len(batch) < 500:
            batch.append(self._seen.get_nowait())
        for what, item in batch:
            for detail in self.tracker.note(what, item):
                self.spool.add("kubernetes", {"detail": detail})
        self.spool.write_state(STATE, self.tracker.state())

    def _follow(self, kind: str, namespace: str | None) -> None:
        while not self.stopped.is_set():
            try:
                self._list_and_watch(kind, namespace)
            except CursorExpiredError:
                continue
            except SourceAbsentError:
                self.stopped.wait(_AGAIN_S)
            except ConnectorError as error:
                self.say(f"{kind}: {error}")
                self.stopped.wait(self.retry_s)

    def _list_and_watch(self, kind: str, namespace: str | None) -> None:
        api = self.api_for()
        try:
            listed = api.list_items(kind, namespace)
            for item in listed.items:
                self._seen.put(("LISTED", item))
            version = listed.version
            while not self.stopped.is_set():
                for what, item in api.watch_items(kind, version, namespace, seconds=_WATCH_S):
                    version = str(item["metadata"].get("resourceVersion") or version)
                    if what != "BOOKMARK":
                        self._seen.put((what, {"kind": kind, **item}))
        finally:
            api.source.client.close()

    def _deliver(self) -> None:
        while not self.stopped.is_set():
            self.deliver_once()
            self.stopped.wait(min(1.0, self.retry_s))

    def deliver_once(self) -> bool:
        """Send what waits; returns False where the bus is down."""
        with self.spool.drained_by_me() as is_mine:
            if not is_mine:
                return False
            for name in self.spool.names():
                try:
                    detail = self.spool.read(name)["record"]["detail"]
                    self.bus.put(SOURCE, detail_type_of(detail), fitting(detail))
                except BusDownError as error:
                    self.say(f"the bus is down, {len(self.spool.names())} events wait: {error}")
                    return False
                except (BusRefusedError, KeyError, OSError, ValueError) as error:
                    self.say(f"event {name} is set aside: {error}")
                    self.spool.bury(name, str(error))
                    continue
                self.spool.done(name)
        return True
