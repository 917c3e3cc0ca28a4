"""Every incident gives its verdict, its near miss does not, and neither hangs on names or clocks.

With one source left out, no healthy node is named, and no other cause becomes certain.
"""

from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from engine.extract.scanner import Scanner, build_scanner
from engine.model.verdict import Verdict
from engine.rulebook.book import Rulebook
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book
from tests.chains import hardware, services, software  # noqa: F401 (they register incidents)
from tests.chains.scene import INCIDENTS, START, Incident, Scene, Told

NAMED = ("culprit", "suspect")
NAMES = sorted(INCIDENTS)
# What remains without that source meets the definition of another cause by itself.
STANDS_BY_ITSELF = {
    ("a_fault_that_stalls_until_the_limit", "applog"): "the limit, with progress not seen",
    ("i16_hidden_hang", "applog"): "the limit, with progress not seen",
    ("i16_hidden_hang_in_a_pod", "applog"): "the deadline, with progress not seen",
    ("the_platform_says_why_it_stopped", "scheduler"): "the platform's word that it was stopped",
}


@cache
def rules() -> tuple[Rulebook, Scanner]:
    book = load_book()
    return book, build_scanner(book)


def verdict_of(scene: Scene, folder: Path, without: str = "") -> Verdict:
    book, scanner = rules()
    return attribute_path(scene.write(folder, without), book=book, scanner=scanner)


def named_nodes(verdict: Verdict) -> list[str]:
    return sorted(item.node for item in verdict.affected_nodes if item.role in NAMED)


def check(verdict: Verdict, told: Told, scene: Scene) -> None:
    assert verdict.domain in told.domains
    assert named_nodes(verdict) == sorted(scene.node(number) for number in told.nodes)
    assert not told.level or verdict.quality.level == told.level
    assert not told.symptom or verdict.failure_class == told.symptom


def told_alike(first: Incident, twin: bool) -> tuple[Scene, Scene]:
    """The same incident of other hosts, ranks and users, and at another time of the year."""
    moved = START + timedelta(days=97, hours=5, minutes=13)
    return first.scene(twin=twin), first.scene(
        twin=twin, start=moved, prefix="gpu-", user="bob.smith", uid=70_123, swaps_ranks=True
    )


def essence(verdict: Verdict, scene: Scene) -> tuple[object, ...]:
    ranks = sorted((scene.rank(item.rank), item.role) for item in verdict.affected_ranks)
    return (
        verdict.terminal_state, verdict.manifestation, verdict.domain, verdict.failure_class,
        verdict.quality.level, verdict.quality.reasons, ranks, len(named_nodes(verdict)),
    )  # fmt: skip


def test_there_are_at_least_sixty_incidents():
    assert len(INCIDENTS) >= 60


@pytest.mark.parametrize("name", NAMES)
def test_the_chain_gives_its_verdict(name, tmp_path):
    scene = INCIDENTS[name].scene()
    check(verdict_of(scene, tmp_path), INCIDENTS[name].chain, scene)


@pytest.mark.parametrize("name", NAMES)
def test_the_near_miss_abstains_or_names_something_else(name, tmp_path):
    scene = INCIDENTS[name].scene(twin=True)
    check(verdict_of(scene, tmp_path), INCIDENTS[name].twin, scene)


@pytest.mark.parametrize("twin", [False, True], ids=["chain", "near-miss"])
@pytest.mark.parametrize("name", NAMES)
def test_hosts_ranks_users_and_clocks_change_only_themselves(name, twin, tmp_path):
    scenes = told_alike(INCIDENTS[name], twin)
    found = []
    for number, scene in enumerate(scenes):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(essence(verdict_of(scene, folder), scene))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NAMES)
def test_without_one_source_nobody_healthy_is_named_and_nothing_else_is_certain(name, tmp_path):
    incident = INCIDENTS[name]
    for source in sorted({str(file["source"]) for file in incident.scene().files}):
        scene = incident.scene()
        folder = tmp_path / source
        folder.mkdir()
        verdict = verdict_of(scene, folder, without=source)
        allowed = {scene.node(number) for number in incident.chain.nodes}
        assert set(named_nodes(verdict)) <= allowed, source
        if (name, source) not in STANDS_BY_ITSELF and verdict.domain != "none":
            certain = verdict.quality.level == "definitive"
            assert not certain or verdict.domain in incident.chain.domains, source
