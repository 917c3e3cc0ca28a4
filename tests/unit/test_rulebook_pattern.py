"""Scan expressions in automaton form: one report a line, never across lines, same meaning."""

import re

import hyperscan
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.rulebook.pattern import (
    automaton_form,
    has_variable_tail,
    nested_repeat,
    required_literal,
    rival_repeats,
    starts_with_repeat,
)


@pytest.mark.parametrize(
    ("scan", "form"),
    [
        (
            r"Xid \(PCI:(?P<pci>[0-9a-f:.]+)\): (?P<code>\d+)",
            r"Xid \(PCI:(?:[0-9a-f:.]+)\): (?:\d)",
        ),
        (r"out of memory.*", "out of memory"),
        (r"error: (?P<rest>.*)", "error: "),
        (r"lost (?:link|carrier)\s*", "lost (?:link|carrier)"),
        (r"failed \d{3,}", r"failed \d{3}"),
        (r"failed \d{3}", r"failed \d{3}"),
        (r"done(?: in \d+ms)?", "done"),
        (r"lost (?:a+|b(?:c|d*))", r"lost (?:a|b)"),
        (r"lost (?:a+|b*)", "lost "),
        (r"lost a+|gone b+", "lost a|gone b"),
        (r"lost (?:ab+)+", "lost (?:ab)"),
        (r"a[^)]+b", r"a[^)\n]+b"),
        (r"a[^)\n]+b", r"a[^)\n]+b"),
        (r"a\s+b", r"a[ \t\r\f\x0b]+b"),
        (r"a[\s,]+b", r"a[ \t\r\f\x0b,]+b"),
        (r"a\Db\Wc", r"a[^0-9\n]b[^0-9A-Za-z_\n]c"),
        (r"a[]x]+b", r"a[]x]+b"),
        (r"a\+", r"a\+"),
        (r"stop\.$", r"stop\.$"),
    ],
)
def test_the_form_that_the_automaton_gets(scan: str, form: str) -> None:
    assert automaton_form(scan) == form
    assert not has_variable_tail(form)


def test_a_variable_tail_inside_a_counted_group_cannot_be_cut() -> None:
    assert has_variable_tail(automaton_form(r"lost (?:a+){2}"))


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"NVRM: Xid \(PCI:", "NVRM: Xid (PCI:"),
        (r"(?:abc|abd) failed", " failed"),
        (r"(?:short|a longer text)x?", "short"),
        (r"(?:optional text)?kept", "kept"),
        (r"(?:once )+more", "once "),
        (r"a(?P<x>bcd)e", "abcde"),
    ],
)
def test_the_text_that_every_match_holds(pattern: str, literal: str) -> None:
    assert required_literal(pattern) == literal


def test_nested_unbounded_repeats_are_seen_through_groups() -> None:
    assert nested_repeat(r"(?:\w+\s?)*x")
    assert not nested_repeat(r"(?:\w+\s?){0,9}x")


@pytest.mark.parametrize(
    "pattern",
    [r"\d+\S*x", r"a.*b.*c", r"(?P<n>\d+)(?:\.\d+)?\d*", r"(?:a+|\w+)b*\w+", r"[^,]*?/job[^,]*,"],
)
def test_repeats_that_share_out_the_same_text_are_seen(pattern: str) -> None:
    assert rival_repeats(pattern)


@pytest.mark.parametrize(
    "pattern",
    [r"\d+ \S*x", r"\d{1,20}\S*x", r"(\d+),(\d+),(\S+) x", r"(?:\d+|[a-z]+)-x", r"\S+ .{0,200}x"],
)
def test_repeats_that_something_parts_are_fine(pattern: str) -> None:
    assert not rival_repeats(pattern)


@pytest.mark.parametrize("pattern", [r"\d+x", r"(?:Step)?\d+x", r"(?:ab|(?P<f>\S+)? ?cd)"])
def test_an_unbounded_start_is_seen(pattern: str) -> None:
    assert starts_with_repeat(pattern)


@pytest.mark.parametrize("pattern", [r"x\d+", r"^\d+x", r"(?:Step)?x\d+", r"\d{1,9}x"])
def test_a_start_with_something_fixed_is_fine(pattern: str) -> None:
    assert not starts_with_repeat(pattern)


_ATOMS = st.sampled_from(["a", "b", r"\d", r"\s", "[^a]", "[ab]", r"\w", ".", "c1"])
_QUANTIFIERS = st.sampled_from(["", "+", "*", "?", "{2}", "{1,}", "{0,2}"])
_PIECES = st.lists(st.tuples(_ATOMS, _QUANTIFIERS), min_size=1, max_size=4)


@given(_PIECES, _PIECES, st.text(alphabet="abc1 \t", max_size=12))
def test_cutting_the_tail_changes_no_answer_on_a_line(
    head: list[tuple[str, str]], tail: list[tuple[str, str]], line: str
) -> None:
    scan = "c" + "".join(a + q for a, q in head) + "(?P<t>" + "".join(a + q for a, q in tail) + ")"
    form = automaton_form(scan)
    assert not has_variable_tail(form)
    assert bool(re.search(form, line)) == bool(re.search(scan, line))


@given(_PIECES)
def test_the_form_never_matches_across_a_newline(pieces: list[tuple[str, str]]) -> None:
    form = automaton_form("c" + "".join(a + q for a, q in pieces) + "z")
    for text in ("c\nz", "ca\nz", "c1\nbz", "c \n z"):
        for match in re.finditer(form, text):
            assert "\n" not in match[0]


def test_the_form_reports_one_end_for_a_long_number() -> None:
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    form = automaton_form(r"failed with code (\d+)").encode()
    database.compile(expressions=[form], ids=[0], elements=1, flags=[0])
    ends: list[int] = []
    database.scan(b"failed with code 12345", match_event_handler=lambda *hit: ends.append(hit[2]))
    assert ends == [18]
