"""How far a verdict is said to carry, and what it asks for: one rule of the judging at a time."""

from dataclasses import replace
from typing import Any

import pytest

from engine.candidates import Cause
from engine.correlate import Edge, Graph
from engine.coverage import map_coverage
from engine.decide import Decision
from engine.entities import Directory, Subject
from engine.episodes import Episode
from engine.model.evidence_request import EvidenceRequest
from engine.moments import OPEN_FUTURE, OPEN_PAST
from engine.normalise import Bounds, bounds_of
from engine.progress import Progress
from engine.qualify import Judgement, Qualifier
from engine.terminal import read_state
from tests.engine.cases import at, case, meaning, seen, stream

NO_STEPS = Progress(None, OPEN_PAST, OPEN_FUTURE, False, False, None, None)
STEPS = Progress(9, at(50), at(50), True, True, None, None)
KERNEL_LOGS = tuple(stream(f"{n}.log", source="syslog", node=n) for n in ("node-001", "node-002"))


def ep(symptom: str, *, trust: str = "node", node: str = "node-001", rank: int | None = None,
       flags: tuple[tuple[str, ...], ...] = ((),), **means: Any) -> Episode:  # fmt: skip
    means = {"domain": "gpu", "role": "root", "tier": 1, **means}
    about = meaning(symptom, means.pop("domain"), means.pop("role"), means.pop("tier"), **means)
    ranks = () if rank is None else (rank,)
    episode = Episode(symptom, about, Subject(1, node=node, rank=rank, ranks=ranks), trust=trust)  # type: ignore[arg-type]
    episode.observations += [
        replace(seen(symptom, 50, node=node, line=n + 1), flags=each)
        for n, each in enumerate(flags)
    ]
    return episode


def qualified(
    *episodes: Episode, link: int = 2, domain: str = "", rivals: tuple[str, ...] = (),
    witnesses: tuple[Episode, ...] = (), coincident: tuple[Episode, ...] = (),
    several: bool = False, located: bool = False, hang: bool = False, is_fine: bool = False,
    dropped: dict[int, str] | None = None, backed: tuple[str, ...] = (),
    streams: tuple[Any, ...] = KERNEL_LOGS,
    progress: Progress = NO_STEPS, losses: tuple[str, ...] = (), terminal: str = "failed",
    bounds: Bounds | None = None, **workload: Any,
) -> tuple[Judgement, Decision]:  # fmt: skip
    """The judgement of one cause on these episodes, each explaining all witnesses; or of none."""
    listed = [*episodes, *witnesses]
    graph = Graph(listed, [[] for _ in listed], [[] for _ in listed])
    for one in range(len(episodes)):
        for other in range(len(episodes), len(listed)):
            graph.add(Edge(one, other, "test", is_sufficient=True))
    causes = []
    if episodes:
        head = episodes[0].meaning
        causes = [Cause(head.symptom, list(range(len(episodes))), list(episodes), head.tier, link,
                        domain or head.domain, rivals)]  # fmt: skip
    causes *= 2 if several else 1
    decision = Decision(
        terminal, "hang" if hang else "crash", causes[0].domain if causes else "unknown", "x",
        causes, several or located, list(coincident), [], dropped or {}, frozenset(backed),
    )  # fmt: skip
    decision.domain = "none" if is_fine else decision.domain
    made = case(streams=streams, **workload)
    directory = Directory(made.workload, made.observations)
    bounds = bounds or bounds_of(made)
    found = Qualifier(
        made, graph, decision, map_coverage(made, directory, bounds), directory=directory,
        bounds=bounds, progress=progress, claim=read_state(made.workload), losses=list(losses),
    ).judge()  # fmt: skip
    return found, decision


def judged(*episodes: Episode, **more: Any) -> Judgement:
    return qualified(*episodes, **more)[0]


def asked(judgement: Judgement) -> list[str]:
    return [request.source for request in judgement.requests]


def request(judgement: Judgement, source: str) -> EvidenceRequest:
    (found,) = [each for each in judgement.requests if each.source == source]
    return found


# --- levels and reasons ---------------------------------------------------------------------


def test_a_component_that_reports_itself_is_definitive_and_an_inference_is_probable():
    direct = judged(ep("lost"))
    assert (direct.level, direct.reasons) == ("definitive", ["direct_report"])
    inferred = judged(ep("lost", proof="inferred"))
    assert (inferred.level, inferred.reasons) == ("probable", ["inferred"])


@pytest.mark.parametrize("alone", ["definitive", "probable", "ambiguous", "insufficient"])
def test_what_a_symptom_proves_alone_caps_the_level_and_says_so(alone):
    found = judged(ep("lost", alone=alone))
    assert found.level == alone
    assert ("stands_alone" in found.reasons) is (alone != "definitive")


def test_an_inference_is_not_called_alone_where_that_lowers_nothing():
    assert "stands_alone" not in judged(ep("lost", proof="inferred", alone="probable")).reasons


def test_a_second_witness_lifts_what_a_symptom_proves_alone():
    witness = ep("xid", role="confirm", tier=6)
    found = judged(ep("lost", alone="insufficient"), witnesses=(witness,))
    assert (found.level, found.reasons) == ("definitive", ["corroborated", "direct_report"])


def test_an_ambiguous_symptom_with_a_witness_is_probable_unless_it_proves_itself():
    witness = ep("xid", role="confirm", tier=6)
    unclear = ep("unclear", role="ambiguous", alone="ambiguous")
    assert judged(unclear, witnesses=(witness,)).level == "probable"
    sure = ep("unclear", role="ambiguous", alone="definitive")
    assert judged(sure, witnesses=(witness,)).level == "definitive"
    root = ep("lost", alone="ambiguous")
    assert judged(root, witnesses=(witness,)).level == "definitive"


def test_rival_domains_leave_a_lone_symptom_open_and_a_witness_settles_them():
    unclear = ep("unclear", rivals=("application",))
    found = judged(unclear, rivals=("application",))
    assert (found.level, found.rival_domains) == ("ambiguous", ("application",))
    assert found.reasons == ["direct_report", "rival_domains_fit"]
    witness = ep("xid", role="confirm", tier=6)
    assert judged(unclear, rivals=("application",), witnesses=(witness,)).level == "definitive"
    assert judged(unclear, rivals=("application",), witnesses=(witness,)).rival_domains == ()


def test_a_spread_that_ruled_out_the_device_makes_a_lone_symptom_probable():
    unclear = ep("unclear", rivals=("application",), alone="insufficient")
    assert judged(unclear, rivals=()).level == "probable"


def test_trouble_at_the_start_counts_where_nothing_ran_and_only_without_a_witness():
    trouble = ep("trouble", alone="insufficient", manifestation="never_started")
    found = judged(trouble, backed=("trouble",))
    assert (found.level, found.reasons) == ("probable", ["direct_report", "nothing_ran"])
    witness = ep("xid", role="confirm", tier=6)
    seen_too = judged(trouble, backed=("trouble",), witnesses=(witness,))
    assert "nothing_ran" not in seen_too.reasons
    assert "nothing_ran" not in judged(trouble, backed=("other",)).reasons


def test_hardware_that_only_the_job_saw_is_at_most_probable():
    assert judged(ep("lost", trust="workload")).reasons == ["direct_report", "job_log_only"]
    assert judged(ep("lost", trust="workload")).level == "probable"
    assert judged(ep("lost", trust="workload"), ep("lost")).level == "definitive"
    error = ep("raised", trust="workload", domain="application", tier=3)
    assert judged(error).level == "definitive"


def test_a_usual_cause_without_a_witness_is_at_most_probable():
    found = judged(ep("hot", role="lean_root"))
    assert (found.level, found.reasons) == ("probable", ["direct_report", "usually_a_cause"])
    witness = ep("xid", role="confirm", tier=6)
    assert judged(ep("hot", role="lean_root"), witnesses=(witness,)).level == "definitive"


def test_what_nothing_ties_to_the_failure_is_at_most_probable():
    assert judged(ep("lost"), link=0).reasons == ["direct_report", "not_linked_to_failure"]
    assert judged(ep("lost"), link=0).level == "probable"
    assert judged(ep("lost"), link=1).level == "definitive"


@pytest.mark.parametrize(
    ("tier", "other_tier", "node", "is_near"),
    [(3, 1, "node-001", True), (3, 2, "node-001", False), (3, 1, "node-002", False),
     (2, 1, "node-001", False), (3, 0, "node-001", True)],
)  # fmt: skip
def test_a_physical_fault_on_the_node_of_an_error_of_the_program_makes_it_less_sure(
    tier, other_tier, node, is_near
):
    error = ep("raised", domain="application", tier=tier, trust="workload")
    found = judged(error, coincident=(ep("hot", tier=other_tier, node=node),))
    assert ("coincident_fault" in found.reasons) is is_near
    assert (found.level == "probable") is is_near


def test_lines_of_several_ranks_in_one_block_are_told_where_all_are_mixed():
    mixed, clean = ("interleaved",), ()
    assert "interleaved_lines" in judged(ep("lost", flags=(mixed, mixed))).reasons
    assert "interleaved_lines" not in judged(ep("lost", flags=(mixed, clean))).reasons


def test_a_time_limit_without_steps_says_that_progress_was_not_seen():
    limit = ep("limit", domain="scheduler", tier=0, trust="platform", terminal="timeout")
    assert "progress_not_seen" in judged(limit).reasons
    assert "progress_not_seen" not in judged(limit, progress=STEPS).reasons
    assert "progress_not_seen" not in judged(ep("lost")).reasons


def test_no_cause_several_causes_and_lost_evidence_are_told():
    assert (judged().level, judged().reasons) == ("insufficient", ["no_cause_observed"])
    assert judged(ep("lost"), several=True).reasons == ["several_causes_fit"]
    assert "evidence_lost" in judged(ep("lost"), losses=("a shard",)).reasons


@pytest.mark.parametrize(
    ("state", "tier", "when", "at_byte", "is_capped"),
    [
        ("TIMEOUT", 3, None, 5000, True), ("FAILED", 3, None, 5000, False),
        ("TIMEOUT", 0, None, 5000, False), ("TIMEOUT", 4, None, 5000, False),
        ("TIMEOUT", 3, 50.0, 5000, False), ("TIMEOUT", 3, None, 9100, False),
    ],
)  # fmt: skip
def test_an_error_dated_by_its_place_before_a_limit_is_at_most_probable(
    state, tier, when, at_byte, is_capped
):
    error = ep("raised", domain="application", tier=tier, trust="workload")
    error.observations[0] = seen("raised", when, uri="job.log", line=90)
    found = judged(error, state=state, progress=replace(STEPS, ends={"job.log": at_byte}))
    assert ("dated_by_place" in found.reasons) is is_capped
    assert found.level == ("probable" if is_capped else "definitive")


def test_a_place_without_a_cause_is_located_and_not_explained():
    found = judged(ep("rank_lagging"), located=True)
    assert (found.level, found.reasons) == ("ambiguous", ["located_not_explained"])


@pytest.mark.parametrize(
    ("domain", "left"), [("gpu", "unknown"), ("nvlink", "unknown"), ("pcie", "unknown"),
                         ("host", "unknown"), ("application", "application")],
)  # fmt: skip
def test_a_lean_towards_a_machine_accuses_it_and_is_not_told_as_its_domain(domain, left):
    cause = ep("unclear", domain=domain, rivals=("data",), trust="platform")
    _, decision = qualified(cause, rivals=("data",))
    assert (decision.domain, decision.causes[0].domain) == (left, left)


def test_success_is_the_schedulers_word_or_else_the_jobs_own():
    stated = judged(is_fine=True, state="COMPLETED", exit_code="0:0")
    assert (stated.level, stated.reasons) == ("definitive", ["scheduler_says_completed"])
    said = judged(is_fine=True, state=None, exit_code=None)
    assert (said.level, said.reasons) == ("probable", ["job_says_finished"])
    assert said.requests == []


# --- requests -------------------------------------------------------------------------------


def test_kernel_logs_are_asked_of_the_accused_node_first_and_else_of_all_unseen():
    fault = ep("lost", proof="inferred", node="node-002")
    assert request(judged(fault, streams=()), "syslog").entities == ("node-002",)
    elsewhere = ep("lost", proof="inferred", node="")
    assert request(judged(elsewhere, streams=()), "syslog").entities == ("node-001", "node-002")
    assert "syslog" not in asked(judged(fault))
    assert "node_logs_missing" in judged(fault, streams=()).reasons
    assert "node_logs_missing" not in judged(fault).reasons


def test_at_most_64_nodes_are_asked_for():
    names = [f"node-{n:03d}" for n in range(80)]
    found = judged(ep("x", proof="inferred", node=""), streams=(), nodes=names)
    assert len(request(found, "syslog").entities) == 64
    found = judged(streams=(), nodes=names)
    assert len(request(found, "metrics").entities) == 64


@pytest.mark.parametrize("domain", ["application", "data", "framework", "operator"])
def test_a_certain_error_of_the_program_asks_for_no_kernel_log_and_a_likely_one_does(domain):
    sure = ep("raised", domain=domain, tier=3, trust="workload")
    likely = ep("raised", domain=domain, tier=3, trust="workload", proof="inferred")
    assert "syslog" not in asked(judged(sure, streams=()))
    assert "syslog" in asked(judged(likely, streams=()))
    assert "syslog" in asked(judged(ep("lost"), streams=()))


def test_an_uncertain_hang_asks_for_collective_traces_and_nothing_else_does():
    stuck = ep("stuck", proof="inferred", domain="storage", tier=2)
    assert "flight_recorder" in asked(judged(stuck, hang=True))
    assert "flight_recorder" not in asked(judged(stuck))
    assert "flight_recorder" not in asked(judged(ep("lost"), hang=True))
    traces = (*KERNEL_LOGS, stream("fr", source="flight_recorder", ranks=(0,)))
    assert "flight_recorder" not in asked(judged(stuck, hang=True, streams=traces))


def test_an_open_case_asks_for_metrics_the_record_and_the_output_as_far_as_they_are_missing():
    assert asked(judged()) == ["metrics", "scheduler", "applog"]
    given = (
        *KERNEL_LOGS, stream("m", source="metrics"), stream("s", source="scheduler"),
        stream("a", source="applog", ranks=(0,)),
    )  # fmt: skip
    assert asked(judged(streams=given)) == []
    assert asked(judged(ep("lost", proof="inferred"))) == []
    assert asked(judged(ep("lost", alone="ambiguous"))) == ["metrics", "scheduler", "applog"]


@pytest.mark.parametrize("terminal", ["node_fail", "cancelled", "unknown"])
def test_ends_that_only_the_accounting_explains_ask_for_it(terminal):
    assert asked(judged(ep("lost"), terminal=terminal)) == ["scheduler"]
    assert asked(judged(ep("lost"), terminal="failed")) == []
    record = (*KERNEL_LOGS, stream("s", source="scheduler"))
    assert asked(judged(ep("lost"), terminal=terminal, streams=record)) == []


def test_a_certain_verdict_asks_for_two_things_at_most_unless_something_was_dropped():
    fault = ep("stuck", domain="storage", tier=2, alone="definitive")
    short = judged(fault, streams=(), terminal="unknown", hang=True)
    assert asked(short) == ["syslog", "scheduler"]
    open_case = judged(streams=(), terminal="unknown")
    assert asked(open_case) == ["syslog", "metrics", "scheduler", "applog"]
    dropped = judged(fault, streams=(), terminal="unknown", dropped={0: "survived"})
    assert asked(dropped) == ["syslog", "scheduler"]


def test_the_window_is_the_last_forty_minutes_and_five_more_within_the_attempt():
    window = request(judged(), "metrics").window
    assert (window.start, window.end) == ("2026-03-01T10:20:00Z", "2026-03-01T11:05:00Z")
    short = judged(bounds=Bounds(at(30), at(60)))
    assert request(short, "metrics").window.start == "2026-03-01T10:30:00Z"
    unbegun = judged(bounds=Bounds(OPEN_PAST, at(60)))
    assert request(unbegun, "metrics").window.start == "2026-03-01T10:20:00Z"
    unended = judged(bounds=Bounds(at(0), OPEN_FUTURE))
    assert request(unended, "metrics").window.start is None
