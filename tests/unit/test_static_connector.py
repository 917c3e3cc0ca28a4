from connectors.protocol import Collected, ConnectorError
from connectors.static import Blob, StaticConnector, expand_evidence, label_of
from engine.model.plan import PlanItem
from engine.model.workload import EvidenceSource, Workload


class FakeReader:
    def __init__(self, data):
        self.data = data

    def read(self, size, /):
        piece, self.data = self.data[:size], self.data[size:]
        return piece

    def close(self):
        pass


class FakeSource:
    def __init__(self, **blobs):
        self.blobs = blobs

    def list_blobs(self):
        return [Blob(path, len(data)) for path, data in sorted(self.blobs.items())]

    def open_blob(self, path):
        if self.blobs[path] == b"locked":
            raise ConnectorError(f"{path}: access denied; ask its owner")
        return FakeReader(self.blobs[path])


def entry(path, source="applog", **more):
    return EvidenceSource.model_validate({"path": path, "source": source, **more})


def item(*entries, cursor=None):
    return PlanItem(item_id="i", connector="static", shard="s", evidence=entries, cursor=cursor)


WORKLOAD = Workload(scheduler="slurm", job_id="1", nodes=("n1", "n2"))


def test_streams_come_in_path_order_whatever_the_order_of_entries():
    connector = StaticConnector(FakeSource(b=b"2", a=b"1"))
    for entries in ((entry("a"), entry("b")), (entry("b"), entry("a"))):
        streams = connector.open_streams(item(*entries), WORKLOAD, Collected())
        assert [stream.label.uri for stream in streams] == ["a", "b"]


def test_missing_and_locked_files_are_told_and_the_rest_is_read():
    collected = Collected()
    connector = StaticConnector(FakeSource(a=b"1", b=b"locked"))
    streams = list(
        connector.open_streams(item(entry("a"), entry("b"), entry("c")), WORKLOAD, collected)
    )
    assert [stream.label.uri for stream in streams] == ["a"]
    assert sorted(collected.paths_missing) == ["b", "c"]
    assert collected.warnings == ["b: access denied; ask its owner"]


def test_a_cursor_resumes_at_the_stream_it_names():
    connector = StaticConnector(FakeSource(a=b"1", b=b"2", c=b"3"))
    entries = (entry("a"), entry("b"), entry("c"))
    streams = connector.open_streams(item(*entries, cursor="b"), WORKLOAD, Collected())
    assert [stream.label.uri for stream in streams] == ["b", "c"]


def test_trust_comes_from_the_declared_source():
    trusts = {
        source: label_of(entry("x", source), WORKLOAD).trust
        for source in ("applog", "syslog", "scheduler", "flight_recorder")
    }
    assert trusts == {
        "applog": "workload",
        "syslog": "node",
        "scheduler": "platform",
        "flight_recorder": "workload",
    }


def test_a_ranks_node_is_taken_from_the_placement():
    workload = Workload.model_validate(
        {"scheduler": "none", "job_id": "1", "ranks": [{"rank": 3, "node": "n9"}]}
    )
    assert label_of(entry("x", rank=3), workload).nodes == ("n9",)


def test_a_file_named_twice_is_read_once_with_the_labels_of_both():
    found, missing = expand_evidence([entry("a", rank=1), entry("a", rank=[0])], ["a"])
    assert [(each.path, each.rank) for each in found] == [("a", (0, 1))]
    assert missing == []


def test_the_literal_entry_wins_over_the_glob_in_either_order():
    entries = [entry("*", "applog"), entry("dmesg", "syslog", node="n1")]
    for order in (entries, entries[::-1]):
        found, _ = expand_evidence(order, ["dmesg", "x"])
        assert [(each.path, each.source) for each in found] == [
            ("dmesg", "syslog"),
            ("x", "applog"),
        ]


def test_brackets_stars_and_folders_match_like_a_shell():
    paths = ["a/b/c.log", "a/d.log", "r1.log", "r2.log", "r[1].log"]

    def matched(pattern):
        return [each.path for each in expand_evidence([entry(pattern)], paths)[0]]

    assert matched("r[12].log") == ["r1.log", "r2.log"]
    assert matched("r[1].log") == ["r[1].log"]
    assert matched("*.log") == ["r1.log", "r2.log", "r[1].log"]
    assert matched("**/*.log") == paths
    assert matched("a") == ["a/b/c.log", "a/d.log"]


def test_a_pattern_of_many_stars_is_quick():
    assert expand_evidence([entry("*a" * 500 + "b")], ["a" * 4000])[1] == ["*a" * 500 + "b"]


def test_a_log_of_several_hosts_may_name_any_of_the_jobs_nodes():
    assert label_of(entry("x", "syslog"), WORKLOAD).nodes == ("n1", "n2")
    assert label_of(entry("x", "applog"), WORKLOAD).nodes == ("n1", "n2")


def test_a_node_log_without_a_label_is_not_given_to_the_only_node():
    single = WORKLOAD.model_copy(update={"nodes": ("n1",)})
    assert label_of(entry("x", "syslog"), single).nodes == ()
    assert label_of(entry("x", "applog"), single).nodes == ("n1",)
