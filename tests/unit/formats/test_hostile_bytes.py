import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.reading import read

SOURCES = ("scheduler", "kubernetes", "metrics", "flight_recorder", "inventory")
PIECES = (
    b"JobID|State|ExitCode\n",
    b"JobID           JobName  Partition      State ExitCode\n",
    b"------------ ---------- ---------- ---------- --------\n",
    b"JobId=1 JobState=",
    b"NodeName=",
    b"REASON USER TIMESTAMP NODELIST\n",
    b"Name:   x\n",
    b"Events:\n",
    b"  Type  Reason\n",
    b"  ---- ----\n",
    b"Containers:\n  a:\n    State: Terminated\n",
    b"apiVersion: v1\nkind: Pod\n",
    b"NAME READY STATUS RESTARTS AGE\n",
    b'{"jobs": [{"job_id":',
    b'{"kind":"Pod","apiVersion":"v1","status":',
    b"}]}",
    b"{",
    b"[",
    b"\x80\x04",
    b"\x80\x02}q",
    b'M{gpu="0"} 1 1700000000000\n',
    b"CA 'mlx5_0'\n",
    b"GPU 0: x (UUID: GPU-",
    b"\xff\xfe",
    b"\x00",
    b"\n",
    b"  ",
    b"1|",
    b"n[0-9",
)


@settings(max_examples=150, deadline=None)
@given(
    source=st.sampled_from(SOURCES),
    pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=20)), max_size=12),
)
def test_no_bytes_make_a_reader_raise_or_lose_a_line(source, pieces):
    data = b"".join(pieces)
    structured = read(source, data)
    if structured is not None:
        for number, offset, line in structured.unconsumed:
            assert data[offset : offset + len(line)] == line
            assert data[:offset].count(b"\n") == number - 1


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "data",
    [
        b"{\n" * 20_000,
        b"[" * 200_000,
        b"JobID " * 50_000 + b"State\n" + b"1 " * 50_000,
        b"JobId=" * 50_000,
        b"Name: " + b"x" * 100_000 + b"\n" + b"    a: b\n" * 20_000,
        b" " * 300_000 + b"\n" + b"-" * 300_000,
        b"A=" * 100_000,
        b'm{a="' + b"\\" * 100_000,
        b"|" * 200_000 + b"JobID|State",
        b"apiVersion: v1\n" + b"a: {" * 20_000,
    ],
)
def test_large_nonsense_does_not_hang(source, data):
    started = time.process_time()
    read(source, data)
    assert time.process_time() - started < 60  # a hang, not a speed: it takes one
