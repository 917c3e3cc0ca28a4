"""The causal graph: windows to the microsecond, joins by every kind of key, extremes of a crowd."""

from dataclasses import replace

import pytest

from engine.correlate import (
    EXACT_CAUSES,
    LASTING_WINDOW_US,
    Correlator,
    Edge,
    Graph,
    cause_keys,
    effect_keys,
    fits,
)
from engine.entities import Subject
from engine.episodes import Episode
from engine.moments import CROSS_CLOCK_SLACK_US, OPEN_FUTURE, OPEN_PAST
from engine.names import NodeNames
from engine.rulebook.book import CauseDef
from tests.engine.cases import SECOND, cause, meaning, seen, workload

NAMES = NodeNames(workload())
RULE = cause(("fault",), ("error",), ("same_node",), low=2, high=10)


def happened(
    symptom: str, earliest: float, latest: float | None = None, *, clock: str = "n",
    number: int = 1, **subject,
) -> Episode:  # fmt: skip
    """An episode whose onset lies between these seconds, open where infinite."""
    latest = earliest if latest is None else latest
    episode = Episode(symptom, meaning(symptom, "host", "root", 2), Subject(number, **subject))
    episode.onset_earliest = OPEN_PAST if earliest == float("-inf") else int(earliest * SECOND)
    episode.onset_latest = OPEN_FUTURE if latest == float("inf") else int(latest * SECOND)
    episode.seen_first, episode.clock = episode.onset_earliest, clock
    return episode


def graph_of(*episodes: Episode, rule: CauseDef = RULE) -> Graph:
    return Correlator(list(episodes), (rule,), NAMES).build()


@pytest.mark.parametrize(
    ("cause_at", "effect_at", "holds"),
    [
        ((100, 100), (100, 100), True), ((100, 100), (99.999999, 99.999999), False),
        ((100, 100), (112, 112), True), ((100, 100), (112.000001, 112.000001), False),
        ((90, 100), (99, 99), True), ((100, 110), (115, 125), True),
        ((float("-inf"), 100), (100, 100), True), ((100, float("inf")), (90, 300), True),
        ((100, 100), (90, float("inf")), True), ((100, 100), (float("-inf"), 105), True),
        ((100, 100), (float("-inf"), 99.9), False), ((100, float("inf")), (90, 99.9), False),
        ((float("-inf"), 100), (112.1, 120), False), ((100, 100), (112.1, float("inf")), False),
    ],
)  # fmt: skip
def test_a_window_of_2_to_10_s_holds_to_the_microsecond_with_2_s_of_slack_on_one_clock(
    cause_at, effect_at, holds
):
    assert fits(happened("fault", *cause_at), happened("error", *effect_at), RULE) is holds


def test_across_clocks_the_window_is_wider_by_their_slack_and_no_more():
    slack = CROSS_CLOCK_SLACK_US / SECOND
    fault = happened("fault", 100, clock="a")
    for off, holds in ((2 - slack, True), (2 - slack - 1e-6, False),
                       (10 + slack, True), (10 + slack + 1e-6, False)):  # fmt: skip
        assert fits(fault, happened("error", 100 + off, clock="b"), RULE) is holds


def test_a_lasting_fault_passes_the_end_of_a_window_of_a_day_and_not_of_a_shorter_one():
    late = happened("error", 30 * 86400)
    for high_us, holds in ((LASTING_WINDOW_US, True), (LASTING_WINDOW_US - SECOND, False)):
        fault = happened("fault", 100)
        fault.is_lasting = True
        rule = cause(("fault",), ("error",), ("same_node",), high=high_us / SECOND)
        assert fits(fault, late, rule) is holds
    assert not fits(happened("fault", 100), late, cause(("fault",), ("error",), (), high=86400))


def test_a_cause_stands_above_its_effect_in_a_log_without_stamps_unless_the_rule_allows_more():
    above = happened("error", float("-inf"), float("inf"), rank=1)
    below = happened("fault", float("-inf"), float("inf"), rank=1)
    for episode, line in ((above, 3), (below, 9)):
        episode.observations.append(seen("x", line=line, uri="a.log"))
    ordered = cause(("fault",), ("error",), ("same_node",), low=0)
    loose = cause(("fault",), ("error",), ("same_node",), low=-1)
    assert not fits(below, above, ordered)
    assert fits(below, above, loose)
    assert fits(above, below, ordered)


def test_what_a_rule_requires_must_be_there_and_what_excludes_it_must_not():
    def linked(**more) -> bool:
        rule = cause(("fault",), ("error",), ("same_node",), **more)
        fault, error = happened("fault", 100, node="n1"), happened("error", 101, node="n1")
        return bool(graph_of(fault, error, rule=rule).parents[1])

    assert linked()
    assert linked(requires=("error",))
    assert not linked(requires=("error", "absent"))
    assert linked(unless=("absent",))
    assert not linked(unless=("absent", "error"))


def test_a_rule_without_a_cause_or_without_an_effect_in_the_case_is_passed_over():
    lone = happened("fault", 100, node="n1")
    assert graph_of(lone).not_evaluated == []
    assert graph_of(happened("error", 100, node="n1")).not_evaluated == []


def test_a_rule_that_is_not_stable_is_left_out_and_those_after_it_are_not():
    rules = (
        cause(("fault",), ("error",), ("same_node",), strength="contributing"),
        cause(("fault",), ("error",), ("same_node",)),
    )
    draft = replace(rules[0], status="experimental")
    fault, error = happened("fault", 100, node="n1"), happened("error", 101, node="n1")
    graph = Correlator([fault, error], (draft, rules[1]), NAMES).build()
    assert [edge.is_sufficient for edge in graph.parents[1]] == [True]


def test_an_effect_without_the_causes_key_does_not_end_the_search_for_others():
    rule = cause(("fault",), ("error",), ("named_peer",))
    fault = happened("fault", 100, node="node-002", ranks=(7,))
    error = happened("error", 101, node="node-001")
    error.pointers = {("peer_rank", "7"), ("peer_node", "node-009")}
    assert [edge.cause for edge in graph_of(fault, error, rule=rule).parents[1]] == [0]


def test_a_sufficient_edge_is_added_beside_a_contributing_one_and_never_twice():
    graph = Graph([happened("a", 1), happened("b", 2)], [[], []], [[], []])
    graph.add(Edge(0, 1, "weak", is_sufficient=False))
    graph.add(Edge(0, 1, "weak again", is_sufficient=False))
    assert graph.ancestors(1) == set()
    graph = Graph(graph.episodes, graph.parents, graph.children)
    graph.add(Edge(0, 1, "strong", is_sufficient=True))
    graph.add(Edge(0, 1, "strong again", is_sufficient=True))
    graph.add(Edge(0, 1, "late weak", is_sufficient=False))
    assert [edge.rule for edge in graph.parents[1]] == ["weak", "strong"]
    assert graph.ancestors(1) == {0}
    assert graph.descendants(0) == {1}


def test_edges_of_other_causes_do_not_keep_a_new_one_out():
    graph = Graph(
        [happened("a", 1), happened("b", 2), happened("c", 3)], [[], [], []], [[], [], []]
    )
    graph.add(Edge(0, 2, "r", is_sufficient=True))
    graph.add(Edge(1, 2, "r", is_sufficient=False))
    graph.add(Edge(2, 2, "r", is_sufficient=True))
    assert [edge.cause for edge in graph.parents[2]] == [0, 1]


def crowd(count: int) -> tuple[list[Episode], Episode]:
    """Faults a second apart on one node, and an error 3.5 s behind the middle of them."""
    faults = [happened("fault", number, node="n1", number=number) for number in range(count)]
    return faults, happened("error", count // 2 + 3.5, node="n1", number=count)


def test_up_to_sixteen_causes_on_one_key_are_all_compared():
    faults, error = crowd(EXACT_CAUSES)
    graph = graph_of(*faults, error, rule=cause(("fault",), ("error",), ("same_node",), high=5))
    # 0 to 5 s and 2 s of slack on one clock: those that are up to 6.5 s old, and 1.5 s younger
    assert sorted(edge.cause for edge in graph.parents[-1]) == list(range(5, 14))


@pytest.mark.parametrize(
    ("count", "clock", "found"),
    [(16, "m", list(range(16))), (17, "m", [0, 1, 15, 16]), (32, "m", [0, 1, 30, 31]),
     (60, "n", [0, 1]), (60, "m", [0, 1, 43, 44])],
)  # fmt: skip
def test_of_more_causes_the_two_earliest_and_the_two_nearest_stand_for_all(count, clock, found):
    faults, _ = crowd(count)
    error = happened("error", 31.5, node="n1", clock=clock, number=count)
    rule = cause(("fault",), ("error",), ("same_node",), low=2, high=100)
    # across clocks the nearest are those up to 15 s behind it, less the 2 s of the rule
    assert [edge.cause for edge in graph_of(*faults, error, rule=rule).parents[-1]] == found


def test_a_crowd_that_begins_behind_its_effect_has_only_its_earliest():
    faults = [happened("fault", 100 + n, node="n1", number=n) for n in range(20)]
    error = happened("error", 103, node="n1", number=20)
    graph = graph_of(*faults, error)
    assert [edge.cause for edge in graph.parents[-1]] == [0, 1]


def test_links_and_network_cards_are_joined_each_by_its_own_name():
    both = happened("x", 1, node="n1", link="mlx5_0/1", nic="mlx5_0")
    assert cause_keys(both, "same_link")[0] == ("d", "n1|mlx5_0/1")
    assert cause_keys(both, "same_nic")[0] == ("d", "n1|mlx5_0")
    assert effect_keys(both, "same_link", NAMES)[0] == ("d", "n1|mlx5_0/1")
    assert effect_keys(both, "same_nic", NAMES)[0] == ("d", "n1|mlx5_0")
    # a card has but one name: effects that name none do not look for it by "n?"
    assert ("n?", "n1") not in cause_keys(both, "same_nic")


def test_a_process_is_its_rank_or_else_its_pid_on_its_node():
    assert cause_keys(happened("x", 1, ranks=(3,), pid=7), "same_process") == (("r", "3"),)
    assert cause_keys(happened("x", 1, node="n1", pid=7), "same_process") == (("p", "n1|7"),)
    assert cause_keys(happened("x", 1, node="n1"), "same_process") == ()


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("node-002<47042>", "node-002"), ("node-002:29500", "node-002"), ("node-002", "node-002"),
        ("[::ffff:10.0.0.2]:29500", "10.0.0.2"), ("fe80::1<4<2>", "fe80::1"),
        ("fe80::1:2", "fe80::1:2"),
    ],
)  # fmt: skip
def test_a_named_peer_is_looked_for_without_port_marks(text, node):
    error = happened("error", 101, node="node-001")
    error.pointers = {("peer_addr", text)}
    assert effect_keys(error, "named_peer", NAMES) == (("n", node),)


def test_a_rule_that_raises_is_listed_with_a_message_that_is_cut():
    class Broken(NodeNames):
        def canonical(self, name: str) -> str:
            raise ValueError("x" * 1000)

    error = happened("error", 101, node="node-001")
    error.pointers = {("peer_node", "node-002")}
    rule = cause(("fault",), ("error",), ("named_peer",))
    fault = happened("fault", 100, node="node-002")
    ((name, message),) = (
        Correlator([fault, error], (rule,), Broken(workload())).build().not_evaluated
    )
    assert name == rule.rule
    assert message.startswith("ValueError: xxx")
    assert len(message) == 300
