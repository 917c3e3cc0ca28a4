"""Files in a folder keep to the connector contract."""

import pytest
from connector_contract import ConnectorContract

from connectors.protocol import ConnectorError, SourceRefusedError, SourceUnreachableError
from connectors.static import FolderSource, StaticConnector
from engine.model.plan import PlanItem
from engine.model.workload import EvidenceSource, Workload


class Faulty(FolderSource):
    """A folder that fails as told."""

    def __init__(self, root, fault):
        super().__init__(root)
        self.fault = fault

    def list_blobs(self):
        if self.fault == "down":
            raise SourceUnreachableError("the store does not answer")
        if self.fault == "refused":
            raise SourceRefusedError("the store refuses")
        return super().list_blobs()

    def open_blob(self, path):
        if path == "b.log" and self.fault == "one_busy":
            raise SourceUnreachableError("the store does not answer")
        if path == "b.log" and self.fault == "one_absent":
            raise ConnectorError("b.log: gone")
        return super().open_blob(path)


class TestStatic(ConnectorContract):
    has_cursor = False  # the collector keeps its budget, between files
    has_probe = False

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path):
        self.root = tmp_path
        for name in ("a.log", "b.log", "c.log"):
            (tmp_path / name).write_text(f"line of {name}\n")

    def make(self, fault):
        return StaticConnector(Faulty(self.root, fault))

    def workload(self):
        return Workload(scheduler="slurm", job_id="7", nodes=("n1",))

    def item(self, **changes):
        evidence = (EvidenceSource(path="*.log", source="applog"),)
        return PlanItem(item_id="i", connector="static", shard="s", evidence=evidence, **changes)
