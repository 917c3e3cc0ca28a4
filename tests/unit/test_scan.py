"""The automaton: which signature ends where, with both engines."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

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


class MemoryShelf:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def take(self, name: str) -> bytes | None:
        return self.kept.get(name)

    def put(self, name: str, data: bytes) -> None:
        self.kept[name] = data


def hits_of(book: Rulebook, shelf: MemoryShelf, data: bytes) -> list[tuple[int, int]]:
    return build_scanner(book, "hyperscan", shelf=shelf).scan(data, len(data), "applog")


def test_a_database_from_the_shelf_finds_what_a_compiled_one_does() -> None:
    shelf, data = MemoryShelf(), b"socket refused by a\ninvoked oom-killer\n"
    compiled = hits_of(BOOK, shelf, data)
    assert len(shelf.kept) == 1
    assert hits_of(BOOK, shelf, data) == compiled != []


def test_a_database_from_the_shelf_keeps_what_was_refused_and_what_is_a_prefilter() -> None:
    book = book_of(signature(0, "a/b", "good line (?!not)", "s"), signature(1, "a/c", "plain", "s"))
    broken = replace(book.signatures[1], index=2, rule="a/broken", scan="(unclosed")
    shelf = MemoryShelf()
    told = []
    for _ in range(2):
        scanner = build_scanner(book_of(*book.signatures, broken), "hyperscan", shelf=shelf)
        scanner.prepare()
        told.append((scanner.problems, [scanner.decides(n, "applog") for n in range(2)]))
    assert told[0] == told[1]
    assert told[0][1] == [False, True]
    assert len(told[0][0]) == 1


def test_a_damaged_database_is_compiled_again() -> None:
    shelf, data = MemoryShelf(), b"invoked oom-killer\n"
    expected = hits_of(BOOK, shelf, data)
    shelf.kept = {name: kept[:-40] + bytes(40) for name, kept in shelf.kept.items()}
    assert hits_of(BOOK, shelf, data) == expected


def test_other_signatures_have_another_place_on_the_shelf() -> None:
    shelf = MemoryShelf()
    hits_of(book_of(signature(0, "a/b", "plain text", "s")), shelf, b"x")
    hits_of(book_of(signature(0, "a/b", "other text", "s")), shelf, b"x")
    assert len(shelf.kept) == 2


def test_threads_share_a_scanner() -> None:
    data = b"noise\ninvoked oom-killer\n" * 20_000
    scanner = build_scanner(BOOK, "hyperscan")
    expected = scanner.scan(data, len(data), "applog")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: scanner.scan(data, len(data), "applog"), range(12)))
    assert all(each == expected for each in found)
