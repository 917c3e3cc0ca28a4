"""Python rules: what they see, what they may propose, and what happens when they go wrong."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.api import EdgeProposal, Evidence, Proposal, RecoveryProposal, SymptomProposal
from engine.case import Case
from engine.entities import Subject
from engine.episodes import Episode
from engine.meanings import Meanings
from engine.model.observation import Entity, Observation, Origin, Sample, When
from engine.model.workload import Workload
from engine.normalise import bounds_of
from engine.python_rules import Proposed, run_python_rules, shipped_rule
from engine.rulebook.book import Rulebook, SymptomDef

RULES = Path(__file__).parents[2] / "rules" / "python"
MODULES = sorted(path for path in RULES.glob("[a-z]*.py"))


def _meaning(symptom: str) -> SymptomDef:
    return SymptomDef(
        symptom=symptom, rule=f"test/{symptom}", status="stable", title=symptom, domain="gpu",
        role="root", tier=2, manifestation="crash", entity="gpu", proof="direct",
        alone="definitive", rivals=(), terminal=None, accuses=True, tags=(), about="",
        explanation="", actions=(),
    )  # fmt: skip


def _episode(symptom: str, number: int) -> Episode:
    when = When(1_000_000 * number, 1_000_000 * number, "stamp", "node-001")
    sample = Sample(Origin("a.log", number, number * 10, 5), when, f"{symptom} line")
    observation = Observation(
        kind="match", symptom=symptom, rule=f"test/{symptom}", source="syslog",
        connector="static", trust="node", stream="a.log", entity=Entity(node="node-001"),
        when=when, count=1, first=sample, last=sample, fields={"code": "13"},
    )  # fmt: skip
    episode = Episode(symptom, _meaning(symptom), Subject(number, node="node-001"))
    episode.add(observation, 1, 1, 1, 1)
    return episode


def _run(rule: Any, *, budget: int = 1_000, episodes: list[Episode] | None = None) -> Proposed:
    case = Case(Workload(scheduler="slurm", job_id="1"), [], [])
    symptoms = {name: _meaning(name) for name in ("lost_gpu", "bad_link", "both")}
    book = Rulebook("1.0.0", "", "", (), symptoms, (), ())
    return run_python_rules(
        ["tried"], episodes if episodes is not None else [_episode("lost_gpu", 1)], case=case,
        meanings=Meanings(book), bounds=bounds_of(case), budget=budget, find=lambda _: rule,
    )  # fmt: skip


def test_a_rule_that_raises_is_listed_and_proposes_nothing():
    def rule(evidence: Evidence) -> Iterator[Proposal]:
        for episode in evidence.episodes():
            yield SymptomProposal("both", (episode,))
        raise ZeroDivisionError("oops")

    proposed = _run(rule)
    assert proposed.not_evaluated == [("python/tried", "ZeroDivisionError: oops")]
    assert proposed.episodes == []


def test_a_rule_that_asks_for_too_much_is_listed():
    def rule(evidence: Evidence) -> Iterator[Proposal]:
        for _ in range(100):
            yield from (EdgeProposal(e, e) for e in evidence.episodes())

    proposed = _run(rule, budget=50)
    assert proposed.not_evaluated == [("python/tried", "BudgetError: the work budget is used up")]
    assert proposed.edges == []


def test_a_rule_that_does_not_ship_is_listed():
    case = Case(Workload(scheduler="slurm", job_id="1"), [], [])
    book = Rulebook("1.0.0", "", "", (), {}, (), ())
    proposed = run_python_rules(
        ["nowhere"], [], case=case, meanings=Meanings(book), bounds=bounds_of(case)
    )
    assert [name for name, _ in proposed.not_evaluated] == ["python/nowhere"]


def test_a_proposed_symptom_stands_on_its_basis_and_explains_what_it_says():
    def rule(evidence: Evidence) -> Iterator[Proposal]:
        lost, link = evidence.episodes()
        yield SymptomProposal("both", (lost, link), explains=(link,))

    episodes = [_episode("lost_gpu", 1), _episode("bad_link", 2)]
    proposed = _run(rule, episodes=episodes)
    made = proposed.episodes[0]
    assert (made.symptom, made.count, made.subject.node) == ("both", 2, "node-001")
    assert proposed.edges == [(made, episodes[1], "python/tried", True)]


def test_a_symptom_that_no_rule_file_defines_is_refused():
    def rule(evidence: Evidence) -> Iterator[Proposal]:
        yield SymptomProposal("made_up", tuple(evidence.episodes()))

    assert "no rule defines symptom 'made_up'" in _run(rule).not_evaluated[0][1]


def test_a_recovered_fault_is_set_aside():
    def rule(evidence: Evidence) -> Iterator[Proposal]:
        yield from (RecoveryProposal(e) for e in evidence.episodes("lost_gpu"))

    episodes = [_episode("lost_gpu", 1), _episode("bad_link", 2)]
    _run(rule, episodes=episodes)
    assert [episode.reason for episode in episodes] == ["recovered", ""]


def test_sightings_give_text_and_fields_but_not_the_episode():
    seen: list[tuple[str, str]] = []

    def rule(evidence: Evidence) -> Iterator[Proposal]:
        for episode in evidence.episodes():
            seen.extend((s.text, s.get("code")) for s in evidence.sightings(episode))
            with pytest.raises(AttributeError):
                episode.symptom = "other"  # type: ignore[misc]
        yield from ()

    assert _run(rule).not_evaluated == []
    assert seen == [("lost_gpu line", "13")]


def test_rules_ship() -> None:
    assert len(MODULES) >= 3


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_shipped_rule_imports_the_narrow_door_only_and_cannot_run_away(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    allowed = {"re", "collections.abc", "engine.api"}
    imports = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    imports |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert imports <= allowed
    banned = (ast.While, ast.Try, ast.Global)
    assert [n.lineno for n in ast.walk(tree) if isinstance(n, banned)] == []
    assert ast.get_docstring(tree)
    assert any(isinstance(n, ast.Assign) and n.targets[0].id == "SOURCES" for n in tree.body)  # type: ignore[attr-defined]
    assert callable(shipped_rule(path.stem))
