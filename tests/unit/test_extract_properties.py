"""Properties: chunking, hostile bytes, both engines, interleaving."""

import gzip
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.extract.session import Extraction
from engine.model.observation import Observation, encode
from tests.unit.extract_fixtures import extract, label

RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LINES = st.sampled_from(
    [
        b"2025-06-26 06:10:12,118 INFO step 12 loss 3.1",
        b"[rank1]:[E626 06:24:44.448988908 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught "
        b"collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9)",
        b"[rank1]: Traceback (most recent call last):",
        b'[rank1]:   File "/home/u/train.py", line 22, in <module>',
        b"[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        b"Traceback (most recent call last):",
        b'  File "/opt/lib/python3.10/site-packages/torch/x.py", line 2, in f',
        b"OSError: [Errno 28] No space left on device",
        b"During handling of the above exception, another exception occurred:",
        b"\x1b[1;91mRuntimeError: \x1b[0mCUDA error: "
        b"uncorrectable \x1b[1mECC\x1b[0m error encountered",
        b" 12%|#2   | 12/100 [00:01<00:09]\r 13%|#3   | 13/100 [00:01<00:09]\r",
        b"Root Cause (first observed failure):", b"[0]:", b"  rank      : 1 (local_rank: 1)",
        b"  exitcode  : -6 (pid: 7102)", b"============================================",
        b'{"log":"socket REFUSED by 10.0.0.1\\n","stream":"stderr","time":"2025-06-26T06:00:00Z"}',
        b"", b"\xff\xfe\x00\x80\xc3", b"Socket refused by 10.0.0.1:29500",
        b"<4>[  123.45][ T1946] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
    ]
)  # fmt: skip
BYTES = st.lists(st.one_of(LINES, st.binary(max_size=60)), max_size=40).map(b"\n".join)
SIZES = st.lists(st.integers(1, 700), max_size=60)


def seen(found: Extraction) -> bytes:
    summaries: list[Any] = list(found.summaries)
    return encode([*found.observations, *summaries])


@RELAXED
@given(BYTES, SIZES)
def test_how_the_reads_are_cut_changes_nothing(data: bytes, sizes: list[int]) -> None:
    assert seen(extract(data)) == seen(extract(data, sizes=sizes))


@RELAXED
@given(BYTES, SIZES)
def test_gzip_gives_what_plain_bytes_give(data: bytes, sizes: list[int]) -> None:
    if data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
        return
    assert seen(extract(data)) == seen(extract(gzip.compress(data), sizes=sizes))


@RELAXED
@given(st.binary(max_size=4000), st.sampled_from(["applog", "syslog"]))
def test_no_bytes_raise(data: bytes, source: str) -> None:
    found = extract(data, label(source))
    assert found.bytes <= max(len(data), found.bytes)
    assert all(item.count > 0 for item in found.observations)


@RELAXED
@given(BYTES)
def test_both_engines_give_the_same_answers(data: bytes) -> None:
    assert seen(extract(data)) == seen(extract(data, engine="re2"))


@RELAXED
@given(BYTES)
def test_every_origin_names_the_bytes_it_rests_on(data: bytes) -> None:
    if data.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff")):
        return
    for item in extract(data).observations:
        origin = item.first.origin
        assert 0 <= origin.byte_offset <= origin.byte_offset + origin.byte_length <= len(data)
        assert data.count(b"\n", 0, origin.byte_offset) + 1 == origin.line


RANK_LINES = {
    rank: [
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/home/u/train.py", line {rank}, in main',
        f"[rank{rank}]: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        f"[rank{rank}]:[E626 06:24:44.44898{rank} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum=80{rank % 2}, OpType=ALLREDUCE)",
        f"[rank{rank}]: OSError: [Errno 28] No space left on device",
    ]
    for rank in range(3)
}  # fmt: skip


def without_places(item: Observation) -> Observation:
    def bare(sample: Any) -> Any:
        return replace(sample, origin=replace(sample.origin, line=0, byte_offset=0, byte_length=0))

    return replace(
        item, first=bare(item.first), last=bare(item.last),
        samples=tuple(bare(sample) for sample in item.samples),
    )  # fmt: skip


@RELAXED
@given(st.permutations([rank for rank in RANK_LINES for _ in RANK_LINES[rank]]))
def test_how_ranks_interleave_changes_only_places(order: list[int]) -> None:
    left = {rank: list(lines) for rank, lines in RANK_LINES.items()}
    mixed = "\n".join(left[rank].pop(0) for rank in order)
    plain = "\n".join(line for lines in RANK_LINES.values() for line in lines)
    one, other = extract(plain), extract(mixed)
    assert [without_places(item) for item in one.observations] == [
        without_places(item) for item in other.observations
    ]
    assert one.summaries == other.summaries


@pytest.mark.parametrize("lines", [3000, 6000])
def test_segments_of_a_large_stream_keep_line_numbers_and_offsets(lines: int) -> None:
    rows = [f"2025-06-26 06:00:00,{n % 1000:03d} step {n} {'x' * (n % 211)}" for n in range(lines)]
    rows[lines - 7] = "Socket refused by 10.0.0.9"
    data = "\n".join(rows).encode()
    (item,) = extract(data).observations
    assert item.first.origin.line == lines - 6
    place = item.first.origin.byte_offset
    assert data[place : place + item.first.origin.byte_length] == b"Socket refused by 10.0.0.9"
