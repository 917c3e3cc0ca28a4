"""The engine's tables and small parts: states, host lists, names of devices, moments, documents."""

import re
from pathlib import Path
from typing import get_args

import pytest

from engine.correlate import effect_keys
from engine.entities import Directory
from engine.episodes import Episode, may_precede, surely_before
from engine.exceptions import is_messenger
from engine.meanings import FALLBACK
from engine.model.hostlist import compact_hostlist, expand_hostlist
from engine.model.observation import Entity
from engine.model.vocabulary import Manifestation
from engine.names import NodeNames, normal_pci
from engine.normalise import bounds_of
from engine.progress import read_progress
from engine.terminal import STATES, read_exit, read_state
from tests.engine.cases import book, case, meaning, seen, stream, workload

DOCS = Path(__file__).parents[2] / "docs"


def test_every_raw_state_is_in_the_documentation():
    text = (DOCS / "verdict.md").read_text()
    for word, (terminal, _) in STATES.items():
        (row,) = [line for line in text.splitlines() if f"`{word}`" in line and "| `" in line]
        assert f"| `{terminal}` |" in row


def test_every_reason_code_in_the_code_is_in_the_documentation():
    root = Path(__file__).parents[2] / "engine"
    source = (root / "qualify.py").read_text()
    codes = set(re.findall(r'reasons\.append\("(\w+)"\)', source))
    codes |= set(re.findall(r'return "(\w+)"', (root / "decide.py").read_text()))
    codes -= set(get_args(Manifestation))
    text = (DOCS / "verdict.md").read_text()
    assert codes
    assert not [code for code in sorted(codes) if f"`{code}`" not in text]


@pytest.mark.parametrize("claim", sorted({symptom for _, symptom in STATES.values() if symptom}))
def test_every_claim_has_a_meaning_without_any_rule(claim):
    assert claim in FALLBACK


@pytest.mark.parametrize(
    ("text", "code", "signal"),
    [("1:0", 1, None), ("0:9", 0, 9), ("137", 137, 9), ("-9", -9, 9), ("n/a", None, None)],
)
def test_exit_codes_are_read_in_every_form(text, code, signal):
    assert read_exit(text) == (code, signal)


def test_the_uid_beside_a_state_is_kept():
    assert read_state(workload(state="CANCELLED by 1000")).by == "1000"


def test_an_exit_code_speaks_where_no_state_is_given():
    assert read_state(workload(state=None, exit_code="1")).terminal == "failed"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node-[001-003,037]", ["node-001", "node-002", "node-003", "node-037"]),
        ("a,b[1-2]c", ["a", "b1c", "b2c"]),
        ("single", ["single"]),
    ],
)
def test_host_lists_expand(text, names):
    assert expand_hostlist(text) == names


def test_a_host_list_survives_the_way_there_and_back():
    names = ["gpu-9", "gpu-10", "node-001", "node-002", "node-004", "head"]
    assert sorted(expand_hostlist(compact_hostlist(names))) == sorted(names)


@pytest.mark.parametrize(
    "text", ["0000:30:00", "00000000:30:00.0", "PCI:0000:30:00", "30:00.0", "30000"]
)
def test_one_pci_address_in_all_its_forms(text):
    assert normal_pci(text) == "0000:30:00"


def test_a_full_name_and_a_short_name_are_one_node():
    names = NodeNames(workload(nodes=["node-001", "node-002"]))
    assert names.canonical("NODE-001.cluster.local") == "node-001"
    assert not names.is_member(names.canonical("node-009"))


def test_ranks_are_spread_in_blocks_only_as_an_inference():
    directory = Directory(workload(), [])
    assert directory.rank_node == {0: "node-001", 1: "node-001", 2: "node-002", 3: "node-002"}
    assert directory.rank_node_inferred == {0, 1, 2, 3}


def test_a_placement_that_is_not_in_blocks_stops_the_inference():
    ranks = [{"rank": 0, "node": "node-002"}]
    directory = Directory(workload(ranks=ranks), [])
    assert directory.rank_node == {0: "node-002"}


def test_a_rank_of_a_sub_communicator_is_no_global_rank():
    line = seen("rank_place", 1, node="node-002", rank=0, gpu_index=3,
                fields={"limit": "2", "gpu_index": "3"})  # fmt: skip
    assert Directory(workload(), [line]).rank_node[0] == "node-001"


def test_a_process_ties_a_kernel_line_to_its_rank():
    place = seen("rank_place", 1, node="node-001", rank=1, pid=700, gpu_index=1)
    kernel = seen("gpu_lost", 5, source="syslog", node="node-001", pid=700, gpu_pci="0000:20:00")
    directory = Directory(workload(), [place, kernel])
    subject = directory.subject(kernel.entity)
    assert subject.ranks == (1,)
    assert directory.gpus[subject.gpu].index == 1


def test_an_address_stands_for_the_only_node_that_uses_it():
    line = seen("mark_address", 1, fields={"host": "node-002", "peer_addr": "10.0.0.2"})
    directory = Directory(workload(), [line])
    episode = Episode("peer_closed", meaning("peer_closed", "unknown", "secondary", 6),
                      directory.subject(Entity(node="node-001")))  # fmt: skip
    episode.pointers.add(("peer_addr", "10.0.0.2<4711>"))
    assert effect_keys(episode, "named_peer", directory.names) == (("n", "node-002"),)


def episode_at(minutes: float, node: str) -> Episode:
    found = seen("user_error", minutes, node=node)
    directory = Directory(workload(), [found])
    made = Episode("user_error", book().symptoms["user_error"], directory.subject(found.entity))
    us = found.when.earliest_us or 0
    made.add(found, us, us, us, us)
    return made


def test_stamps_of_two_clocks_order_only_what_is_far_apart():
    early, near, far = (
        episode_at(1, "node-001"), episode_at(1.1, "node-002"), episode_at(2, "node-002")
    )  # fmt: skip
    assert not surely_before(early, near)
    assert may_precede(near, early)
    assert surely_before(early, far)


def test_stamps_of_one_clock_order_what_is_seconds_apart():
    assert surely_before(episode_at(1, "node-001"), episode_at(1.1, "node-001"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"exception": "torch.distributed.DistBackendError"}, True),
        ({"exception": "RuntimeError", "error": "Connection closed by peer"}, True),
        ({"exception": "TimeoutError", "frame_file": "/x/torch/distributed/rendezvous.py"}, True),
        ({"exception": "KeyError", "frame_file": "/x/torch/distributed/fsdp/api.py"}, False),
        (
            {"exception": "RuntimeError", "frame_file": "/x/torch/distributed/tensor/_dispatch.py"},
            False,
        ),
        (
            {"exception": "RuntimeError", "frame_file": "/x/torch/distributed/distributed_c10d.py"},
            True,
        ),
        ({"exception": "ValueError", "error": "bad shape"}, False),
    ],
)
def test_messengers_are_told_from_causes(fields, expected):
    assert is_messenger(fields) is expected


def test_a_pause_that_the_job_came_back_from_is_its_usual_silence():
    calm = stream("a.log", step=50, step_at=20)
    object.__setattr__(calm, "largest_gap_us", 25 * 60_000_000)
    found = case(streams=(calm,))
    assert read_progress(found, bounds_of(found)).stalled is False


def test_steps_that_end_an_hour_before_the_job_are_a_stall():
    found = case(streams=(stream("a.log", step=5000, step_at=5),))
    assert read_progress(found, bounds_of(found)).stalled is True


def test_lines_that_a_rank_wrote_after_its_last_step_prove_that_no_buffer_hides_more():
    for last, proven in ((30, False), (58, True)):
        silent = stream("a.log#rank=0", step=5000, step_at=30, last=last, ranks=(0,))
        object.__setattr__(silent, "bytes", 0)
        found = case(streams=(silent,))
        assert read_progress(found, bounds_of(found)).is_stall_proven is proven
