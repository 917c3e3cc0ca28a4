"""Whose line it is."""

from typing import Any

import pytest

from engine.extract.demux import Demultiplexer, Identity
from engine.model.stream import StreamLabel
from tests.unit.extract_fixtures import extract, label


def read(text: str, head: str = "", **more: Any) -> Identity:
    return Demultiplexer(StreamLabel("x", "applog", "workload", **more), head).read(text)


@pytest.mark.parametrize(
    ("text", "rank", "rest"),
    [
        ("[rank3]: Traceback", 3, "Traceback"),
        ("[rank3]:   File", 3, "  File"),
        ("[rank3]:[E1103 12:00:00.1 x", 3, "[E1103 12:00:00.1 x"),
        ("[1,12]<stdout>:node", 12, "node"),
        ("[1,12]<stderr>: x", 12, "x"),
        ("2020-05-05T16:13:44.880Z: [1,12]<stdout>:x", 12, "x"),
    ],
)
def test_a_rank_prefix_gives_the_rank_and_is_no_part_of_the_text(
    text: str, rank: int, rest: str
) -> None:
    identity = read(text)
    assert (identity.rank, text[identity.body :]) == (rank, rest)


def test_a_rank_that_the_line_names_is_read() -> None:
    assert read("[E 1] [PG ID 0 PG GUID 0(default_pg) Rank 1] Timeout").rank == 1
    assert read("[E ProcessGroupNCCL.cpp:828] [Rank 3] Watchdog").rank == 3


def test_a_prefix_wins_over_a_rank_in_the_text() -> None:
    assert read("[rank3]: peer [Rank 5] gone").rank == 3


def test_torchruns_local_rank_is_no_global_rank() -> None:
    identity = read("[default3]:x")
    assert (identity.rank, identity.local_rank) == (None, 3)


def test_nccl_lines_give_host_pid_and_device() -> None:
    identity = read("node-7:124029:124329 [3] NCCL INFO x")
    assert (identity.host, identity.pid, identity.cuda_device) == ("node-7", 124029, 3)


def test_ray_and_pod_prefixes_are_read() -> None:
    assert read("(RayTrainWorker pid=123, ip=10.0.0.1) x").pid == 123
    assert read("[pod/job-0-abcde/main] x").pod == "job-0-abcde"


def test_a_leading_number_is_a_rank_only_where_the_label_or_the_whole_file_says_so() -> None:
    few = "3: a\nplain text\nmore text\n"
    assert read("3: a", few).rank is None
    assert read("3: a", "0: x\n1: y\n2: z\n3: a\n").rank == 3
    assert read("3: a", "3: a\n1: b\n", ranks=(1, 3)).rank == 3


def test_a_node_comes_from_the_label_alone() -> None:
    (item,) = extract("other-9:1:1 [0] NCCL WARN socket refused by 10.0.0.1\n").observations
    assert (item.entity.node, item.fields["host"]) == ("node-1", "other-9")


def test_a_host_picks_one_of_the_labels_nodes() -> None:
    shared = label(nodes=("node-1", "node-2"))
    (item,) = extract("node-2:1:1 [0] NCCL WARN socket refused by 1.1.1.1\n", shared).observations
    assert item.entity.node == "node-2"


def test_a_single_labelled_rank_is_used_where_the_text_has_none() -> None:
    (item,) = extract("socket refused by 10.0.0.1\n", label(ranks=(5,))).observations
    assert (item.entity.rank, item.stream) == (5, "job.log")


def test_a_parallel_shells_host_prefix_tells_nodes_apart() -> None:
    data = (
        "node-1: Traceback (most recent call last):\n"
        "node-2: Traceback (most recent call last):\n"
        'node-1:   File "a.py", line 1, in one\n'
        'node-2:   File "b.py", line 1, in two\n'
        "node-2: KeyError: 2\nnode-1: ValueError: 1\n"
    )
    found = extract(data, label(nodes=("node-1", "node-2"))).observations
    told = {item.entity.node: item.fields["exception"] for item in found}
    assert told == {"node-1": "ValueError", "node-2": "KeyError"}


def test_a_container_runtimes_stamp_and_stream_stand_before_a_rank() -> None:
    identity = read("2024-01-01T00:00:00.123456789Z stderr F [rank3]: Traceback")
    assert identity.rank == 3
