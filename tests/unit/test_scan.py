"""The automaton: which signature ends where, with both engines."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.extract.scanner import build_scanner
from engine.rulebook.book import Rulebook, SignatureDef
from tests.unit.extract_fixtures import BOOK, SCANNERS, signature


def book_of(*signatures: SignatureDef) -> Rulebook:
    return Rulebook("1", "e", "r", signatures, {}, (), ())


def lines_hit(engine: str, data: bytes, source: str = "applog") -> set[tuple[int, int]]:
    hits = SCANNERS[engine].scan(data, len(data), source)  # type: ignore[arg-type]
    return {(data.rfind(b"\n", 0, end) + 1, index) for end, index in hits}


PIECES = st.lists(
    st.sampled_from(
        [b"socket refused by ", b"10.0.0.1", b"\n", b"Traceback (most recent call last)", b" ",
         b"NVRM: Xid (PCI:0000:3b:00): 79", b"x" * 40, b"invoked oom-killer", b"Root Cause:"]
    ), max_size=30,
).map(b"".join)  # fmt: skip


@settings(deadline=None)
@given(PIECES)
def test_hyperscan_and_re2_name_the_same_lines(data: bytes) -> None:
    assert lines_hit("hyperscan", data) == lines_hit("re2", data)


@settings(deadline=None)
@given(PIECES)
def test_hyperscan_names_the_lines_that_re_does(data: bytes) -> None:
    expected = set()
    start = 0
    for line in data.split(b"\n"):
        for item in BOOK.signatures:
            flags = re.IGNORECASE if item.ignore_case else 0
            if "applog" in item.sources and re.search(item.scan.encode(), line, flags):
                expected.add((start, item.index))
        start += len(line) + 1
    assert lines_hit("hyperscan", data) == expected


@pytest.mark.parametrize("engine", ["hyperscan", "re2"])
def test_a_match_never_crosses_a_line(engine: str) -> None:
    assert lines_hit(engine, b"socket refused by\n10.0.0.1\n") == set()


@pytest.mark.parametrize("engine", ["hyperscan", "re2"])
def test_case_is_ignored_only_where_the_signature_says_so(engine: str) -> None:
    data = b"SOCKET REFUSED BY a\nINVOKED OOM-KILLER\n"
    assert lines_hit(engine, data) == {(0, 8)}


@pytest.mark.parametrize("engine", ["hyperscan", "re2"])
def test_bytes_behind_the_end_are_not_scanned(engine: str) -> None:
    data = b"x invoked oom-killer\n"
    assert SCANNERS[engine].scan(data, 10, "applog") == []


@pytest.mark.parametrize("engine", ["hyperscan", "re2"])
def test_a_signature_of_another_source_is_silent(engine: str) -> None:
    data = b"slurm.job id=1 state=NODE_FAIL\n"
    assert lines_hit(engine, data, "applog") == set()
    assert lines_hit(engine, data, "scheduler") == {(0, 11)}


def test_re2_finds_every_line_of_a_buffer_larger_than_its_pieces() -> None:
    data = b"".join(b"y" * (n % 97) + b"\ninvoked oom-killer\n" for n in range(3000))
    assert lines_hit("re2", data) == lines_hit("hyperscan", data)


def test_lookaround_is_a_prefilter_for_hyperscan() -> None:
    book = book_of(signature(0, "a/b", "good line (?!not)", "s"), signature(1, "a/c", "plain", "s"))
    scanner = build_scanner(book, "hyperscan")
    data = b"a good line yes\nplain\n"
    assert {index for _, index in scanner.scan(data, len(data), "applog")} == {0, 1}
    assert scanner.problems == []


def test_a_signature_that_no_engine_compiles_is_reported_and_the_rest_works() -> None:
    book = book_of(signature(0, "a/b", "plain", "s"))
    broken = SignatureDef(**{**{name: getattr(book.signatures[0], name)
                                for name in SignatureDef.__slots__},
                             "index": 1, "rule": "a/broken", "scan": "(unclosed"})  # fmt: skip
    scanner = build_scanner(book_of(*book.signatures, broken), "hyperscan")
    assert [index for _, index in scanner.scan(b"plain\n", 6, "applog")] == [0]
    assert scanner.problems[0].startswith("a/broken/main: hyperscan refuses it")
