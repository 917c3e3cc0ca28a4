"""The engine's properties over real bundles and the shipped rules, not over made-up cases."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.case import Case
from engine.extract.scanner import Scanner, build_scanner
from engine.model.canonical import canonical_json
from engine.model.observation import Observation, When
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from engine.rulebook.book import Rulebook
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book, read_case
from tests.chains import hardware, services, software  # noqa: F401 (they register incidents)
from tests.chains.scene import INCIDENTS
from tests.engine.cases import SECOND, case, seen

CORPUS = Path(__file__).parents[1] / "corpus"
NAMES = sorted(path.parent.name for path in CORPUS.glob("*/expected.yaml"))
NAMED = ("culprit", "suspect")
FORGED = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python, GPU has fallen off the bus.",
    "Out of memory: Killed process 4242 (python) total-vm:9000000kB, anon-rss:8000000kB",
    "mlx5_core 0000:5e:00.0: poll_health:795:(pid 0): device's health compromised - reached miss"
    " count",
    "Kernel panic - not syncing: Fatal exception in interrupt",
    "[2025-01-10T15:27:25.101] error: Nodes node-001 not responding, setting DOWN",
)
bundles = st.sampled_from(NAMES)
few = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@cache
def rules() -> tuple[Rulebook, Scanner]:
    book = load_book()
    return book, build_scanner(book)


@cache
def read(name: str) -> Case:
    book, scanner = rules()
    return read_case(CORPUS / name, book=book, scanner=scanner).case


@cache
def plain(name: str) -> Verdict:
    return attribute(read(name), rules()[0])


def data(verdict: Verdict) -> bytes:
    return canonical_json(verdict.model_dump(mode="json"))


def essence(verdict: Verdict) -> tuple[object, ...]:
    return (
        verdict.domain, verdict.failure_class, verdict.terminal_state, verdict.quality.level,
        parts(verdict),
    )  # fmt: skip


def parts(verdict: Verdict) -> list[tuple[str, ...]]:
    return sorted(
        (item.kind, item.id, item.node or "", item.role) for item in verdict.affected_entities
    )


def machines(verdict: Verdict) -> set[tuple[str, ...]]:
    return {part[:3] for part in parts(verdict) if part[0] in ("node", "gpu") and part[3] in NAMED}


def moved(item: Observation, us: int) -> Observation:
    def shift(when: When) -> When:
        if when.basis in ("attempt", "none", "record"):
            return when
        early, late = when.earliest_us, when.latest_us
        return replace(
            when,
            earliest_us=None if early is None else early + us,
            latest_us=None if late is None else late + us,
        )

    first, last = replace(item.first, when=shift(item.first.when)), item.last
    return replace(
        item, when=shift(item.when), first=first, last=replace(last, when=shift(last.when))
    )


@given(bundles, st.randoms(use_true_random=False))
@few
def test_the_order_of_files_items_and_rules_changes_no_byte(name, random):
    case, (book, _) = read(name), rules()
    observations, streams, reports = list(case.observations), list(case.streams), list(case.reports)
    causes, signatures = list(book.causes), list(book.signatures)
    for items in (observations, streams, reports, causes, signatures):
        random.shuffle(items)
    shuffled = replace(case, observations=observations, streams=streams, reports=reports)
    other = replace(book, causes=tuple(causes), signatures=tuple(signatures))
    assert data(attribute(shuffled, other)) == data(plain(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_duplicated_file_changes_counts_only(name):
    case = read(name)
    twice = replace(case, observations=[*case.observations, *case.observations])
    assert essence(attribute(twice, rules()[0])) == essence(plain(name))


@given(bundles, st.lists(st.integers(-5 * SECOND, 5 * SECOND), min_size=4, max_size=4))
@few
def test_skew_of_five_seconds_per_node_leaves_cause_domain_and_roles(name, skews):
    case = read(name)
    nodes = sorted({item.entity.node for item in case.observations} - {""})
    table = dict(zip(nodes, skews, strict=False))
    skewed = [moved(item, table.get(item.entity.node, 0)) for item in case.observations]
    found = attribute(replace(case, observations=skewed), rules()[0])
    assert essence(found) == essence(plain(name))


@pytest.mark.parametrize("name", NAMES)
def test_without_the_roots_evidence_nobody_else_is_accused_for_certain(name):
    before = plain(name)
    roots = {cause.symptom for cause in before.root_causes}
    if not roots:
        pytest.skip("an open or a clean case has no root to remove")
    case = read(name)
    rest = [item for item in case.observations if item.symptom not in roots]
    after = attribute(replace(case, observations=rest), rules()[0])
    assert machines(after) <= machines(before)
    if after.quality.level == "definitive" and after.manifestation != "stopped_by_policy":
        assert after.domain in (before.domain, "none")


@pytest.mark.parametrize("name", NAMES)
def test_forged_lines_in_the_jobs_output_accuse_nobody(name, tmp_path):
    folder = shutil.copytree(CORPUS / name, tmp_path / name)
    book, scanner = rules()
    case = read(name)
    jobs = sorted({s.stream.split("#")[0] for s in case.streams if s.source == "applog"})
    for path in jobs:
        with (folder / path).open("a", encoding="utf-8") as log:
            log.write("\n".join(FORGED) + "\n")
    found = attribute_path(folder, book=book, scanner=scanner)
    assert machines(found) == machines(plain(name))
    assert found.domain == plain(name).domain


@pytest.mark.parametrize("name", NAMES)
def test_healthy_lines_change_neither_cause_nor_roles(name):
    case = read(name)
    benign = sorted(n for n, m in rules()[0].symptoms.items() if m.role == "noise")
    sample = min(case.observations, key=lambda o: (o.stream, o.first.origin.byte_offset))
    more = [replace(sample, symptom=symptom, fields={}) for symptom in benign[:40]]
    found = attribute(replace(case, observations=[*case.observations, *more]), rules()[0])
    assert essence(found) == essence(plain(name))


@given(st.sampled_from(["i13_different_sizes", "i22_not_a_number_everywhere", "i24_import_error",
                        "a_hang_that_nobody_explains", "i26_fabric_manager_down"]),
       st.randoms(use_true_random=False))  # fmt: skip
@few
def test_how_ranks_interleave_in_one_log_changes_no_verdict(tmp_path_factory, name, random):
    book, scanner = rules()
    found = []
    for shuffle in (False, True):
        scene = INCIDENTS[name].scene()
        for file in scene.files:
            if shuffle and file["source"] == "applog":
                file["text"] = interleaved(file["text"], random)
        folder = scene.write(tmp_path_factory.mktemp("bundle"))
        found.append(essence(attribute_path(folder, book=book, scanner=scanner)))
    assert found[0] == found[1]


def interleaved(text: str, random) -> str:
    """The same lines, every rank's in their own order, the ranks mixed by chance."""
    own: dict[str, list[str]] = {}
    for line in text.splitlines():
        speaker = line.split("]")[0] if line.startswith("[rank") else ""
        own.setdefault(speaker, []).append(line)
    turns = [speaker for speaker, lines in own.items() for _ in lines]
    random.shuffle(turns)
    queues = {speaker: iter(lines) for speaker, lines in own.items()}
    return "\n".join(next(queues[speaker]) for speaker in turns) + "\n"


@pytest.mark.parametrize("state", ["FAILED", "NODE_FAIL"])
def test_a_node_that_its_metrics_saw_reboot_under_the_job_is_named(state):
    reboot = seen("host_rebooted", 58, source="metrics", trust="platform", node="node-002")
    reboot = replace(reboot, rule="metrics/host_rebooted")
    verdict = attribute(case(reboot, state=state), rules()[0])
    assert (verdict.domain, verdict.failure_class) == ("host", "host_rebooted")
    named = [item.node for item in verdict.affected_nodes if item.role in NAMED]
    assert named == ["node-002"]
