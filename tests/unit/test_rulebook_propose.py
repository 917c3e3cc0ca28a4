"""Proposals: from a line to a rule that needs only meaning, source and a near miss."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rule_texts import rule

from engine.rulebook.cases import read_case_file
from engine.rulebook.check import check
from engine.rulebook.load import read_rule
from engine.rulebook.propose import generalised, message_of, propose


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Jan  1 00:10:00 node-7 kernel: NVRM: GPU lost", "NVRM: GPU lost"),
        ("[  812.123456] mlx5_core: health poll failed", "mlx5_core: health poll failed"),
        ("[rank3]:[E626 06:24:44.448988908 G.cpp:616] [Rank 1] Watchdog caught", "Watchdog caught"),
        ("2025-01-01 10:00:00,123 ERROR OSError: no space", "OSError: no space"),
        ("2025-01-01T10:00:00.5+02:00 12: INFO done", "done"),
        ("plain", "plain"),
    ],
)  # fmt: skip
def test_what_stands_before_the_message_is_left_out(line: str, message: str) -> None:
    assert message_of(line) == message


@pytest.mark.parametrize(
    ("body", "scan", "captures"),
    [
        ("took 12.5 s", r"took \d{1,20}\.\d{1,20} s", []),
        ("rank 3 of 8", r"rank (?P<rank>\d{1,6}) of \d{1,20}", ["rank"]),
        ("at 0000:c1:00.0: down", r"at (?P<pci>[0-9a-fA-F:.]{7,16}): down", ["pci"]),
        ("to 10.0.0.7:2379 (x)", r"to (?P<peer_addr>[\d.:]{7,21}) \(x\)", ["peer_addr"]),
        ("'/data/a b'", "'(?P<path>/[^ ]{1,200}) b'", ["path"]),
        ("[Errno 28] full", r"\[Errno 28\] full", []),
        ("mlx5 at 0xdeadbeef", "mlx5 at 0x[0-9a-fA-F]{1,16}", []),
        ("rank 3 rank 4", r"rank (?P<rank>\d{1,6}) rank \d{1,6}", ["rank"]),
    ],
)
def test_what_varies_is_generalised(body: str, scan: str, captures: list[str]) -> None:
    assert generalised(body) == (scan, captures)


def test_only_the_todos_are_left_to_fill_in() -> None:
    line = "Jan  1 00:10:00 node-7 kernel: xpu 0000:3b:00.0: it's 'gone' after 3 s"
    proposal = propose(line, rule_id="gpu/xpu_gone", domain="gpu")
    problems = check([rule(proposal.rule)])
    assert {problem.message for problem in problems} == {"a TODO is left; write what belongs here"}
    assert len(problems) == 2
    assert "sources: [syslog]" in proposal.rule


def test_the_proposed_cases_read() -> None:
    proposal = propose("a plain message", rule_id="gpu/xpu_gone", domain="gpu")
    cases, problems = read_case_file("gpu/xpu_gone.cases.yaml", proposal.cases.encode())
    assert (len(cases), problems) == (2, [])


def test_a_line_without_fixed_text_asks_for_some() -> None:
    proposal = propose("3 4 5", rule_id="gpu/xpu_gone", domain="gpu")
    assert "short_literal: 'TODO: add fixed text to scan" in proposal.rule


_PRINTABLE = st.characters(min_codepoint=32, max_codepoint=126)


@given(st.text(alphabet=_PRINTABLE, min_size=6).filter(lambda text: len(text.strip()) > 5))
def test_any_line_gives_a_rule_that_loads_and_matches_that_line(line: str) -> None:
    proposal = propose(line, rule_id="gpu/xpu_gone", domain="gpu")
    loaded, problems = read_rule("gpu/xpu_gone.yaml", proposal.rule.encode())
    assert problems == []
    assert loaded is not None
    wrong = [problem.message for problem in check([loaded])]
    assert [message for message in wrong if "TODO" not in message] == []
