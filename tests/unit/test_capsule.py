"""What a capsule keeps of a stream: the same whatever the reads, bounded, all in its place."""

import io
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.extract.capsule import LINE_COST, CapsuleStream
from engine.extract.redact import MASK
from engine.extract.session import Extraction, extract_capsule, extract_stream
from engine.model.stream import StreamLabel
from tests.unit.extract_fixtures import context

BUDGET = 16 << 10
LABEL = StreamLabel("job.out", "applog", "workload", nodes=("node-1",), ranks=(3,))
XID = "2025-06-26T06:0{n}:00Z kernel: NVRM: Xid (PCI:0000:0{n}:00): 79, GPU has fallen off the bus."


def extracted(data: bytes, *, chunk: int = 1 << 20, budget: int = BUDGET) -> Extraction:
    source = io.BytesIO(data)
    using = replace(context(), capsule_bytes=budget)
    return extract_stream(lambda size: source.read(min(size, chunk)), LABEL, using)


def capsule(data: bytes, **more: Any) -> CapsuleStream:
    found = extracted(data, **more).capsule
    assert found is not None
    return found


def texts(found: CapsuleStream) -> list[str]:
    return [text for run in found.runs for *_, text in run]


def filler(count: int, start: int = 0) -> list[str]:
    return [f"step {n} on the usual path, nothing to tell" for n in range(start, start + count)]


def joined(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def test_a_short_stream_is_kept_whole() -> None:
    found = capsule(b"one\n\nthree\r\nno newline at the end")
    assert texts(found) == ["one", "", "three", "no newline at the end"]
    assert (found.is_whole, found.lines, len(found.runs)) == (True, 4, 1)
    assert [line[:3] for line in found.runs[0]] == [(1, 0, 3), (2, 4, 0), (3, 5, 6), (4, 12, 21)]


def test_of_a_long_stream_head_tail_hits_and_errors_are_kept() -> None:
    lines = filler(30_000)
    lines[9_000] = XID.format(n=1)
    lines[9_500] = "the mesh could not be built: error 17 of the fabric shim"
    found = capsule(joined(lines))
    kept = {number: text for run in found.runs for number, _, _, text in run}
    assert not found.is_whole
    assert kept[1] == lines[0]
    assert kept[30_000] == lines[-1]
    assert [kept.get(n) for n in range(8_998, 9_005)] == lines[8_997:9_004]
    assert kept[9_501] == lines[9_500]
    assert 5_000 not in kept


def test_a_storm_is_kept_by_its_first_lines_only() -> None:
    storm = [XID.format(n=n % 8) for n in range(20_000)]
    found = capsule(joined([*storm, *filler(30_000)]))
    assert sum("Xid" in text for text in texts(found)) < 60


def test_errors_that_differ_in_digits_alone_are_kept_twice() -> None:
    lines = filler(20_000)
    for n in range(200):
        lines[6_000 + 10 * n] = f"shim error code {n}"
    lines[8_001] = "another failure of the shim"
    kept = texts(capsule(joined(lines)))
    assert sum(text.startswith("shim error code") for text in kept) == 2
    assert "another failure of the shim" in kept


def test_a_late_error_is_kept_although_early_ones_took_their_share() -> None:
    words = ["alpha", "beta", "gamma", "delta", "kappa", "lambda", "sigma", "omega"]
    early = [f"{a} {b} {c} failed" for a in words for b in words for c in words]
    late = "the very last collective was aborted by the shim"
    found = capsule(joined([*filler(1_000), *early, *filler(20_000), late, *filler(3_000)]))
    assert late in texts(found)


@settings(max_examples=25, deadline=None)
@given(
    data=st.lists(
        st.one_of(
            st.sampled_from([b"", b"step 1", b"error: x", XID.format(n=2).encode(), b"\xff\xfe\0"]),
            st.binary(max_size=60),
        ),
        max_size=60,
    ).map(b"\n".join),
    times=st.integers(1, 400),
    chunk=st.sampled_from([1, 7, 4096, 65_537]),
)
def test_what_is_kept_does_not_depend_on_how_reads_come(
    data: bytes, times: int, chunk: int
) -> None:
    whole = data * times
    if chunk < 100:
        whole = whole[:20_000]
    assert extracted(whole, chunk=chunk).capsule == extracted(whole).capsule


@settings(max_examples=40, deadline=None)
@given(
    data=st.binary(min_size=1, max_size=3_000),
    times=st.integers(1, 300),
    budget=st.sampled_from([4 << 10, 16 << 10, 256 << 10]),
)
def test_hostile_bytes_stay_within_the_budget_in_order_and_in_place(
    data: bytes, times: int, budget: int
) -> None:
    whole = data * times
    if whole[:2] in (b"\x1f\x8b", b"\xff\xfe", b"\xfe\xff") or whole[:4] == b"\x28\xb5\x2f\xfd":
        whole = b"x" + whole
    found = capsule(whole, budget=budget)
    places = [(offset, number) for run in found.runs for number, offset, _, _ in run]
    assert places == sorted(places)
    assert sum(min(length, 4096) + LINE_COST for run in found.runs for _, _, length, _ in run) <= (
        budget + found.kept * LINE_COST
    )
    assert found.size <= 2 * budget
    for run in found.runs:
        for _, offset, length, _ in run:
            assert 0 <= offset <= offset + length <= len(whole)
    assert msgspec.json.decode(msgspec.json.encode(found), type=CapsuleStream) == found


@pytest.mark.parametrize("data", [b"A" * (10 << 20), b"\0" * (1 << 20), b"\n" * (1 << 20)])
def test_one_endless_line_or_none_at_all_keeps_a_bounded_part(data: bytes) -> None:
    assert capsule(data).size <= BUDGET


def test_an_empty_stream_is_whole_and_empty() -> None:
    found = capsule(b"")
    assert (found.runs, found.is_whole) == ((), True)


def test_secrets_do_not_reach_a_capsule_not_even_cut_or_over_several_lines() -> None:
    body = ["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 3
    lines = filler(20_000)
    lines[3] = "password=hunter2head"
    lines[7_000] = XID.format(n=3) + " api_key=hunter2hit"
    lines[7_001] = "Authorization: Bearer hunter2context0hunter2"
    lines[8_000] = "y" * 8_190 + " error token=hunter2cut"
    # The tail begins inside of this one.
    lines[-6:] = [*body, "short==", "-----END PRIVATE KEY-----", "token=hunter2tail"]
    lines[8_500:8_505] = ["error -----BEGIN PRIVATE KEY-----", *body, "-----END PRIVATE KEY-----"]
    found = capsule(joined(lines))
    raw = msgspec.json.encode(found).decode()
    assert "hunter2" not in raw
    assert "MIIEvQ" not in raw
    assert "short==" not in raw
    assert MASK in raw
    assert any("Xid" in text for text in texts(found))


def test_a_run_ends_where_lines_are_missing_and_no_block_reaches_over() -> None:
    lines = filler(20_000)
    lines[6_000] = "Traceback (most recent call last):"
    for n in range(6_001, 6_040):
        lines[n] = f'  File "/srv/{n}.py", line 1, in call'
    lines[6_040] = "ValueError: far below what is kept"
    found = capsule(joined(lines))
    again = extract_capsule(found, context())
    (seen,) = [each for each in again.observations if each.symptom == "python_exception"]
    assert "truncated" in seen.flags
    assert seen.first.origin.line == 6_001


def test_other_rules_read_a_capsule_as_if_it_were_the_stream() -> None:
    lines = filler(20_000)
    lines[6_000] = XID.format(n=4)
    lines[-2] = "RefusedError: connection refused by 10.0.0.1"
    found = extracted(joined(lines))
    assert found.capsule is not None
    again = extract_capsule(found.capsule, context())
    first = {each.symptom: each.first.origin for each in found.observations}
    assert {each.symptom: each.first.origin for each in again.observations} == first
    assert again.summaries == found.summaries


def test_a_whole_capsule_gives_the_same_observations() -> None:
    block = ["Traceback (most recent call last):", '  File "/srv/a.py", line 1', "ValueError: bad"]
    data = joined([*filler(40), XID.format(n=5), *block, *filler(20)])
    found = extracted(data)
    assert found.capsule is not None
    assert extract_capsule(found.capsule, context()).observations == found.observations


def test_wrapped_lines_keep_the_place_they_came_from() -> None:
    records = [f'{{"log":"{line}\\\\n","stream":"stdout"}}' for line in filler(50)]
    records[20] = f'{{"log":"{XID.format(n=6)}\\\\n","stream":"stderr"}}'
    data = joined(records)
    found = extracted(data)
    assert found.capsule is not None
    again = extract_capsule(found.capsule, context())
    assert again.observations == found.observations
    (seen,) = again.observations
    assert seen.first.origin.line == 21
    assert data[seen.first.origin.byte_offset :].startswith(records[20].encode())


def test_facts_of_a_structured_source_are_kept_and_read_again() -> None:
    label = StreamLabel("sacct.txt", "scheduler", "platform")
    data = b"JobID|State|ExitCode\n1|NODE_FAIL|1:0\n"
    using = replace(context(), capsule_bytes=BUDGET)
    found = extract_stream(io.BytesIO(data).read, label, using)
    assert found.capsule is not None
    assert found.capsule.is_whole
    assert [each.text.split()[0] for each in found.capsule.facts] == ["slurm.job"]
    assert {each.symptom for each in found.observations} == {"node_failed"}
    assert extract_capsule(found.capsule, context()).observations == found.observations


def test_without_a_budget_nothing_is_kept() -> None:
    assert extracted(b"one\n", budget=0).capsule is None
    assert extracted(b"one\n", budget=4095).capsule is None
