"""Files as sites keep them: rotated, compressed, growing, linked, one a rank or one for all."""

import gzip
import os
import threading

import boto3
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from connectors.protocol import Collected, SourceAbsentError, SourceUnreachableError
from connectors.telemetry.file_store import LocalFiles
from connectors.telemetry.files import PART, FilesConnector
from connectors.telemetry.ranges import RangedStream
from connectors.telemetry.settings import FileSource
from engine.model.plan import PlanItem, Window
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from functions.adapters.s3_files import open_bucket

LABEL = StreamLabel("logs/x", "applog", "workload")


def workload(**more):
    given = {"scheduler": "slurm", "job_id": "7", "nodes": ("n1", "n2"), "user": "ada"} | more
    return Workload(**given)


def read(root, *patterns, job=None, store=None, collected=None, item=None, **settings):
    chosen = FileSource(name="logs", root=str(root), patterns=patterns, **settings)
    connector = FilesConnector(
        "c", chosen, store or LocalFiles(root), lambda: 0.0, lambda seconds: None
    )
    found = {}
    labels = {}
    plain = item or PlanItem(item_id="i", connector="files", shard="s")
    for stream in connector.open_streams(plain, job or workload(), collected or Collected()):
        body = b""
        while piece := stream.read(65_536):
            body += piece
        stream.close()
        found[stream.label.uri] = body
        labels[stream.label.uri] = stream.label
    return found, labels


def put(root, path, body=b"x\n", *, age_s=0):
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)
    if age_s:
        os.utime(place, (1_700_000_000 - age_s, 1_700_000_000 - age_s))


def test_rank_files_carry_their_rank_and_its_node(tmp_path):
    put(tmp_path, "7/rank-0.log")
    put(tmp_path, "7/rank-11.log")
    put(tmp_path, "8/rank-0.log")
    job = workload(ranks=({"rank": 11, "node": "n2"},))
    _, labels = read(tmp_path, "{job_id}/rank-{rank}.log", job=job)
    assert sorted(labels) == ["logs/7/rank-0.log", "logs/7/rank-11.log"]
    assert labels["logs/7/rank-11.log"].ranks == (11,)
    assert labels["logs/7/rank-11.log"].nodes == ("n2",)


def test_node_logs_of_other_nodes_are_left_alone(tmp_path):
    for node in ("n1", "n2", "n3"):
        put(tmp_path, f"{node}/messages")
    _, labels = read(tmp_path, "{node}/messages", source="syslog")
    assert {label.nodes for label in labels.values()} == {("n1",), ("n2",)}
    assert {label.trust for label in labels.values()} == {"node"}


@pytest.mark.parametrize(
    "name", ["messages.1", "messages-20260102.gz", "messages.2.zst", "messages.gz"]
)
def test_a_rotated_file_keeps_the_labels_of_the_file_that_it_was(tmp_path, name):
    put(tmp_path, "n1/messages")
    put(tmp_path, f"n1/{name}")
    _, labels = read(tmp_path, "{node}/messages", source="syslog")
    assert sorted(labels) == sorted(["logs/n1/messages", f"logs/n1/{name}"])
    assert {label.nodes for label in labels.values()} == {("n1",)}


def test_rotation_can_be_switched_off(tmp_path):
    put(tmp_path, "n1/messages")
    put(tmp_path, "n1/messages.1")
    found, _ = read(tmp_path, "{node}/messages", source="syslog", rotated=False)
    assert list(found) == ["logs/n1/messages"]


def test_a_rank_number_at_the_end_is_no_rotation(tmp_path):
    put(tmp_path, "out.0", b"zero\n")
    put(tmp_path, "out.1", b"one\n")
    _, labels = read(tmp_path, "out.{rank}")
    assert [labels[uri].ranks for uri in sorted(labels)] == [(0,), (1,)]


def test_compressed_bytes_come_as_they_are_stored(tmp_path):
    put(tmp_path, "a.log.gz", gzip.compress(b"one\n"))
    put(tmp_path, "a.log.zst", zstd.compress(b"two\n"))
    found, _ = read(tmp_path, "a.log")
    assert gzip.decompress(found["logs/a.log.gz"]) == b"one\n"
    assert zstd.decompress(found["logs/a.log.zst"]) == b"two\n"


def test_a_file_with_two_names_is_read_once(tmp_path):
    put(tmp_path, "a.log")
    os.link(tmp_path / "a.log", tmp_path / "b.log")
    (tmp_path / "c.log").symlink_to(tmp_path / "a.log")
    found, _ = read(tmp_path, "*.log")
    assert list(found) == ["logs/a.log"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    put(tmp_path, "secret/key.log", b"hunter2\n")
    put(tmp_path, "open/a.log")
    (tmp_path / "open/b.log").symlink_to(tmp_path / "secret/key.log")
    (tmp_path / "open/c").symlink_to(tmp_path / "secret")
    found, _ = read(tmp_path / "open", "**")
    assert list(found) == ["logs/a.log"]


def test_a_pipe_does_not_hold_the_connector(tmp_path):
    put(tmp_path, "a.log")
    os.mkfifo(tmp_path / "b.log")
    found, _ = read(tmp_path, "*.log")
    assert list(found) == ["logs/a.log"]


def test_a_user_cannot_widen_a_pattern_by_the_name_of_a_job(tmp_path):
    put(tmp_path, "alice/a.log")
    collected = Collected()
    found, _ = read(tmp_path, "{name}/*.log", job=workload(name="*"), collected=collected)
    assert found == {}
    assert "no safe part of a path" in " ".join(collected.warnings)
    assert collected.coverage == "unverified"


def test_a_growing_file_is_read_as_far_as_it_was_when_listed(tmp_path):
    put(tmp_path, "a.log", b"first\n")
    store = LocalFiles(tmp_path)
    listed = store.list_files("")
    with (tmp_path / "a.log").open("ab") as grown:
        grown.write(b"second\n")
    store.list_files = lambda prefix: listed
    found, _ = read(tmp_path, "a.log", store=store)
    assert found == {"logs/a.log": b"first\n"}


def test_a_file_that_was_replaced_since_it_was_listed_is_missing_and_never_mixed(tmp_path):
    put(tmp_path, "a.log", b"first\n")
    store = LocalFiles(tmp_path)
    listed = store.list_files("")
    put(tmp_path, "new", b"other\n")
    os.replace(tmp_path / "new", tmp_path / "a.log")
    store.list_files = lambda prefix: listed
    collected = Collected()
    found, _ = read(tmp_path, "a.log", store=store, collected=collected)
    assert found == {}
    assert collected.paths_missing == ["logs/a.log"]


def test_files_older_than_the_window_are_not_read_and_that_is_said(tmp_path):
    put(tmp_path, "n1/messages.2", age_s=100_000)
    put(tmp_path, "n1/messages", b"now\n", age_s=1)
    window = Window(name="tail", start="2023-11-14T21:00:00Z", end="2023-11-14T23:00:00Z")
    item = PlanItem(item_id="i", connector="files", shard="s", windows=(window,))
    collected = Collected()
    found, _ = read(tmp_path, "{node}/messages", item=item, collected=collected)
    assert list(found) == ["logs/n1/messages"]
    assert collected.warnings[-1] == "1 files were last written before the window"


def test_a_rank_without_a_file_is_named(tmp_path):
    put(tmp_path, "rank-0.log")
    collected = Collected()
    read(tmp_path, "rank-{rank}.log", job=workload(world_size=2), collected=collected)
    assert collected.paths_missing == ["logs/of rank 1"]


def test_parts_share_the_files_without_loss_or_repeats(tmp_path):
    for rank in range(40):
        put(tmp_path, f"rank-{rank}.log")
    seen = []
    for part in range(3):
        query = {PART: f"{part}/3"}
        item = PlanItem(item_id="i", connector="files", shard="s", query=query)
        seen += list(read(tmp_path, "rank-{rank}.log", item=item)[0])
    assert sorted(seen) == sorted(f"logs/rank-{rank}.log" for rank in range(40))


@given(
    body=st.binary(max_size=2_000),
    piece=st.integers(1, 300),
    parallel=st.integers(1, 6),
    size=st.integers(1, 500),
)
def test_ranges_put_together_are_the_file(body, piece, parallel, size):
    def fetch(start, length):
        return body[start : start + length]

    stream = RangedStream(LABEL, fetch, len(body), piece, parallel, lambda seconds: None)
    read_back = b""
    while part := stream.read(size):
        read_back += part
    stream.close()
    assert read_back == body


def test_ranges_are_fetched_at_the_same_time_and_never_more_than_allowed():
    most, held, lock = 0, 0, threading.Lock()
    together = threading.Barrier(3, timeout=10)

    def fetch(start, length):
        nonlocal most, held
        with lock:
            held += 1
            most = max(most, held)
        together.wait()
        with lock:
            held -= 1
        return b"x" * length

    stream = RangedStream(LABEL, fetch, 90, 10, 3, lambda seconds: None)
    assert sum(len(part) for part in iter(lambda: stream.read(7), b"")) == 90
    assert most == 3


def test_a_range_that_fails_once_is_fetched_again():
    failed = []

    def fetch(start, length):
        if start == 10 and not failed:
            failed.append(start)
            raise SourceUnreachableError("reset")
        return b"x" * length

    stream = RangedStream(LABEL, fetch, 30, 10, 1, lambda seconds: None)
    assert len(b"".join(iter(lambda: stream.read(99), b""))) == 30
    assert failed == [10]


def test_a_file_that_shrinks_ends_where_it_was_cut():
    body = b"a" * 15

    def fetch(start, length):
        return body[start : start + length] if start < 20 else b"new content"[:length]

    stream = RangedStream(LABEL, fetch, 40, 10, 4, lambda seconds: None)
    assert b"".join(iter(lambda: stream.read(99), b"")) == body


@pytest.fixture
def bucket(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(
            Bucket="jobs-a", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield client


def test_objects_below_a_prefix_are_read_by_ranges(bucket):
    body = b"".join(b"line %d\n" % number for number in range(60_000))
    bucket.put_object(Bucket="jobs-a", Key="train/7/all.log", Body=body)
    bucket.put_object(Bucket="jobs-a", Key="train/8/all.log", Body=b"other\n")
    store = open_bucket("s3://jobs-a/train", bucket)
    found, labels = read(
        "s3://jobs-a/train", "{job_id}/*.log", store=store, range_bytes=65_536, parallel=4
    )
    assert found == {"logs/7/all.log": body}
    assert labels["logs/7/all.log"].nodes == ("n1", "n2")


def test_an_object_that_was_replaced_while_it_is_read_is_never_mixed(bucket):
    bucket.put_object(Bucket="jobs-a", Key="a.log", Body=b"first")
    store = open_bucket("s3://jobs-a", bucket)
    (listed,) = store.list_files("")
    bucket.put_object(Bucket="jobs-a", Key="a.log", Body=b"other")
    with pytest.raises(SourceAbsentError, match="replaced"):
        store.read_range(listed, 0, 5)


def test_a_bucket_that_is_not_there_is_told(bucket):
    with pytest.raises(SourceAbsentError, match="s3://nowhere/"):
        open_bucket("s3://nowhere", bucket).list_files("")
