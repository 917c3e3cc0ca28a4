"""Properties of every verdict: order, duplicates, names, clocks, removal, forgery, bystanders."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.case import Case
from engine.model.canonical import canonical_json
from engine.model.observation import Observation, When
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from tests.engine.cases import MINUTE, SECOND, book, case, seen, stream, workload

BOOK = book()


def gpu_chain() -> list[Observation]:
    return [
        seen("gpu_lost", 50, source="syslog", node="node-002", gpu_pci="0000:80:00"),
        seen("rank_place", 1, node="node-002", rank=3, gpu_pci="0000:80:00", gpu_index=1),
        seen("cuda_failed", 50.1, node="node-002", rank=3, line=7),
        seen("first_failure", 50.2, node="node-002", rank=3, line=9,
             fields={"first": "1", "exit_code": "1"}),
        seen("peer_closed", 50.3, node="node-001", rank=0),
        seen("peer_closed", 50.3, node="node-001", rank=1, line=4),
    ]  # fmt: skip


def user_chain() -> list[Observation]:
    return [
        seen("user_error", 50, node="node-001", rank=1),
        seen("first_failure", 50.2, node="node-001", rank=1, line=9,
             fields={"first": "1", "exit_code": "1"}),
        seen("peer_closed", 50.3, node="node-002", rank=2),
        seen("watchdog_timeout", 59, node="node-002", rank=3, line=8,
             fields={"seq": "5", "op": "ALLREDUCE", "timeout_ms": "480000"}),
    ]  # fmt: skip


def storage_chain() -> list[Observation]:
    waits = [
        seen("watchdog_timeout", 52, node=node, rank=rank, line=rank + 1,
             fields={"seq": "5", "op": "ALLREDUCE", "timeout_ms": "600000"})
        for rank, node in enumerate(["node-001", "node-001", "node-002", "node-002"])
    ]  # fmt: skip
    return [seen("nfs_stall", 41, source="syslog", node="node-001"), *waits]


def oom_chain() -> list[Observation]:
    return [
        seen("oom_kill", 50, source="syslog", node="node-002"),
        seen("rank_exited", 50.1, node="node-002", rank=2, fields={"exit_code": "-9"}),
        seen("peer_closed", 50.2, node="node-001", rank=0),
    ]


def open_chain() -> list[Observation]:
    return [
        seen("watchdog_timeout", 55, node="node-001", rank=rank, line=rank + 1,
             fields={"seq": "5", "op": "ALLREDUCE", "timeout_ms": "600000"})
        for rank in range(2)
    ]  # fmt: skip


CHAINS = {
    "gpu": gpu_chain, "user": user_chain, "storage": storage_chain, "oom": oom_chain,
    "open": open_chain,
}  # fmt: skip
chains = st.sampled_from(sorted(CHAINS))


def verdict_of(observations: list[Observation], **changes) -> Verdict:
    summaries = tuple(stream(f"applog-{node}.log", node=node) for node in ("node-001", "node-002"))
    return attribute(case(*observations, streams=summaries, **changes), BOOK)


def essence(verdict: Verdict) -> tuple[object, ...]:
    roles = sorted(
        (item.kind, item.id, item.node or "", item.role) for item in verdict.affected_entities
    )
    return (
        verdict.domain, verdict.failure_class, verdict.terminal_state, verdict.quality.level, roles,
    )  # fmt: skip


def moved(observation: Observation, us: int) -> Observation:
    def shift(when: When) -> When:
        if when.basis == "attempt" or when.earliest_us is None or when.latest_us is None:
            return when
        return When(when.earliest_us + us, when.latest_us + us, when.basis, when.clock)

    return replace(
        observation,
        when=shift(observation.when),
        first=replace(observation.first, when=shift(observation.first.when)),
        last=replace(observation.last, when=shift(observation.last.when)),
    )


@given(chains, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_observations_changes_no_byte(name, random):
    observations = CHAINS[name]()
    expected = canonical_json(verdict_of(observations).model_dump(mode="json"))
    random.shuffle(observations)
    assert canonical_json(verdict_of(observations).model_dump(mode="json")) == expected


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_the_order_of_rules_and_streams_changes_no_byte(random):
    summaries = [stream(f"s{i}.log", node="node-001", step=i, step_at=i) for i in range(5)]
    base = Case(workload(), gpu_chain(), summaries)
    expected = canonical_json(attribute(base, BOOK).model_dump(mode="json"))
    causes, signatures = list(BOOK.causes), list(BOOK.signatures)
    for items in (summaries, causes, signatures):
        random.shuffle(items)
    other = replace(BOOK, causes=tuple(causes), signatures=tuple(signatures))
    found = attribute(Case(workload(), gpu_chain(), summaries), other)
    assert canonical_json(found.model_dump(mode="json")) == expected


@given(chains)
@settings(max_examples=20, deadline=None)
def test_a_duplicated_file_changes_counts_only(name):
    observations = CHAINS[name]()
    assert essence(verdict_of([*observations, *observations])) == essence(verdict_of(observations))


@given(
    chains,
    st.integers(-5 * SECOND, 5 * SECOND),
    st.integers(-5 * SECOND, 5 * SECOND),
)
@settings(max_examples=80, deadline=None)
def test_skew_of_five_seconds_per_node_leaves_cause_and_roles(name, first, second):
    observations = CHAINS[name]()
    skews = {"node-001": first, "node-002": second}
    skewed = [moved(item, skews.get(item.entity.node, 0)) for item in observations]
    assert essence(verdict_of(skewed)) == essence(verdict_of(observations))


@given(chains, st.integers(-300, 300))
@settings(max_examples=30, deadline=None)
def test_shifting_all_clocks_changes_times_only(name, days):
    shift = days * 24 * 60 * MINUTE
    base = workload()
    assert base.start is not None
    assert base.end is not None
    later = workload(start=base.start + timedelta(days=days), end=base.end + timedelta(days=days))
    observations = CHAINS[name]()
    found = attribute(Case(later, [moved(item, shift) for item in observations], []), BOOK)
    assert essence(found) == essence(attribute(Case(base, observations, []), BOOK))


@given(chains, st.permutations(["alpha", "beta"]))
@settings(max_examples=20, deadline=None)
def test_renaming_nodes_renames_the_verdict_and_nothing_else(name, names):
    table = dict(zip(["node-001", "node-002"], names, strict=True))

    def renamed(item: Observation) -> Observation:
        entity = replace(item.entity, node=table.get(item.entity.node, item.entity.node))
        return replace(item, entity=entity)

    observations = CHAINS[name]()
    plain = attribute(case(*observations), BOOK)
    other = attribute(
        case(*[renamed(i) for i in observations], nodes=[table["node-001"], table["node-002"]]),
        BOOK,
    )
    expected = [
        (kind, _rename(name_, table), table.get(node, node), role)
        for kind, name_, node, role in essence(plain)[4]
    ]
    assert essence(other)[:4] == essence(plain)[:4]
    assert essence(other)[4] == sorted(expected)


def _rename(text: str, table: dict[str, str]) -> str:
    for old, new in table.items():
        text = text.replace(old, new)
    return text


ROOTS = {"gpu": "gpu_lost", "user": "user_error", "storage": "nfs_stall", "oom": "oom_kill"}


@given(st.sampled_from(sorted(ROOTS)))
@settings(max_examples=10, deadline=None)
def test_without_the_roots_evidence_no_other_cause_is_definitive(name):
    rest = [item for item in CHAINS[name]() if item.symptom != ROOTS[name]]
    verdict = verdict_of(rest)
    assert verdict.quality.level != "definitive"
    assert not any(item.role == "culprit" for item in verdict.affected_nodes)


@given(chains, st.sampled_from(["gpu_lost", "gpu_ecc", "pcie_fatal", "nic_dead", "oom_kill"]))
@settings(max_examples=40, deadline=None)
def test_forged_kernel_lines_in_the_jobs_log_change_nothing(name, symptom):
    observations = CHAINS[name]()
    forged = seen(symptom, 49, source="applog", node="node-001", line=500, gpu_pci="0000:10:00")
    assert essence(verdict_of([*observations, forged]))[:4] == essence(verdict_of(observations))[:4]
    named = [
        item for item in verdict_of([*observations, forged]).affected_entities
        if item.role in ("culprit", "suspect") and item.node == "node-001"
    ]  # fmt: skip
    plain = [
        item for item in verdict_of(observations).affected_entities
        if item.role in ("culprit", "suspect") and item.node == "node-001"
    ]  # fmt: skip
    assert [(i.kind, i.id) for i in named] == [(i.kind, i.id) for i in plain]


@given(chains, st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_healthy_nodes_and_benign_lines_change_neither_cause_nor_roles(name, count):
    observations = CHAINS[name]()
    benign = [
        seen("benign_notice", 20, source="syslog", node=f"node-10{i}", line=i + 1)
        for i in range(count)
    ]
    nodes = ["node-001", "node-002"]
    more = attribute(
        case(*observations, *benign, nodes=[*nodes, *[f"node-10{i}" for i in range(count)]]), BOOK
    )
    assert essence(more) == essence(attribute(case(*observations), BOOK))


@given(st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_how_ranks_interleave_in_one_log_changes_no_verdict(random):
    own: dict[int, list[str]] = {
        0: ["peer_closed"], 1: ["user_error", "rank_exited"], 2: ["peer_closed"],
        3: ["peer_closed"],
    }  # fmt: skip
    expected = None
    for _ in range(2):
        speakers = [rank for rank, symptoms in own.items() for _ in symptoms]
        random.shuffle(speakers)
        left = {rank: list(symptoms) for rank, symptoms in own.items()}
        merged = [(left[rank].pop(0), rank) for rank in speakers]
        placed = [
            seen(symptom, None, node="node-001", rank=rank, line=number, uri="merged.log",
                 fields={"exit_code": "1"} if symptom == "rank_exited" else {})
            for number, (symptom, rank) in enumerate(merged, start=1)
        ]  # fmt: skip
        found = essence(attribute(case(*placed), BOOK))
        expected = expected or found
        assert found == expected
