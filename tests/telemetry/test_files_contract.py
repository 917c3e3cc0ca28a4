"""The files connector keeps to the connector contract, over a store with faults."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import ConnectorContract

from connectors.protocol import (
    Collected,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.telemetry.file_store import StoredFile
from connectors.telemetry.files import PART, FilesConnector
from connectors.telemetry.settings import FileSource
from engine.model.plan import PlanItem
from engine.model.workload import Workload

FILES = {f"410050/rank-{rank}.log": f"rank {rank} began\nrank {rank} ended\n" for rank in range(4)}


class Store:
    """Four rank files; rank 1's is the one that a fault hits."""

    shown = "/logs"

    def __init__(self, fault=None):
        self.fault = fault

    def list_files(self, prefix):
        if self.fault == "down":
            raise SourceUnreachableError("/logs: no answer")
        if self.fault == "refused":
            raise SourceRefusedError("/logs: not allowed")
        return [
            StoredFile(path, len(body), 0, path)
            for path, body in FILES.items()
            if path.startswith(prefix)
        ]

    def read_range(self, file, start, length):
        if file.path.endswith("rank-1.log") and self.fault == "one_absent":
            raise SourceAbsentError(f"{file.path}: gone")
        if file.path.endswith("rank-1.log") and self.fault == "one_busy":
            raise SourceBusyError(f"{file.path}: slow down")
        return FILES[file.path].encode()[start : start + length]


class TestFiles(ConnectorContract):
    requests_a_run = 2  # the listing and one file

    def make(self, fault):
        settings = FileSource(root="/logs", patterns=("{job_id}/rank-{rank}.log",))
        return FilesConnector("c", settings, Store(fault), lambda: 0.0, lambda seconds: None)

    def workload(self):
        return Workload(scheduler="slurm", job_id="410050", nodes=("n1",), world_size=4)


class Many(Store):
    """Ten thousand ranks, a thousand of them rotated and compressed."""

    def __init__(self):
        super().__init__()
        self.names = [f"7/rank-{rank}.log" for rank in range(10_000)]
        self.names += [f"7/rank-{rank}.log.1.gz" for rank in range(0, 10_000, 20)]
        self.names += [f"7/rank-{rank}.log-20260101.zst" for rank in range(0, 10_000, 20)]
        self.listings = 0

    def list_files(self, prefix):
        self.listings += 1
        return [StoredFile(name, 2, 0, name) for name in self.names if name.startswith(prefix)]

    def read_range(self, file, start, length):
        return b"x\n"[start : start + length]


def test_ten_thousand_ranks_are_listed_once_and_read_once_in_parts_that_share_them():
    store = Many()
    settings = FileSource(name="logs", root="/logs", patterns=("{job_id}/rank-{rank}.log",))
    made = FilesConnector("c", settings, store, lambda: 0.0, lambda seconds: None)
    job = Workload(scheduler="slurm", job_id="7", world_size=10_000)
    seen: dict[str, tuple[int, ...]] = {}
    for part in range(2):
        item = PlanItem(item_id="i", connector="files", shard="s", query={PART: f"{part}/2"})
        collected = Collected()
        for stream in made.open_streams(item, job, collected):
            assert stream.label.uri not in seen
            seen[stream.label.uri] = stream.label.ranks
            stream.close()
        assert collected.paths_missing == []
    assert sorted(seen) == sorted(f"logs/{name}" for name in store.names)
    assert seen["logs/7/rank-9980.log.1.gz"] == (9_980,)
    assert store.listings == 2
