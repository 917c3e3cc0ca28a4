"""How the decider weighs: built graphs, one rule of the weighing at a time."""

from typing import Any

import pytest

from engine.anchor import Anchor
from engine.candidates import CAUSAL_WINDOW_US
from engine.correlate import Edge, Graph
from engine.decide import NEAR_US, Decider, Decision
from engine.entities import Subject
from engine.episodes import Episode
from engine.moments import OPEN_FUTURE, OPEN_PAST
from engine.normalise import Bounds
from engine.progress import Progress
from engine.terminal import Claim
from tests.engine.cases import MINUTE, at, meaning, seen

NO_STEPS = Progress(None, OPEN_PAST, OPEN_FUTURE, False, False, None, None, has_output=True)


def steps(last: float = 0, *, stalled: bool | None = None, proven: bool = False) -> Progress:
    """Steps up to a minute."""
    return Progress(9, at(last), at(last), True, True, stalled, None, True, proven)


def undated_steps(line: int) -> Progress:
    """Steps without a time, the last of them on a line of `a.log` (a hundred bytes each)."""
    ends = {"a.log": line * 100}
    return Progress(9, OPEN_PAST, OPEN_FUTURE, False, True, None, None, has_output=True, ends=ends)


def ep(
    symptom: str, minute: float | None = 30, *, domain: str = "gpu", role: str = "root",
    tier: int = 2, trust: str = "node", line: int | None = None, until: float | None = None,
    node: str = "", rank: int | None = None, **means: Any,
) -> Episode:  # fmt: skip
    """An episode that begins at a minute (unknown where None), on one clock."""
    ranks = () if rank is None else (rank,)
    episode = Episode(
        symptom, meaning(symptom, domain, role, tier, **means),
        Subject(1, node=node, rank=rank, ranks=ranks), trust=trust, clock="n",  # type: ignore[arg-type]
    )  # fmt: skip
    observed = seen(symptom, minute, line=line or 1, uri="a.log" if line else f"{symptom}.log")
    episode.observations.append(observed)
    if minute is None:
        episode.onset_earliest = episode.seen_first = OPEN_PAST
        episode.onset_latest = episode.seen_last = OPEN_FUTURE
    else:
        episode.onset_earliest = episode.onset_latest = at(minute)
        episode.seen_first, episode.seen_last = at(minute), at(minute if until is None else until)
    return episode


def stop(terminal: str = "timeout", minute: float = 60, **more: Any) -> Episode:
    """A recorded stop of the job."""
    domain = "operator" if terminal == "cancelled" else "scheduler"
    return ep(f"slurm_{terminal}", minute, domain=domain, tier=0, trust="platform",
              terminal=terminal, manifestation="stopped_by_policy", **more)  # fmt: skip


def decided(
    *episodes: Episode, edges: tuple[tuple[Episode, Episode], ...] = (), state: str = "failed",
    first: tuple[int, ...] = (), failed: tuple[int, ...] = (), exited: Episode | None = None,
    ended: Episode | None = None, progress: Progress = NO_STEPS, signal: str | None = None,
) -> Decision:  # fmt: skip
    listed = list(episodes)
    graph = Graph(listed, [[] for _ in listed], [[] for _ in listed])
    for one, other in edges:
        graph.add(Edge(listed.index(one), listed.index(other), "test", is_sufficient=True))
    lines = [] if ended is None else [ended]
    anchor = Anchor(first, failed, exited, [], lines)
    claim = Claim(state, "", state, "", None, None)
    bounds = Bounds(at(0), at(60))
    return Decider(graph, anchor, claim, progress, bounds=bounds, signal=signal).decide()


def symptoms(decision: Decision) -> list[str]:
    return sorted(cause.symptom for cause in decision.causes)


# --- faults before a stop -------------------------------------------------------------------


def test_a_linked_fault_surely_before_an_eviction_outranks_it_and_an_unlinked_one_does_not():
    fault, end = ep("lost", 50, node="n1"), stop("evicted")
    hit = ep("broke", 51, role="secondary", tier=6, trust="workload", rank=1)
    assert symptoms(decided(fault, end, hit, edges=((fault, hit),), state="evicted")) == ["lost"]
    assert symptoms(decided(fault, end, hit, state="evicted")) == [end.symptom]


def test_an_error_of_the_program_never_outranks_an_eviction_and_a_fault_of_tier_two_does():
    end = stop("preempted")
    error = ep("raised", 50, domain="application", tier=3, trust="workload", rank=1)
    full = ep("full", 50, domain="storage", tier=2, trust="workload", rank=1)
    assert symptoms(decided(error, end, state="preempted")) == [end.symptom]
    assert symptoms(decided(full, end, state="preempted")) == ["full"]


def test_a_fault_that_may_have_come_after_an_eviction_does_not_outrank_it():
    end = stop("evicted")
    late = ep("full", 60, domain="storage", trust="workload", rank=1)
    assert symptoms(decided(late, end, state="evicted")) == [end.symptom]


def test_a_fault_surely_after_the_stop_is_no_reason_for_it():
    end = stop("cancelled", 40)
    late = ep("full", 50, domain="storage", trust="workload", rank=1)
    assert symptoms(decided(late, end, state="cancelled")) == [end.symptom]


def test_a_fault_before_a_cancel_outranks_it_only_where_it_is_tied_to_the_job():
    end = stop("cancelled")
    tied = ep("full", 50, domain="storage", trust="workload", rank=1)
    beside = ep("hot", 50, tier=2, trust="node", node="n1")
    assert symptoms(decided(tied, end, state="cancelled")) == ["full"]
    assert symptoms(decided(beside, end, state="cancelled")) == [end.symptom]


def test_before_a_bare_state_word_a_tied_fault_or_a_sure_order_is_enough():
    word = ep("sched_cancelled", 60, domain="operator", tier=0, trust="platform",
              terminal="cancelled", manifestation="stopped_by_policy")  # fmt: skip
    undated = ep("full", None, domain="storage", trust="workload", rank=1)
    assert symptoms(decided(undated, word, state="cancelled")) == ["full"]
    before = ep("hot", 50, tier=1, role="root", trust="node", node="n1")
    assert symptoms(decided(before, word, state="cancelled")) == ["hot"]
    unknown = ep("hot", None, tier=1, role="root", trust="node", node="n1")
    assert symptoms(decided(unknown, word, state="cancelled")) == ["sched_cancelled"]


def test_slowness_outranks_a_time_limit_and_no_other_stop():
    slow = ep("slow", 50, manifestation="slow", trust="node", node="n1")
    assert symptoms(decided(slow, stop("timeout"), state="timeout")) == ["slow"]
    end = stop("cancelled")
    assert symptoms(decided(slow, end, state="cancelled")) == [end.symptom]


def test_before_a_time_limit_a_fault_counts_after_a_stall_an_exit_or_without_steps():
    end = stop("timeout")
    fault = ep("full", 50, domain="storage", trust="workload", rank=1)
    assert symptoms(decided(fault, end, state="timeout")) == ["full"]
    going = steps(50)
    assert symptoms(decided(fault, end, state="timeout", progress=going)) == [end.symptom]
    assert symptoms(decided(fault, end, state="timeout", progress=going, first=(1,))) == ["full"]
    halted = steps(40, stalled=True)
    assert symptoms(decided(fault, end, state="timeout", progress=halted)) == ["full"]


def test_an_undated_fault_is_before_a_time_limit_only_above_the_line_that_ended_the_step():
    end = stop("timeout")
    line = ep("slurm_step_ended", 60, role="marker", tier=7, line=90)
    above = ep("full", None, domain="storage", trust="workload", rank=1, line=10)
    below = ep("full", None, domain="storage", trust="workload", rank=1, line=99)
    assert symptoms(decided(above, end, line, state="timeout", ended=line)) == ["full"]
    assert symptoms(decided(below, end, line, state="timeout", ended=line)) == [end.symptom]


def ambiguous(minute: float | None = 50, **more: Any) -> Episode:
    return ep("unclear", minute, role="ambiguous", tier=4, trust="workload", rank=1,
              domain="network", **more)  # fmt: skip


def test_an_ambiguous_error_is_what_a_stop_looks_like_unless_the_job_had_stalled_before():
    end = stop("timeout")
    error = ambiguous()
    going = steps(59)
    assert symptoms(decided(error, end, state="timeout", progress=going)) == [end.symptom]
    halted = steps(10, stalled=True)
    assert symptoms(decided(error, end, state="timeout", progress=halted)) == ["unclear"]
    undated = ambiguous(None)
    assert symptoms(decided(undated, end, state="timeout", progress=halted)) == [end.symptom]


def test_where_no_step_was_ever_seen_an_error_and_the_limit_are_rivals():
    end = stop("timeout")
    decision = decided(ambiguous(), end, state="timeout", first=(1,))
    assert symptoms(decision) == sorted([end.symptom, "unclear"])
    assert (decision.terminal, decision.is_ambiguous) == ("timeout", True)
    weak = ep("unclear", 50, role="ambiguous", tier=5, trust="workload", domain="network", rank=1)
    assert len(decided(weak, end, state="timeout").causes) == 2
    stopped = decided(ambiguous(), end, state="cancelled")
    assert (stopped.terminal, symptoms(stopped)) == ("timeout", sorted([end.symptom, "unclear"]))
    other = ep("stopped", 50, role="ambiguous", tier=4, trust="workload", rank=1, domain="unknown")
    assert symptoms(decided(other, end, state="timeout")) == [end.symptom]


def test_where_steps_carry_no_time_an_error_below_the_last_one_is_the_limits_rival():
    end = stop("timeout")
    undated = undated_steps(50)
    below = ep("unclear", None, role="ambiguous", tier=4, trust="workload", domain="network",
               rank=1, line=99)  # fmt: skip
    above = ep("unclear", None, role="ambiguous", tier=4, trust="workload", domain="network",
               rank=1, line=10)  # fmt: skip
    assert symptoms(decided(below, end, state="timeout", progress=undated)) == sorted(
        [end.symptom, "unclear"]
    )
    assert symptoms(decided(above, end, state="timeout", progress=undated)) == [end.symptom]


def test_a_link_that_came_back_counts_only_where_something_failed_of_it():
    down = ep("nic_link_down", 40, domain="network", tier=1, node="n1")
    up = ep("nic_link_up", 40.1, domain="network", role="marker", tier=6, node="n1")
    elsewhere = ep("nic_link_up", 40.1, domain="network", role="marker", tier=6, node="n2")
    waited = ep("broke", 41, role="secondary", tier=6, trust="workload", rank=1)
    assert symptoms(decided(down, up)) == []
    assert symptoms(decided(down, elsewhere)) == ["nic_link_down"]
    tied = decided(down, up, waited, edges=((down, waited),))
    assert symptoms(tied) == ["nic_link_down"]


def test_a_device_that_broke_for_good_is_why_a_job_without_dated_steps_ran_into_its_limit():
    end = stop("timeout", 600)
    lost = ep("hot", 50, role="root", tier=1, trust="node", node="n1")
    undated = undated_steps(50)
    assert symptoms(decided(lost, end, state="timeout", progress=undated)) == ["hot"]
    dated = steps(599)
    assert symptoms(decided(lost, end, state="timeout", progress=dated)) == [end.symptom]


def test_an_unlinked_device_fault_is_as_weak_before_a_limit_as_an_ambiguous_error():
    beside = ep("hot", 50, tier=1, trust="node", node="n1")  # tier 3.5 where nothing ties it
    end = stop("timeout")
    assert symptoms(decided(beside, end, state="timeout", first=(1,))) == ["hot"]


def broken(line: int, role: str = "root") -> Episode:
    return ep("unclear", None, role=role, tier=4, trust="workload", domain="network", rank=1,
              line=line)  # fmt: skip


@pytest.mark.parametrize(
    ("terminal", "line", "suffered", "role", "outranks"),
    [
        ("cancelled", 10, True, "root", True), ("cancelled", 10, False, "root", False),
        ("cancelled", 99, True, "root", False), ("cancelled", 10, True, "ambiguous", False),
        ("timeout", 10, True, "root", False),
    ],
)  # fmt: skip
def test_a_fault_above_the_line_of_a_cancel_counts_where_peers_had_suffered_from_it(
    terminal, line, suffered, role, outranks
):
    fault, end = broken(line, role), stop(terminal)
    peer = ep("peer", None, role="secondary", tier=6, trust="workload", rank=2)
    mark = ep("slurm_step_ended", None, role="marker", tier=7, line=50)
    edges = ((fault, peer),) if suffered else ()
    found = decided(fault, peer, end, mark, edges=edges, state=terminal, ended=mark,
                    progress=steps(60))  # fmt: skip
    assert symptoms(found) == (["unclear"] if outranks else [end.symptom])


def test_of_a_fault_on_two_ranks_before_a_cancel_both_stand_above_the_line_and_one_was_felt():
    end = stop("cancelled")
    mark = ep("slurm_step_ended", None, role="marker", tier=7, line=50)
    peer = ep("peer", None, role="secondary", tier=6, trust="workload", rank=3)
    above, second, below = broken(10), broken(12), broken(99)

    def told(*faults: Episode) -> list[str]:
        return symptoms(decided(*faults, peer, end, mark, edges=((faults[0], peer),),
                                state="cancelled", ended=mark, progress=steps(60)))  # fmt: skip

    assert told(above, second) == ["unclear"]
    assert told(above, below) == [end.symptom]


# --- a stop that hides a hang ---------------------------------------------------------------


def waiting(minute: float | None = 30, **more: Any) -> Episode:
    return ep("watchdog", minute, role="secondary", tier=6, trust="workload", rank=1,
              domain="unknown", tags=("collective_failure",), **more)  # fmt: skip


def test_ranks_that_waited_surely_before_a_limit_leave_the_cause_open_unless_steps_went_on():
    end = stop("timeout")
    hidden = decided(waiting(), end, state="timeout")
    assert (hidden.causes, hidden.domain, hidden.manifestation) == ([], "unknown", "hang")
    assert hidden.failure_class == "collective_timeout_unexplained"
    assert symptoms(decided(waiting(), end, state="timeout", progress=steps(30))) == []
    assert symptoms(decided(waiting(), end, state="timeout", progress=steps(31))) == [end.symptom]


def test_reports_at_the_very_end_or_without_a_time_hide_no_hang():
    end = stop("timeout")
    late = waiting(60)
    assert symptoms(decided(late, end, state="timeout", progress=steps(20))) == [end.symptom]
    undated = waiting(None)
    assert symptoms(decided(undated, end, state="timeout", progress=steps(20))) == [end.symptom]


def test_reports_above_the_line_that_ended_the_step_hide_a_hang_where_no_steps_are_logged():
    end = stop("cancelled")
    line = ep("slurm_step_ended", None, role="marker", tier=7, line=50)
    above, below = waiting(None, line=10), waiting(None, line=90)
    assert symptoms(decided(above, end, line, state="cancelled", ended=line)) == []
    assert symptoms(decided(below, end, line, state="cancelled", ended=line)) == [end.symptom]
    kept = decided(above, end, line, state="cancelled", ended=line, progress=steps(50))
    assert symptoms(kept) == [end.symptom]


def test_a_proven_stall_hides_behind_a_limit_or_a_cancel_and_not_behind_a_preemption():
    halted = steps(10, stalled=True, proven=True)
    for terminal in ("timeout", "cancelled"):
        assert symptoms(decided(stop(terminal), state=terminal, progress=halted)) == []
    end = stop("preempted")
    assert symptoms(decided(end, state="preempted", progress=halted)) == [end.symptom]


# --- later than an explicit error -----------------------------------------------------------


def raised(minute: float = 30, **more: Any) -> Episode:
    more = {"domain": "application", "tier": 3, "trust": "workload", "rank": 1, **more}
    return ep("raised", minute, **more)


def lost(minute: float, **more: Any) -> Episode:
    return ep("lost", minute, **{"tier": 1, "node": "n1", "trust": "node", **more})


def test_what_surely_began_after_an_explicit_error_is_no_cause_of_it():
    late = lost(31)
    hit = ep("hit", 32, role="secondary", tier=6, trust="workload", rank=2)
    edges = ((late, hit),)
    assert symptoms(decided(raised(30), late, hit, edges=edges, first=(1,))) == ["raised"]
    assert symptoms(decided(raised(31), late, hit, edges=edges, first=(1,))) == ["lost"]


def test_only_an_explicit_error_goes_before_a_later_fault():
    late = lost(31)
    hit = ep("hit", 32, role="secondary", tier=6, trust="workload", rank=2)
    found = decided(raised(30, tier=4), late, hit, edges=((late, hit),), first=(1,))
    assert symptoms(found) == ["lost"]


def test_an_error_less_tied_than_the_later_fault_does_not_go_before_it():
    late = lost(31)
    hit = ep("hit", 32, role="secondary", tier=6, trust="workload", rank=2)
    found = decided(raised(30), late, hit, edges=((late, hit),), first=(2,))
    assert symptoms(found) == ["lost"]
    equal = decided(raised(30), late, hit, edges=((late, hit),))
    assert symptoms(equal) == ["raised"]


def test_an_error_that_explains_nothing_goes_before_faults_of_the_next_minutes_only():
    hit = ep("hit", 55, role="secondary", tier=6, trust="workload", rank=2)
    for gap, first in ((NEAR_US, True), (NEAR_US + 1, False)):
        late = lost(20 + gap / MINUTE)
        found = decided(raised(20), late, hit, edges=((late, hit),))
        assert symptoms(found) == (["raised"] if first else ["lost"])


def test_an_error_that_explains_something_goes_before_faults_of_the_whole_tail():
    peer = ep("peer", 16, role="secondary", tier=6, trust="workload", rank=3)
    hit = ep("hit", 57, role="secondary", tier=6, trust="workload", rank=2)
    for gap, first in ((CAUSAL_WINDOW_US, True), (CAUSAL_WINDOW_US + 1, False)):
        error, late = raised(15), lost(15 + gap / MINUTE)
        found = decided(error, peer, late, hit, edges=((error, peer), (late, hit)))
        assert symptoms(found) == (["raised"] if first else ["lost"])


def test_a_fault_that_was_also_there_before_the_error_is_not_later():
    early, late = lost(29), lost(31, node="n2")
    hits = [ep("hit", 32, role="secondary", tier=6, trust="workload", rank=n) for n in (2, 3)]
    found = decided(raised(30), early, late, *hits, edges=((early, hits[0]), (late, hits[1])))
    assert symptoms(found) == ["lost"]
    assert len(found.causes[0].episodes) == 2


def test_an_error_on_two_ranks_goes_before_a_later_fault_if_one_of_them_explains_something():
    errors = [raised(15), raised(15, rank=4)]
    late = lost(30)
    peer = ep("peer", 16, role="secondary", tier=6, trust="workload", rank=3)
    hit = ep("hit", 31, role="secondary", tier=6, trust="workload", rank=2)
    edges = ((errors[0], peer), (late, hit))
    assert symptoms(decided(*errors, peer, late, hit, edges=edges)) == ["raised"]


def test_an_error_of_the_rank_that_failed_first_goes_before_faults_of_the_whole_tail():
    late = lost(30)
    hit = ep("hit", 31, role="secondary", tier=6, trust="workload", rank=2)
    found = decided(raised(15), late, hit, edges=((late, hit),), first=(1,))
    assert symptoms(found) == ["raised"]


def test_a_later_word_of_the_node_in_the_same_tier_is_not_out_of_time():
    told = raised(30, domain="framework")
    own = ep("own", 31, domain="framework", tier=3, trust="platform", rank=1)
    own.observations[0] = seen("own", 31, source="scheduler")
    assert symptoms(decided(told, own)) == ["own"]


# --- rivals ---------------------------------------------------------------------------------


def undated(symptom: str, **more: Any) -> Episode:
    return ep(symptom, None, **{"trust": "workload", "tier": 3, "domain": "application", **more})


def test_of_explicit_errors_the_better_tied_one_is_the_cause():
    assert symptoms(decided(undated("a", rank=1), undated("b", rank=2), first=(2,))) == ["b"]


def test_of_explicit_errors_the_better_tied_one_goes_before_the_earlier_one():
    one, other = raised(30), ep("b", 31, domain="data", tier=3, trust="workload", rank=2)
    assert symptoms(decided(one, other, first=(2,))) == ["b"]


def test_of_physical_faults_the_earlier_one_goes_before_the_better_tied_one():
    one, other = lost(30), ep("b", 31, domain="pcie", tier=1, node="n2")
    hits = [ep("hit", 32, role="secondary", tier=6, trust="workload", rank=n) for n in (1, 2)]
    edges = ((one, hits[0]), (other, hits[1]))
    assert symptoms(decided(one, other, *hits, edges=edges, first=(2,))) == ["lost"]


def test_of_equal_errors_in_two_domains_none_is_chosen_and_the_domain_stays_open():
    found = decided(undated("a", rank=1), undated("b", rank=2, domain="data"))
    assert symptoms(found) == ["a", "b"]
    assert (found.is_ambiguous, found.domain) == (True, "unknown")
    assert found.failure_class == "ambiguous_causes"
    assert found.primary is None


def test_of_equal_errors_in_one_domain_none_is_chosen_but_the_domain_stands():
    found = decided(undated("a", rank=1), undated("b", rank=2))
    assert (symptoms(found), found.domain) == (["a", "b"], "application")


def test_of_rivals_in_one_domain_the_node_speaks_for_itself():
    told, own = undated("a", rank=1, tier=2, domain="host"), ep("b", None, domain="host", rank=2)
    own.observations[0] = seen("b", source="scheduler")
    assert symptoms(decided(told, own)) == ["b"]
    other = ep("b", None, domain="storage", rank=2)
    other.observations[0] = seen("b", source="scheduler")
    assert symptoms(decided(told, other)) == ["a", "b"]


def test_of_rivals_the_one_surely_before_all_others_is_the_cause():
    kinds = {"domain": "storage", "tier": 2, "trust": "workload"}
    a, b = ep("a", 30, rank=1, **kinds), ep("b", 40, rank=2, **kinds)
    c = ep("c", 40, rank=3, **kinds)
    assert symptoms(decided(a, b, c)) == ["a"]
    assert symptoms(decided(b, c)) == ["b", "c"]
    # nobody is before the undated one, but what is surely later than another is out
    assert symptoms(decided(a, b, ep("d", None, rank=4, **kinds))) == ["a", "d"]


def test_of_rivals_a_root_goes_before_a_lean_root():
    assert symptoms(decided(undated("a", role="lean_root"), undated("b"))) == ["b"]


def test_of_rivals_the_one_that_more_failed_ranks_suffered_from_is_the_cause():
    a, b = undated("a", domain="storage", tier=2), undated("b", domain="data", tier=2)
    hits = [ep("hit", None, role="secondary", tier=6, trust="workload", rank=n) for n in range(4)]
    edges = ((a, hits[0]), (a, hits[1]), (a, hits[2]), (b, hits[3]))
    assert symptoms(decided(a, b, *hits, edges=edges)) == ["a"]
    assert symptoms(decided(a, b, *hits, edges=edges, failed=(2, 3))) == ["a", "b"]
    assert symptoms(decided(a, b, *hits, edges=edges, failed=(3,))) == ["b"]


def test_two_symptoms_of_one_domain_on_one_subject_are_one_cause():
    found = decided(undated("a", rank=1), undated("b", rank=1))
    assert symptoms(found) == ["a"]
    assert not found.is_ambiguous
    apart = decided(undated("a", rank=1), undated("b", rank=1, domain="data"))
    assert symptoms(apart) == ["a", "b"]


def test_the_lower_tier_wins_over_a_better_tied_error():
    fault = ep("full", None, domain="storage", tier=2, trust="workload", rank=2)
    assert symptoms(decided(fault, undated("raised", rank=1), first=(1,))) == ["full"]


def test_physical_faults_of_one_tier_are_not_weighed_by_their_ties():
    one, other = ep("a", None, tier=1, node="n1"), ep("b", None, tier=1, node="n2", domain="pcie")
    hit = ep("hit", None, role="secondary", tier=6, trust="workload", rank=1)
    hurt = ep("hurt", None, role="secondary", tier=6, trust="workload", rank=2)
    edges = ((one, hit), (other, hurt))
    assert symptoms(decided(one, other, hit, hurt, edges=edges, first=(1,))) == ["a"]


# --- what else is told ----------------------------------------------------------------------


def test_what_is_tied_contributes_and_what_is_beside_coincides():
    chosen, tied = raised(30), ep("slip", 40, domain="data", tier=4, trust="workload", rank=2)
    beside = ep("hot", 50, tier=1, node="n3")
    found = decided(chosen, tied, beside, first=(1,))
    assert symptoms(found) == ["raised"]
    assert [e.symptom for e in found.contributing] == ["slip"]
    assert [e.symptom for e in found.coincident] == ["hot"]


def test_of_a_cause_on_several_subjects_all_count_as_used():
    both = [undated("a", rank=1), undated("a", rank=2)]
    other = ep("slip", None, domain="data", tier=4, trust="workload", rank=3)
    found = decided(*both, other)
    assert [e.symptom for e in found.contributing] == ["slip"]


def test_a_located_rank_is_a_suspect_with_an_open_cause_and_a_fault_beside_it_is_none():
    located = ep("rank_lagging", None, domain="unknown", role="ambiguous", tier=6, rank=2,
                 trust="workload", alone="ambiguous", manifestation="hang")  # fmt: skip
    found = decided(located, waiting())
    assert (found.is_ambiguous, found.domain) == (True, "unknown")
    assert found.failure_class == "collective_timeout_unexplained"
    assert found.primary is None
    rival = ep("slip", None, domain="unknown", role="ambiguous", tier=6, rank=3, trust="workload")
    assert decided(located, rival).failure_class == "ambiguous_causes"


def test_a_crash_is_a_hang_where_ranks_waited_and_nobody_exited_first():
    fault = ep("full", 20, domain="storage", trust="workload", rank=2)
    assert decided(fault, waiting()).manifestation == "hang"
    assert decided(fault, waiting(), first=(2,)).manifestation == "crash"
    assert decided(fault).manifestation == "crash"
    slow = ep("full", 20, domain="storage", trust="workload", rank=2, manifestation="slow")
    assert decided(slow, waiting(), state="timeout").manifestation == "slow"


@pytest.mark.parametrize(
    ("state", "terminal", "tier", "trust", "told"),
    [
        ("unknown", "out_of_memory", 2, "workload", "out_of_memory"),
        ("failed", "out_of_memory", 2, "workload", "out_of_memory"),
        ("failed", "cancelled", 0, "platform", "cancelled"),
        ("failed", "cancelled", 0, "node", "failed"),
        ("failed", "completed", 2, "platform", "failed"),
        ("cancelled", "preempted", 0, "platform", "preempted"),
        ("evicted", "node_fail", 0, "platform", "node_fail"),
        ("cancelled", "preempted", 0, "node", "cancelled"),
        ("evicted", "node_fail", 2, "platform", "evicted"),
        ("timeout", "preempted", 0, "platform", "timeout"),
        ("unknown", None, 2, "workload", "failed"), ("failed", None, 2, "workload", "failed"),
    ],
)  # fmt: skip
def test_a_record_refines_what_the_scheduler_left_open(state, terminal, tier, trust, told):
    cause = ep("record", 50, domain="host", tier=tier, trust=trust, terminal=terminal, rank=1)
    assert decided(cause, state=state, first=(1,)).terminal == told


def test_a_running_job_is_hung_where_a_hang_shows_or_is_reported():
    fault = ep("full", 20, domain="storage", trust="workload", rank=2)
    assert decided(fault, state="running").terminal == "running"
    assert decided(fault, waiting(), state="running").terminal == "hung"
    assert decided(fault, state="running", signal="hang").terminal == "hung"
    assert decided(fault, state="running", signal="crash").terminal == "running"


def test_a_job_of_unknown_end_is_completed_only_where_it_says_so_and_nothing_failed():
    done = ep("mark_training_finished", 59, domain="none", role="marker", tier=7)
    other = ep("mark_other", 59, domain="none", role="marker", tier=7)
    assert decided(other, done, state="unknown").terminal == "completed"
    found = decided(done, state="unknown")
    assert (found.terminal, found.domain, found.failure_class) == (
        "completed",
        "none",
        "no_failure",
    )
    assert decided(other, state="unknown").terminal == "unknown"
    assert decided(done, state="failed").terminal == "failed"
    assert decided(done, waiting(), state="unknown").terminal == "failed"
    exited = ep("rank_exit", 59, role="confirm", tier=6, domain="unknown", rank=1)
    assert decided(done, exited, state="unknown", exited=exited).domain == "unknown"


@pytest.mark.parametrize("role", ["secondary", "root", "lean_root", "ambiguous"])
def test_an_unknown_end_with_signs_of_failure_is_a_failure(role):
    sign = ep("sign", 50, domain="unknown", role=role, tier=6, alone="insufficient", rank=1,
              trust="workload")  # fmt: skip
    assert decided(sign, state="unknown").terminal == "failed"


def test_without_a_cause_the_manifestation_follows_waits_then_exits_then_a_stall():
    assert decided(waiting(), failed=(1,)).manifestation == "hang"
    assert decided(failed=(1,)).manifestation == "crash"
    exited = ep("rank_exit", 59, role="confirm", tier=6, domain="unknown", rank=1)
    assert decided(exited, exited=exited).manifestation == "crash"
    assert decided().manifestation == "unknown"
    halted = steps(10, stalled=True)
    assert decided(state="timeout", progress=halted).manifestation == "hang"
    assert decided(state="timeout", progress=steps(50)).manifestation == "unknown"
    assert decided(state="failed", progress=halted).manifestation == "unknown"


def test_a_stall_alone_is_unexplained_and_a_wait_is_an_unexplained_collective():
    stalled = ep("progress_stopped", 30, domain="unknown", role="secondary", tier=6,
                 tags=("progress_stall",))  # fmt: skip
    assert decided(stalled).failure_class == "unexplained_failure"
    assert decided(stalled, waiting()).failure_class == "collective_timeout_unexplained"


# --- faults inside and outside of machines --------------------------------------------------


def with_twin(*, is_tied: bool = True, wide_us: int = 0, **more: Any) -> list[str]:
    """A lost device at minute 30 on n1, a cut cable (or what `more` says) elsewhere."""
    told = {"minute": 30.0, "domain": "network", "tier": 2, "node": "n2", "trust": "node", **more}
    device = ep("lost", 30, tier=1, node="n1")
    cable = ep("cut", told.pop("minute"), **told)
    cable.onset_latest += wide_us
    hits = [ep("hit", 31, role="secondary", tier=6, trust="workload", rank=n) for n in (1, 2)]
    edges = ((device, hits[0]), (cable, hits[1])) if is_tied else ((device, hits[0]),)
    return symptoms(decided(device, cable, *hits, edges=edges))


def test_faults_inside_and_outside_of_machines_in_the_same_seconds_are_rivals():
    assert with_twin() == ["cut", "lost"]
    assert with_twin(domain="storage", tier=4) == ["cut", "lost"]
    assert with_twin(role="lean_root", trust="platform") == ["cut", "lost"]
    assert with_twin(wide_us=10_000_000) == ["cut", "lost"]


@pytest.mark.parametrize(
    "more",
    [
        {"node": "n1"}, {"node": ""}, {"domain": "pcie"}, {"domain": "nvlink"}, {"minute": 31.0},
        {"minute": 29.0}, {"is_tied": False}, {"accuses": False}, {"role": "ambiguous"},
        {"tier": 5}, {"trust": "workload"}, {"wide_us": 10_000_001},
    ],
    ids=str,
)  # fmt: skip
def test_other_faults_beside_a_lost_device_are_no_rivals_of_it(more):
    assert len(with_twin(**more)) == 1


def test_rivals_inside_of_machines_are_joined_by_no_fault_outside():
    devices = [ep("lost", 30, tier=1, node="n1"), ep("burst", 30, tier=1, node="n3")]
    cable = ep("cut", 30, domain="network", tier=2, node="n2")
    hits = [ep("hit", 31, role="secondary", tier=6, trust="workload", rank=n) for n in range(3)]
    edges = tuple(zip((*devices, cable), hits, strict=True))
    assert symptoms(decided(*devices, cable, *hits, edges=edges)) == ["burst", "lost"]
