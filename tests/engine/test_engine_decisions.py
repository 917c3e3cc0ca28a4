"""What the engine decides on small literal cases."""

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.model.observation import When
from engine.model.plan import Report
from engine.model.verdict import HistoryEntry, Verdict, is_sealed
from engine.pipeline import attribute
from engine.rulebook.book import Action
from tests.engine.cases import START, at, book, case, cause, meaning, seen, signature, stream


def culprits(verdict: Verdict) -> tuple[list[str], list[int]]:
    nodes = [item.node for item in verdict.affected_nodes if item.role == "culprit"]
    return nodes, [item.rank for item in verdict.affected_ranks if item.role == "culprit"]


def judge(*observations, **changes) -> Verdict:
    return attribute(case(*observations, **changes), book())


GPU_LOST = seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00")
PLACE = seen("rank_place", 1, node="node-002", rank=3, gpu_pci="00000000:80:00.0", gpu_index=1)
CUDA = seen("cuda_failed", 50.1, node="node-002", rank=3, line=7)
PEER = seen("peer_closed", 50.2, node="node-001", rank=0)


def test_a_lost_gpu_is_named_with_its_node_and_its_rank():
    verdict = judge(GPU_LOST, PLACE, CUDA, PEER)
    assert (verdict.domain, verdict.failure_class) == ("gpu", "gpu_lost")
    assert verdict.quality.level == "definitive"
    assert culprits(verdict) == (["node-002"], [3])
    (gpu,) = [item for item in verdict.affected_entities if item.kind == "gpu"]
    assert (gpu.index, gpu.pci, gpu.role) == (1, "0000:80:00", "culprit")


def test_the_verdict_is_sealed_and_every_culprit_cites_evidence():
    verdict = judge(GPU_LOST, PLACE, CUDA, PEER)
    assert is_sealed(verdict)
    known = {item.evidence_id for item in verdict.evidence}
    named = [item for item in verdict.affected_entities if item.role in ("culprit", "suspect")]
    assert named
    assert all(item.evidence and set(item.evidence) <= known for item in named)
    assert all(set(item.evidence) <= known for item in verdict.root_causes)


def test_a_kernel_line_printed_by_the_job_accuses_nobody():
    forged = seen("gpu_lost", 50, source="applog", node="node-002", gpu_pci="0000:80:00")
    verdict = judge(forged)
    assert verdict.domain == "unknown"
    assert culprits(verdict) == ([], [])
    (symptom,) = [item for item in verdict.symptoms if item.symptom == "gpu_lost"]
    assert symptom.reason == "untrusted_source"


def test_a_pcie_fault_explains_the_gpu_that_it_took_along():
    verdict = judge(seen("pcie_fatal", 49.99, source="syslog", node="node-002"), GPU_LOST, CUDA)
    assert verdict.failure_class == "pcie_fatal"


def test_a_gpu_that_the_job_did_not_hold_is_context():
    places = [
        seen("rank_place", 1, node=node, rank=rank, gpu_pci=f"0000:{slot}:00")
        for rank, node, slot in [
            (0, "node-001", "10"), (1, "node-001", "20"), (2, "node-002", "10"),
            (3, "node-002", "20"),
        ]
    ]  # fmt: skip
    failed = seen("user_error", 50.1, node="node-002", rank=3)
    verdict = judge(*places, GPU_LOST, failed)
    assert verdict.failure_class == "user_error"
    reasons = {item.symptom: item.reason for item in verdict.symptoms}
    assert reasons["gpu_lost"] == "other_gpu"


def test_a_fault_before_the_last_driver_load_does_not_count():
    old = seen("gpu_lost", -300, source="syslog", node="node-002", gpu_pci="0000:80:00")
    load = seen("driver_load", -100, source="syslog", node="node-002", line=3)
    verdict = judge(old, load, CUDA)
    assert verdict.domain == "unknown"


def test_a_device_lost_before_the_start_still_explains_what_a_lasting_rule_says():
    old = seen("gpu_lost", -300, source="syslog", node="node-002", gpu_pci="0000:80:00")
    lasting = cause(("gpu_lost",), ("cuda_failed",), ("same_gpu",), high=7 * 86400)
    verdict = attribute(case(old, CUDA), book(causes=(lasting,)))
    assert culprits(verdict)[0] == ["node-002"]


def test_an_old_device_fault_does_not_pass_the_window_of_a_rule_about_minutes():
    old = seen("gpu_lost", -300, source="syslog", node="node-002", gpu_pci="0000:80:00")
    verdict = judge(old, seen("user_error", 50, node="node-002", rank=3), CUDA)
    assert verdict.failure_class == "user_error"


def test_a_state_word_ties_no_fault_to_the_failure():
    rule = cause(("gpu_lost",), ("sched_failed",), ("job",), low=-60, high=7200)
    fault = seen("gpu_lost", 58, source="syslog", node="node-002", gpu_pci="0000:80:00")
    wrong = seen("user_error", None, node="node-001", rank=0)
    verdict = attribute(case(fault, wrong), book(causes=(rule,)))
    assert verdict.failure_class == "user_error"


def test_a_launcher_line_above_a_traceback_without_stamps_proves_no_order():
    report = seen("first_failure", None, line=3, uri="job.log", fields={"exit_code": "1"})
    error = seen("user_error", None, line=9, uri="job.log")
    verdict = judge(report, error)
    assert verdict.failure_class == "user_error"


def test_the_same_exception_on_every_rank_is_one_cause():
    verdict = judge(*[seen("user_error", 1, node="node-001", rank=r, line=r + 1) for r in range(4)])
    assert len(verdict.root_causes) == 1
    assert culprits(verdict) == ([], [0, 1, 2, 3])


def test_the_rank_that_failed_first_decides_between_exceptions():
    verdict = judge(
        seen("user_error", node="node-001", rank=1),
        seen("other_error", node="node-001", rank=0, line=9),
        seen("first_failure", 50, node="node-001", rank=1, line=20,
             fields={"first": "1", "exit_code": "1"}),
    )  # fmt: skip
    assert verdict.failure_class == "user_error"


def test_unordered_faults_on_two_nodes_are_rivals_and_suspects_only():
    verdict = judge(
        seen("gpu_ecc", 50, source="syslog", node="node-001", gpu_pci="0000:10:00"),
        seen("nic_dead", 50, source="syslog", node="node-002", nic="mlx5_0"),
    )
    assert verdict.quality.level == "ambiguous"
    assert verdict.domain == "unknown"
    assert culprits(verdict) == ([], [])
    assert not any(item.primary for item in verdict.root_causes)


def test_a_watchdog_timeout_alone_names_nobody():
    verdict = judge(
        *[
            seen("watchdog_timeout", 50, node="node-001", rank=rank, line=rank + 1,
                 fields={"seq": "9", "op": "ALLREDUCE", "timeout_ms": "600000"})
            for rank in range(4)
        ]
    )  # fmt: skip
    assert verdict.failure_class == "collective_timeout_unexplained"
    assert verdict.quality.level == "insufficient"
    assert verdict.root_causes == ()
    assert culprits(verdict) == ([], [])


def test_a_storage_stall_explains_the_timeout_that_it_precedes_by_the_timer():
    stall = seen("nfs_stall", 40, source="syslog", node="node-001")
    wait = seen("watchdog_timeout", 51, node="node-001", rank=0, fields={"timeout_ms": "600000"})
    assert judge(stall, wait).failure_class == "nfs_stall"


def test_a_storage_stall_after_the_wait_began_explains_nothing():
    stall = seen("nfs_stall", 50, source="syslog", node="node-001")
    wait = seen("watchdog_timeout", 51, node="node-001", rank=0, fields={"timeout_ms": "600000"})
    verdict = judge(stall, wait)
    assert not verdict.root_causes or verdict.quality.level != "definitive"


def counters(rank: int, seq: int, enqueued: int):
    return seen("watchdog_timeout", 50, node="node-001", rank=rank, line=rank + 1, fields={
        "pg": "0", "seq": str(seq), "last_enqueued": str(enqueued),
        "last_completed": str(seq - 1), "op": "ALLREDUCE",
    })  # fmt: skip


def test_a_rank_whose_counter_ends_before_the_blocked_operation_is_suspect():
    verdict = judge(*[counters(r, 100, 103) for r in range(3)], counters(3, 99, 99))
    assert [item.rank for item in verdict.affected_ranks if item.role == "suspect"] == [3]
    assert verdict.domain == "unknown"


def test_half_of_the_ranks_behind_separates_nobody():
    verdict = judge(
        *[counters(r, 100, 103) for r in (0, 1)], *[counters(r, 99, 99) for r in (2, 3)]
    )
    assert verdict.quality.level == "insufficient"
    assert not any(item.role in ("suspect", "culprit") for item in verdict.affected_ranks)


def test_different_operations_at_one_number_are_a_program_error():
    odd = seen("watchdog_timeout", 50, node="node-001", rank=0,
               fields={"pg": "0", "seq": "9", "op": "ALLGATHER"})  # fmt: skip
    rest = [
        seen("watchdog_timeout", 50, node="node-001", rank=rank, line=rank + 1,
             fields={"pg": "0", "seq": "9", "op": "BROADCAST"})
        for rank in (1, 2, 3)
    ]  # fmt: skip
    verdict = judge(odd, *rest)
    assert (verdict.domain, verdict.failure_class) == ("application", "rank_mismatched")
    assert culprits(verdict) == ([], [0])


@pytest.mark.parametrize(
    ("state", "terminal", "domain"),
    [
        ("TIMEOUT", "timeout", "scheduler"),
        ("CANCELLED by 1000", "cancelled", "operator"),
        ("PREEMPTED", "preempted", "scheduler"),
        ("COMPLETED", "completed", "none"),
        ("OUT_OF_MEMORY", "out_of_memory", "host"),
        ("SomethingNew", "unknown", "unknown"),
    ],
)
def test_a_bare_scheduler_state_is_read_from_the_table(state, terminal, domain):
    verdict = judge(state=state, exit_code=None)
    assert (verdict.terminal_state, verdict.domain) == (terminal, domain)


def test_a_completed_job_has_no_failure_whatever_it_logged():
    verdict = judge(GPU_LOST, CUDA, state="COMPLETED", exit_code="0:0")
    assert (verdict.domain, verdict.quality.level) == ("none", "definitive")
    assert culprits(verdict) == ([], [])


def test_a_lost_node_that_nobody_names_is_not_guessed():
    assert culprits(judge(state="NODE_FAIL")) == ([], [])


def test_the_only_node_of_a_job_is_the_lost_one():
    assert culprits(judge(state="NODE_FAIL", nodes=["node-001"]))[0] == ["node-001"]


def test_an_earlier_failure_outranks_the_cancel_that_cleaned_up():
    verdict = judge(
        seen("user_error", 30, node="node-001", rank=1),
        seen("first_failure", 30.1, node="node-001", rank=1, line=5, fields={"exit_code": "1"}),
        state="CANCELLED by 1000",
    )
    assert (verdict.terminal_state, verdict.failure_class) == ("cancelled", "user_error")


def test_an_error_printed_after_the_stop_is_teardown():
    verdict = judge(
        seen("hangup", 30, node="node-001"),
        seen("user_error", 31, node="node-001", rank=1, line=5),
    )
    assert verdict.domain == "operator"


def test_a_time_limit_hides_a_hang_that_began_long_before():
    steps = stream("applog.log", step=500, step_at=5, last=60)
    verdict = attribute(case(streams=(steps,), state="TIMEOUT"), book())
    assert (verdict.terminal_state, verdict.domain) == ("timeout", "unknown")
    assert verdict.manifestation == "hang"


def test_a_time_limit_with_steps_to_the_end_is_the_cause_itself():
    steps = stream("applog.log", step=500, step_at=59, last=60)
    verdict = attribute(case(streams=(steps,), state="TIMEOUT"), book())
    assert (verdict.domain, verdict.quality.level) == ("scheduler", "definitive")


def test_a_slow_gpu_is_why_a_time_limit_was_reached():
    slow = seen("slow_gpu", 0, last=59, source="metrics", node="node-002", gpu_index=1, count=9)
    verdict = judge(slow, state="TIMEOUT")
    assert (verdict.failure_class, verdict.quality.level) == ("slow_gpu", "probable")


def test_a_fault_that_the_job_outlived_is_no_cause():
    steps = stream("applog.log", step=500, step_at=59, last=60)
    early = seen("user_error", 10, node="node-001", rank=1)
    late = seen("other_error", 59.9, node="node-001", rank=2, line=5)
    verdict = attribute(case(early, late, streams=(steps,)), book())
    assert verdict.failure_class == "other_error"


def test_one_device_with_an_ambiguous_error_stays_open():
    verdict = judge(seen("illegal_access", 50, node="node-001", rank=1))
    assert verdict.quality.level == "ambiguous"
    assert culprits(verdict) == ([], [])


def test_an_ambiguous_error_on_several_devices_is_the_programs():
    verdict = judge(
        *[seen("illegal_access", 50, node="node-001", rank=r, line=r + 1) for r in (0, 1)]
    )
    assert (verdict.domain, verdict.quality.level) == ("application", "probable")


def test_a_rule_that_raises_is_listed_and_the_rest_goes_on():
    broken = cause(("gpu_lost",), ("cuda_failed",), ("same_gpu",))
    object.__setattr__(broken, "joins", None)
    verdict = attribute(case(GPU_LOST, PLACE, CUDA), book(causes=(broken,)))
    assert verdict.failure_class == "gpu_lost"
    assert broken.rule in [item.rule for item in verdict.rules.not_evaluated]


def test_a_poisoned_observation_is_a_loss_and_not_a_failure():
    poisoned = seen("user_error", 50, node="node-001", rank=1)
    object.__setattr__(poisoned, "when", None)
    verdict = judge(poisoned, GPU_LOST, PLACE, CUDA)
    assert verdict.failure_class == "gpu_lost"
    assert "evidence_lost" in verdict.quality.reasons


def test_an_experimental_symptom_is_recorded_and_never_a_cause():
    trial = meaning("trial_fault", "gpu", "root", 1, status="experimental")
    verdict = attribute(case(seen("trial_fault", 50, node="node-001")), book(trial))
    assert verdict.domain == "unknown"
    assert [s.reason for s in verdict.symptoms if s.symptom == "trial_fault"] == [
        "experimental_rule"
    ]


def test_automation_needs_the_platforms_or_the_nodes_own_word():
    trusted = judge(GPU_LOST, PLACE, CUDA)
    told = judge(seen("cuda_failed", 50, node="node-002", rank=3))
    assert not any(item.evidence_supports_automation for item in told.actions)
    assert trusted.quality.level == "definitive"


def test_an_unseen_node_log_is_asked_for_and_never_called_healthy():
    verdict = judge(GPU_LOST, PLACE, CUDA)
    states = {(item.source, item.state) for item in verdict.coverage}
    assert ("syslog", "not_configured") in states
    assert "node_logs_missing" in verdict.quality.reasons


def test_a_rule_of_the_engine_ties_a_late_rank_to_the_fault_that_held_it():
    fault = seen("gpu_ecc", 40, source="syslog", node="node-001", gpu_pci="0000:10:00")
    place = seen("rank_place", 1, node="node-001", rank=3, gpu_pci="0000:10:00")
    verdict = judge(
        fault, place, *[counters(r, 100, 103) for r in range(3)], counters(3, 99, 99),
        nodes=["node-001"],
    )  # fmt: skip
    assert verdict.failure_class == "gpu_ecc"
    assert culprits(verdict) == (["node-001"], [3])


def test_rules_whose_source_was_not_there_are_listed_once_by_their_source():
    metric_only = (
        signature("slow_gpu", sources=("metrics",)),
        signature("gpu_ecc", sources=("metrics",)),
    )
    verdict = attribute(case(CUDA), book(signatures=metric_only))
    found = [(item.rule, item.reason) for item in verdict.rules.not_evaluated]
    assert found == [("*", "no metrics source was given")]


def test_a_source_that_failed_is_not_evaluated_for_its_own_reason():
    metric_only = (signature("slow_gpu", sources=("metrics",)),)
    failed = Report(item_id="i", connector="prometheus", source="metrics", status="error",
                    reason="timed out", shard="0", extraction_digest="sha256:e")  # fmt: skip
    made = replace(case(CUDA), reports=[failed])
    verdict = attribute(made, book(signatures=metric_only))
    assert verdict.rules.not_evaluated[0].reason == "the metrics source failed: timed out"


def test_a_retry_that_excludes_nodes_names_the_nodes():
    advice = (Action("retry_excluding_nodes", "job", "the node lost a device"),)
    gone = meaning("gpu_gone", "gpu", "root", 1, entity="gpu", actions=advice)
    fault = seen("gpu_gone", 50, source="syslog", node="node-002", gpu_pci="0000:80:00")
    verdict = attribute(case(fault), book(gone))
    assert [item.target for item in verdict.actions] == ["node-002"]


def groups(*entries):
    """Watchdog lines: (rank, group, number timed out or None, last enqueued, last completed)."""
    made = []
    for line, (rank, name, seq, queued, done) in enumerate(entries):
        fields = {"pg_desc": name, "last_enqueued": str(queued), "last_completed": str(done)}
        if seq is not None:
            fields |= {"seq": str(seq), "op": "ALLREDUCE", "timeout_ms": "600000"}
        made.append(
            seen("watchdog_timeout", 55, node="node-001", rank=rank, line=line + 1, fields=fields)
        )
    return made


def test_one_blocked_small_group_does_not_make_all_of_it_suspects():
    world = [(rank, "world", 100, 100, 99) for rank in range(9)]
    away = [(rank, "world", None, 99, 99) for rank in (9, 10, 11)]
    small = [(9, "tp", 40, 40, 39), (10, "tp", 40, 40, 39), (11, "tp", None, 39, 39)]
    verdict = judge(*groups(*world, *away, *small), nodes=["node-001"], world_size=12)
    suspects = [item.rank for item in verdict.affected_ranks if item.role == "suspect"]
    assert suspects == [11]


def test_a_fault_printed_above_the_line_that_ended_the_step_outranks_the_cancel():
    port = meaning("port_error", "network", "lean_root", 4, alone="probable", entity="nic")
    ended = meaning("slurm_step_ended", "unknown", "teardown", 7)
    rules = (
        cause(("port_error",), ("link_retry",), ("named_peer", "same_node"), high=7200),
        cause(("sched_cancelled",), ("port_error", "link_retry"), ("job",), low=-2),
    )
    lines = [
        seen("port_error", None, node="node-001", line=1, uri="job.log"),
        seen("link_retry", None, node="node-002", line=2, uri="job.log",
             fields={"peer_node": "node-001"}),
    ]  # fmt: skip
    end = seen("slurm_step_ended", 60, line=9, uri="job.log")
    changes = {"state": "CANCELLED by 1000", "exit_code": "0:0"}
    found = attribute(case(*lines, end, **changes), book(port, ended, causes=rules))
    assert (found.terminal_state, found.failure_class) == ("cancelled", "port_error")
    without = attribute(case(*lines, **changes), book(port, ended, causes=rules))
    assert without.domain == "operator"


def test_a_device_lost_after_an_explicit_error_did_not_cause_it():
    error = seen("user_error", 50, node="node-001", rank=1)
    gone = seen("gpu_lost", 50.6, source="syslog", node="node-002", gpu_pci="0000:80:00")
    waits = [
        seen("peer_closed", 51, node="node-002", rank=2),
        seen("cuda_failed", 51, node="node-002", rank=3),
    ]
    place = seen("rank_place", 1, node="node-002", rank=3, gpu_pci="0000:80:00", gpu_index=1)
    verdict = judge(error, gone, place, *waits)
    assert (verdict.failure_class, culprits(verdict)) == ("user_error", ([], [1]))
    before = seen("gpu_lost", 49, source="syslog", node="node-002", gpu_pci="0000:80:00")
    assert judge(error, before, place, *waits).failure_class == "gpu_lost"


def test_an_error_long_before_that_explains_nothing_yields_to_a_linked_fault():
    early = seen("other_error", 5, node="node-001", rank=0)
    gone = seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00")
    place = seen("rank_place", 1, node="node-002", rank=3, gpu_pci="0000:80:00", gpu_index=1)
    assert judge(early, gone, place, CUDA).failure_class == "gpu_lost"


@pytest.mark.parametrize(
    ("state", "terminal", "expected"),
    [("Stopped", "timeout", "timeout"), ("Evicted", "preempted", "preempted"),
     ("FAILED", "preempted", "preempted"), ("TIMEOUT", "cancelled", "timeout")],
)  # fmt: skip
def test_the_platforms_reason_refines_a_word_for_any_stop(state, terminal, expected):
    stop = meaning("told_reason", "scheduler", "root", 0, terminal=terminal, tags=("job_stop",),
                   manifestation="stopped_by_policy")  # fmt: skip
    said = seen("told_reason", 60, source="scheduler")
    found = attribute(case(said, state=state, exit_code=None), book(stop))
    assert found.terminal_state == expected


def test_ranks_that_waited_before_a_cancel_leave_the_cause_open():
    wait = seen("watchdog_timeout", 55, node="node-001", rank=0, fields={"timeout_ms": "600000"})
    alive = stream("job.log", last=45, step=400, step_at=44)
    verdict = attribute(
        case(wait, streams=(alive,), state="CANCELLED by 1000", exit_code="0:0"), book()
    )
    assert (verdict.terminal_state, verdict.domain) == ("cancelled", "unknown")
    after = seen("watchdog_timeout", 60, node="node-001", rank=0, fields={"timeout_ms": "1000"})
    fine = attribute(
        case(after, streams=(alive,), state="CANCELLED by 1000", exit_code="0:0"), book()
    )
    assert fine.domain == "operator"


def hours(**changes):
    """A day-long job of steady steps that a limit ended, silent for its last 20 hours."""
    steps = stream("job.log", last=240, step=240, step_at=240, **changes)
    end = START + timedelta(hours=24)
    return attribute(case(streams=(steps,), state="TIMEOUT", end=end), book())


def test_hours_of_silence_after_steady_steps_are_a_hang_of_unknown_cause():
    verdict = hours()
    assert (verdict.terminal_state, verdict.domain) == ("timeout", "unknown")
    assert (verdict.manifestation, verdict.failure_class) == ("hang", "unexplained_failure")
    assert "progress_stopped" in {item.symptom for item in verdict.symptoms}


def test_a_fault_at_the_time_of_the_last_step_explains_the_stall():
    rule = cause(("gpu_lost",), ("progress_stopped",), ("job",), low=-5, high=900)
    steps = stream("job.log", last=240, step=240, step_at=240)
    fault = seen("gpu_lost", 241, source="syslog", node="node-002", gpu_pci="0000:80:00")
    end = START + timedelta(hours=24)
    found = attribute(case(fault, streams=(steps,), state="TIMEOUT", end=end), book(causes=(rule,)))
    assert (found.failure_class, found.quality.level) == ("gpu_lost", "definitive")


def test_lines_that_a_buffer_may_hold_back_prove_no_stall():
    steps = stream("job.log", last=240, step=240, step_at=240, size=4000)
    end = START + timedelta(minutes=330)
    verdict = attribute(case(streams=(steps,), state="TIMEOUT", end=end), book())
    assert verdict.domain == "scheduler"


def cancelled_after(minutes, *, steps):
    """A job that made `steps` between its 10th and 12th minute, and nothing until its end."""
    told = stream("job.log", first=0, last=12, step=steps, step_at=12, lines=steps)
    told = replace(told, first_step_when=When(at(10), at(10), "stamp", ""))
    end = START + timedelta(minutes=12 + minutes)
    return attribute(case(streams=(told,), state="CANCELLED by 1000", end=end), book())


def test_minutes_of_silence_after_many_steps_a_second_are_a_hang_that_a_cancel_ended():
    verdict = cancelled_after(9, steps=1200)
    assert (verdict.terminal_state, verdict.domain) == ("cancelled", "unknown")


def test_minutes_of_silence_after_slow_steps_are_a_pause_and_the_cancel_stands():
    assert cancelled_after(9, steps=100).domain == "operator"


def test_a_step_line_without_a_stamp_proves_no_stall():
    steps = stream("job.log", last=240, step=240, step_at=240)
    open_end = replace(steps, last_step_when=When(at(240), None, "neighbour", ""))
    end = START + timedelta(hours=24)
    verdict = attribute(case(streams=(open_end,), state="TIMEOUT", end=end), book())
    assert verdict.domain == "scheduler"


def test_a_one_sided_report_of_a_mismatch_accuses_no_reporter():
    told = meaning("told_mismatch", "application", "root", 3, entity="rank",
                   tags=("collective_failure", "python_exception"))  # fmt: skip
    one = seen("told_mismatch", 50, node="node-001", rank=1)
    assert culprits(attribute(case(one), book(told))) == ([], [])


def test_an_error_that_most_ranks_print_accuses_none_of_them():
    most = [seen("user_error", 50, node="node-001", rank=r, line=r + 1) for r in range(3)]
    assert culprits(judge(*most)) == ([], [])
    assert culprits(judge(*most[:1])) == ([], [0])


def remembered(relation, shared, failure_class="gpu_lost"):
    entry = HistoryEntry(attribution_id="sha256:a", relation=relation, job_id="99", domain="gpu",
                         failure_class=failure_class, shared=shared)  # fmt: skip
    fault = seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00")
    return attribute(replace(case(fault, CUDA), history=(entry,)), book())


@pytest.mark.parametrize(
    ("relation", "shared", "reason"),
    [
        ("earlier_attempt", ("node-002",), "recurs_in_job"),
        ("earlier_attempt", ("node-077",), "recurs_with_job"),
        ("same_node", ("node-002",), "recurs_on_node"),
        ("concurrent", ("switch-7",), "shared_with_other_jobs"),
    ],
)
def test_history_says_what_the_failure_moved_with(relation, shared, reason):
    verdict = remembered(relation, shared)
    assert reason in verdict.quality.reasons
    assert verdict.history.incident_id


def test_history_of_another_failure_adds_nothing_to_the_verdict():
    verdict = remembered("same_node", ("node-002",), failure_class="nfs_stall")
    assert verdict.history.incident_id is None
    assert not [code for code in verdict.quality.reasons if code.startswith("recurs")]
    plain = attribute(
        replace(
            case(seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00"), CUDA)
        ),
        book(),
    )
    assert verdict.root_causes == plain.root_causes


def test_an_error_on_thousands_of_ranks_stays_below_the_ceiling_of_the_document():
    ranks = 3000
    lines = [seen("user_error", 50, node="node-001", rank=r, line=r + 1) for r in range(ranks)]
    verdict = attribute(case(*lines, nodes=["node-001"], world_size=ranks), book())
    assert len(verdict.affected_ranks) == 256
    assert verdict.victims_omitted == ranks - 256
    assert len(verdict.model_dump_json()) < 2_000_000


@pytest.mark.parametrize(
    ("line", "when", "symptom", "level"),
    [
        (90, None, "user_error", "probable"), (10, None, "sched_timeout", "definitive"),
        (90, 59.9, "sched_timeout", "definitive"),
    ],
    ids=["below the last step", "steps went on", "dated at the limit"],
)  # fmt: skip
def test_an_error_without_a_stamp_below_the_last_step_is_why_a_job_waited_until_its_limit(
    line, when, symptom, level
):
    error = seen("user_error", when, uri="job.log", line=line)
    steps = replace(stream("job.log", step=500), last_step_offset=5000)
    stopped = cause(("sched_timeout",), ("user_error",), ("job",), low=-5, high=300)
    verdict = attribute(
        case(error, streams=(steps,), state="TIMEOUT", exit_code="0:15"), book(causes=(stopped,))
    )
    assert (verdict.failure_class, verdict.quality.level) == (symptom, level)
    assert verdict.terminal_state == "timeout"
    assert ("dated_by_place" in verdict.quality.reasons) is (symptom == "user_error")


def test_faults_inside_and_outside_of_two_machines_in_the_same_second_are_rivals():
    wait = seen("watchdog_timeout", 55, node="node-001", rank=0, fields={"timeout_ms": "600000"})
    lost = seen("gpu_lost", 44, source="syslog", node="node-002", gpu_pci="0000:80:00")
    link = seen("cable_pulled", 44, source="syslog", node="node-001")
    pulled = meaning("cable_pulled", "network", "lean_root", 4, entity="nic")
    rules = tuple(
        cause((name,), ("watchdog_timeout",), ("job",), high=1800)
        for name in ("gpu_lost", "cable_pulled")
    )
    both = attribute(case(wait, lost, link), book(pulled, causes=rules))
    assert (both.domain, both.quality.level) == ("unknown", "ambiguous")
    assert {cause.domain for cause in both.root_causes} == {"gpu", "network"}
    later = seen("cable_pulled", 46, source="syslog", node="node-001")
    assert attribute(case(wait, lost, later), book(pulled, causes=rules)).domain == "gpu"
