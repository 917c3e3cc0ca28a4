"""The short way comes to what reading every line in full comes to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine.extract.tally
import engine.extract.window
from engine.extract.express import Express
from engine.model.observation import encode
from engine.model.workload import Workload
from tests.unit.extract_fixtures import extract, label

OPEN = Workload(scheduler="none", job_id="1")
# Every naive stamp of the lines lies outside it by whole hours: they are moved at the end.
ELSEWHERE = Workload(
    scheduler="none", job_id="1", start="2025-06-25T03:00:00Z", end="2025-06-26T14:00:00Z"
)
CLOCKS = st.sampled_from(["23:59:59", "00:00:00", "06:10:12", "06:10:13"])
DAYS = st.sampled_from(["25", "26"])
TEXTS = st.sampled_from(
    [
        "socket refused by 10.0.0.1", "Socket REFUSED by 10.0.0.2:29500",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE)",
        "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=GATHER)",
        "invoked oom-killer", "uncorrectable ECC error encountered", "socket refused by \u00e9",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics Exception: ESR 0x1",
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=2, something else", "step 12 loss 3.1",
        "Traceback (most recent call last):", "OSError: [Errno 28] No space left on device",
        'Traceback (most recent call last):\\n  File "a.py", line 1, in f\\nKeyError: 1',
    ]
)  # fmt: skip
PLAIN_TEXTS = st.sampled_from(
    ["socket refused by 10.0.0.1", "socket refused by 10.0.0.2", "invoked oom-killer",
     "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE)",
     "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=809, OpType=ALLREDUCE)"]
)  # fmt: skip
PREFIXES = st.sampled_from(
    [
        "{d}T{c} ", "{d} {c},118 ", "[{d} {c}.000118] ", "[rank1]:[E6{day} {c}.448988908 x.cpp:1] ",
        "[rank2]: ", "[rank1]: {d} {c} ", "{d} {c} node-1:7:8 [3] NCCL WARN ", "",
        "node-1:7:8 [3] NCCL WARN ", "(Worker pid=7, ip=10.0.0.1) ", "[default3]:{d} {c}.5 ",
        "{d} {c}+02:00 [rank3]: ", "{c} ", "12: [{d} {c}.1] [rank12] ", "{d} {c} {d} {c} ",
    ]
)  # fmt: skip
SYSLOG = st.sampled_from(
    ["Jun {day} {c} node-1 kernel: ", "Jun {day} {c} node-2 slurmd[7]: ", "[  123.{day}] ",
     "<4>[ 1123.45] ", "{d}T{c}.5+02:00 node-1 kernel: ", "[Thu Jun {day} {c} 2025] ", ""]
)  # fmt: skip


def lines(prefixes: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def written(prefix: str, clock: str, day: str, text: str) -> str:
        return prefix.format(c=clock, d=f"2025-06-{day}", day=day) + text

    line = st.builds(written, prefixes, CLOCKS, DAYS, TEXTS)
    return st.lists(st.tuples(line, st.integers(1, 7)), max_size=30).map(
        lambda parts: "\n".join(text for text, times in parts for _ in range(times))
    )


@contextmanager
def walking(lines_in_all: int, *, express: bool) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.extract.window, "WALK_LINES", lines_in_all)
        if not express:
            patch.setattr(Express, "_frame", lambda _self, _raw: None)
        yield


@contextmanager
def few_keys(keys: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.extract.tally, "MAX_KEYS_ALL_RANKS", keys)
        yield


def both_ways(data: str, source: str, *, walk_lines: int, workload: Workload | None) -> list[bytes]:
    told = []
    more = {} if workload is None else {"workload": workload}
    for express in (True, False):
        with walking(walk_lines, express=express):
            found = extract(data, label(source), **more)  # type: ignore[arg-type]
            told.append(encode([*found.observations, *found.summaries]))
    return told


@settings(max_examples=400, deadline=None)
@given(lines(PREFIXES), st.sampled_from([0, 40_000]), st.sampled_from([None, ELSEWHERE]))
def test_a_jobs_output_is_counted_as_if_every_line_was_read(
    data: str, walk_lines: int, workload: Workload | None
) -> None:
    short, full = both_ways(data, "applog", walk_lines=walk_lines, workload=workload)
    same = short == full
    assert same


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), CLOCKS, PLAIN_TEXTS), max_size=30),
    st.integers(0, 3),
)
def test_what_gets_no_entry_of_its_own_is_counted_alike(
    said: list[tuple[int, str, str]], keys: int
) -> None:
    data = "\n".join(f"[rank{rank}]: 2025-06-25 {clock} {text}" for rank, clock, text in said)
    with few_keys(keys):
        short, full = both_ways(data, "applog", walk_lines=40_000, workload=None)
    same = short == full
    assert same


@settings(max_examples=80, deadline=None)
@given(lines(SYSLOG), st.sampled_from([None, ELSEWHERE]))
def test_a_nodes_log_is_counted_as_if_every_line_was_read(
    data: str, workload: Workload | None
) -> None:
    short, full = both_ways(data, "syslog", walk_lines=40_000, workload=workload)
    same = short == full
    assert same


def test_without_an_attempts_window_every_line_is_read_in_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storm = "".join(
        f"2025-06-26 06:00:{n % 60:02d} socket refused by 10.0.0.1\n" for n in range(90)
    )
    left = left_of(storm, monkeypatch, workload=OPEN)
    assert left == 90
    assert left_of(storm, monkeypatch) < 5


def left_of(data: str, monkeypatch: pytest.MonkeyPatch, **more: object) -> int:
    """How many hits the short way left to be read in full."""
    taken = []
    take = Express.take

    def counted(self: Express, segment: object) -> object:
        left = take(self, segment)  # type: ignore[arg-type]
        taken.append(len(left))
        return left

    with monkeypatch.context() as patch:
        patch.setattr(Express, "take", counted)
        extract(data, **more)  # type: ignore[arg-type]
    return sum(taken)


def test_a_storm_goes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    data = "".join(
        f"[rank{n % 4}]: 2025-06-26 06:00:{n % 60:02d} socket refused by 10.0.0.1\n"
        for n in range(400)
    )
    assert [item.count for item in extract(data).observations] == [100] * 4
    assert left_of(data, monkeypatch) == 0
