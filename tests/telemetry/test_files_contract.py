"""The files connector keeps to the connector contract, over a store with faults."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import ConnectorContract

from connectors.protocol import (
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.telemetry.file_store import StoredFile
from connectors.telemetry.files import FilesConnector
from connectors.telemetry.settings import FileSource
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
