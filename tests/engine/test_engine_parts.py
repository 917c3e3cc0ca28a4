"""Who may be named: ranks of the faulty device, and nobody whose place was only worked out."""

import pytest

from engine.model.observation import Observation
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from tests.engine.cases import book, case, cause, meaning, seen


def culprits(verdict: Verdict) -> tuple[list[str], list[int]]:
    return (
        [item.node for item in verdict.affected_nodes if item.role == "culprit"],
        [item.rank for item in verdict.affected_ranks if item.role == "culprit"],
    )


SWITCH = meaning("switch_fatal", "nvlink", "root", 1, entity="node")
FABRIC = cause(("switch_fatal",), ("cuda_failed",), ("same_node",), high=120)
LOST = seen("switch_fatal", 50, source="syslog", node="node-001")


def test_ranks_that_share_a_broken_fabric_are_victims_of_it():
    ranks = [seen("cuda_failed", 50.1, node="node-001", rank=r, line=r + 1) for r in (0, 1)]
    for shown in (ranks, ranks[:1]):
        verdict = attribute(case(LOST, *shown), book(SWITCH, causes=(FABRIC,)))
        assert culprits(verdict) == (["node-001"], [])


def test_several_ranks_with_the_same_device_error_are_not_on_the_lost_device():
    lost = seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00")
    ranks = [seen("cuda_failed", 50.1, node="node-002", rank=r, line=r + 1) for r in (2, 3)]
    assert culprits(attribute(case(lost, *ranks), book())) == (["node-002"], [])
    assert culprits(attribute(case(lost, ranks[1]), book())) == (["node-002"], [3])


RAISED = meaning("raised", "application", "root", 3, entity="rank")


def test_an_error_of_the_program_on_several_ranks_accuses_none_unless_all_print_it():
    told = [seen("raised", 50, node="node-001", rank=r, line=r + 1) for r in range(4)]
    for shown, named in ((1, [0]), (2, []), (3, []), (4, [0, 1, 2, 3])):
        verdict = attribute(case(*told[:shown]), book(RAISED))
        assert (shown, culprits(verdict)) == (shown, ([], named))
    whole = attribute(case(*told, world_size=None), book(RAISED))
    assert culprits(whole) == ([], [])


def test_a_line_without_a_rank_that_came_more_than_twice_is_not_the_first_failed_ranks():
    report = seen("first_failure", 51, rank=2, fields={"exit_code": "1", "first": "true"}, line=9)
    for count, named in ((1, [2]), (2, [2]), (3, [])):
        line = seen("raised", 50, count=count)
        verdict = attribute(case(line, report), book(RAISED))
        assert (count, culprits(verdict)) == (count, ([], named))


def test_a_rank_placed_by_the_order_of_the_nodes_is_not_named():
    slow = seen("slow_gpu", 10, source="metrics", node="node-002", gpu_index=1)
    known = seen("rank_place", 1, node="node-001", rank=0)
    verdict = attribute(case(slow, known, state="TIMEOUT"), book())
    assert culprits(verdict) == (["node-002"], [])
    alone = case(slow, state="TIMEOUT", nodes=["node-002"], world_size=2)
    assert culprits(attribute(alone, book())) == (["node-002"], [1])


def test_a_report_about_a_collective_names_no_reporter_even_if_all_report():
    told = meaning("told_mismatch", "application", "root", 3, entity="rank",
                   tags=("collective_failure",))  # fmt: skip
    all_of_them = [seen("told_mismatch", 50, rank=r, line=r + 1) for r in range(4)]
    assert culprits(attribute(case(*all_of_them), book(told))) == ([], [])


CRASH = meaning("native_crash", "framework", "ambiguous", 4, entity="rank", alone="ambiguous",
                rivals=("host",), tags=("rank_exit",))  # fmt: skip
AFTER_LOSS = cause(("peer_closed",), ("native_crash",), ("same_rank",), high=120)


def test_a_crash_after_lost_peers_is_no_beginning_of_its_own():
    lost = seen("peer_closed", 50, node="node-001", rank=0, line=5)
    crash = seen("native_crash", 50.01, node="node-001", rank=0, line=9)
    rules = book(CRASH, causes=(AFTER_LOSS,))
    verdict = attribute(case(lost, crash), rules)
    assert (verdict.domain, verdict.quality.level) == ("unknown", "insufficient")
    alone = attribute(case(crash), rules)
    assert [item.symptom for item in alone.root_causes] == ["native_crash"]


def test_a_crash_that_may_have_come_before_the_lost_peers_stays_a_candidate():
    lost = seen("peer_closed", 50, node="node-001", rank=0, line=9)
    crash = seen("native_crash", 50, node="node-001", rank=0, line=5)
    verdict = attribute(case(lost, crash), book(CRASH, causes=(AFTER_LOSS,)))
    assert [item.symptom for item in verdict.root_causes] == ["native_crash"]


def test_a_silent_rank_supports_no_reading_of_an_ambiguous_error():
    odd = meaning("not_finite", "application", "ambiguous", 4, alone="ambiguous", accuses=False)
    held = cause(("not_finite",), ("rank_silent",), ("job",), high=3600)
    peers = [seen("peer_closed", 50.1, rank=r, line=r + 9) for r in (0, 1, 2)]
    spoke = seen("rank_place", 1, node="node-002", rank=3)
    verdict = attribute(case(seen("not_finite", 50), *peers, spoke), book(odd, causes=(held,)))
    assert verdict.quality.level == "ambiguous"


def test_many_ranks_settle_rivals_only_where_a_device_was_one_of_them():
    killed = meaning("killed", "host", "ambiguous", 4, entity="rank", alone="ambiguous",
                     rivals=("operator",), accuses=False)  # fmt: skip
    start = meaning("no_start", "host", "ambiguous", 4, entity="rank", alone="ambiguous",
                    rivals=("gpu", "operator"), accuses=False)  # fmt: skip
    for symptom in ("killed", "no_start"):
        ranks = [seen(symptom, 50, node="node-001", rank=r, line=r + 1) for r in (0, 1)]
        verdict = attribute(case(*ranks), book(killed, start))
        assert verdict.quality.level == "ambiguous"


STALLED = meaning("horovod_stall", "unknown", "secondary", 6, entity="rank", proof="inferred",
                  alone="insufficient", manifestation="hang", accuses=False,
                  tags=("collective_failure", "progress_stall"))  # fmt: skip


def _missing(ranks: str, line: int) -> Observation:
    return seen("horovod_stall", None, rank=0, line=line, fields={"peer_rank": ranks})


def _limit(line: int) -> Observation:
    return seen("sched_timeout", 60, source="applog", trust="platform", line=line)


def test_complementary_lists_of_missing_ranks_are_two_graphs():
    lists = [_missing("1, 2, 3", 5), _missing("0", 6)]
    verdict = attribute(case(*lists, _limit(90), state="TIMEOUT"), book(STALLED))
    assert (verdict.domain, verdict.quality.level) == ("application", "probable")
    assert culprits(verdict) == ([], [0])


def test_of_two_equal_sides_neither_is_the_odd_one():
    lists = [_missing("0, 1", 5), _missing("2, 3", 6)]
    verdict = attribute(case(*lists, _limit(90), state="TIMEOUT"), book(STALLED))
    assert (verdict.domain, culprits(verdict)) == ("application", ([], []))


def test_ranks_that_waited_above_the_line_of_the_limit_leave_the_cause_open():
    for line, domain in ((5, "unknown"), (95, "scheduler")):
        waits = _missing("3", line)
        verdict = attribute(case(waits, _limit(90), state="TIMEOUT"), book(STALLED))
        assert verdict.domain == domain


def test_a_traceback_cut_before_its_exception_names_no_cause():
    generic = meaning("python_exception", "application", "root", 3, entity="rank")
    cut = seen("python_exception", 50, node="node-001", rank=1)
    assert attribute(case(cut), book(generic)).quality.level == "insufficient"
    whole = seen("python_exception", 50, node="node-001", rank=1, fields={"exception": "KeyError"})
    assert attribute(case(whole), book(generic)).domain == "application"


def test_slowness_ends_a_job_at_its_limit_and_makes_none_fail():
    slow = seen("slow_gpu", 10, source="metrics", node="node-002", gpu_index=1)
    assert attribute(case(slow, state="TIMEOUT"), book()).domain == "gpu"
    assert attribute(case(slow), book()).domain == "unknown"


def test_a_rank_that_prints_a_link_error_is_not_where_the_link_broke():
    told = meaning("link_told", "nvlink", "root", 2, entity="rank", proof="inferred")
    verdict = attribute(case(seen("link_told", 50, node="node-001", rank=1)), book(told))
    assert culprits(verdict) == (["node-001"], [])


def test_a_line_of_another_node_of_the_cluster_in_a_common_log_is_not_the_jobs():
    for host, domain in (("node-009", "unknown"), ("node-002", "gpu"), ("headnode", "gpu")):
        line = seen("gpu_lost", 50, source="syslog", fields={"host": host}, gpu_pci="0000:80:00")
        verdict = attribute(case(line, seen("cuda_failed", 50.1, rank=3, line=7)), book())
        assert verdict.domain == domain


def test_a_process_that_the_kernel_gives_to_another_job_is_not_the_jobs():
    killed = seen("oom_kill", 50, source="syslog", node="node-001", pid=7, line=2)
    for job, domain in (("99", "unknown"), ("100", "host")):
        record = seen("oom_kill", 50, source="syslog", node="node-001", pid=7, fields={"job": job})
        assert attribute(case(record, killed), book()).domain == domain


@pytest.mark.parametrize(
    ("rank", "told"),
    [(3, "Rank 3 asked for 2 GiB."), (None, "A rank that no line names asked for 2 GiB.")],
)
def test_a_rank_that_is_not_known_is_told_in_words(rank, told):
    short = meaning("short", "application", "root", 2, entity="rank",
                    explanation="Rank {rank} asked for {size}.")  # fmt: skip
    fault = seen("short", 50, rank=rank, fields={"size": "2 GiB"})
    (cause,) = attribute(case(fault), book(short)).root_causes
    assert cause.explanation == told
