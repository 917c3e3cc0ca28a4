"""A folder of events that wait for the bus: written whole, delivered in order, never lost.

`new/` waits, `dead/` was refused for good. An entry exists completely or not at all, also after a
power cut: it is written beside, synced, renamed, and the folder is synced.
"""

import fcntl
import hashlib
import json
import os
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List


class Spool:
    """One spool folder; several processes may write to it and one at a time drains it."""

    def __init__(self, folder: str):
        self.new = os.path.join(folder, "new")
        self.dead = os.path.join(folder, "dead")
        self.folder = folder
        for each in (self.new, self.dead):
            os.makedirs(each, mode=0o750, exist_ok=True)

    def add(self, kind: str, record: Dict[str, Any]) -> str:
        """Store an entry and return its name; raises `OSError` where the disk refuses."""
        now = time.time()
        body = json.dumps({"kind": kind, "at": now, "record": record}, sort_keys=True)
        digest = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()[:8]
        name = "%018d-%s.json" % (int(now * 1e6), digest)
        self._write(os.path.join(self.new, name), body)
        return name

    def names(self) -> List[str]:
        """Return the entries that wait, oldest first."""
        return sorted(name for name in os.listdir(self.new) if name.endswith(".json"))

    def read(self, name: str) -> Dict[str, Any]:
        """Return an entry; raises `ValueError` for one that is damaged."""
        with open(os.path.join(self.new, name), encoding="utf-8", errors="replace") as file:
            value = json.load(file)
        if not isinstance(value, dict) or not isinstance(value.get("record"), dict):
            raise ValueError("no spool entry")
        return value

    def done(self, name: str) -> None:
        """Forget a delivered entry."""
        os.remove(os.path.join(self.new, name))

    def bury(self, name: str, reason: str) -> None:
        """Set an entry aside that the bus will never take."""
        os.rename(os.path.join(self.new, name), os.path.join(self.dead, name))
        self._write(os.path.join(self.dead, name + ".reason"), reason)

    @contextmanager
    def drained_by_me(self) -> Iterator[bool]:
        """Yield whether this process is the one that drains."""
        descriptor = os.open(os.path.join(self.folder, "lock"), os.O_RDWR | os.O_CREAT, 0o640)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(descriptor)

    def write_state(self, name: str, value: Dict[str, Any]) -> None:
        """Store a small state beside the entries."""
        self._write(os.path.join(self.folder, name), json.dumps(value, sort_keys=True))

    def read_state(self, name: str) -> Dict[str, Any]:
        """Return a small state, empty where there is none or it is damaged."""
        try:
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self, path: str, body: str) -> None:
        beside = "%s.%d.tmp" % (path, os.getpid())
        with open(beside, "w", encoding="utf-8", errors="replace") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
