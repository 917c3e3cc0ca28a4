"""The reasoning phases in their order: a case and a rulebook in, a sealed verdict out."""

from dataclasses import replace

from engine.anchor import bound_by_exits, find_anchor
from engine.case import Case
from engine.claims import claim_observation
from engine.collectives import locate
from engine.correlate import Correlator
from engine.coverage import map_coverage
from engine.decide import Decider
from engine.entities import Directory
from engine.history import history_reasons, read_history
from engine.meanings import Meanings, engine_causes
from engine.model.verdict import Verdict
from engine.normalise import Signatures, bounds_of
from engine.progress import read_progress, stall_episode
from engine.python_rules import run_python_rules
from engine.qualify import Qualifier
from engine.report.document import Findings, write_verdict
from engine.rulebook.book import Rulebook
from engine.sift import Sifter
from engine.terminal import read_state


def attribute(case: Case, book: Rulebook) -> Verdict:
    """Return the verdict for one attempt: pure, and the same bytes for the same evidence."""
    findings = reason(case, book)
    return write_verdict(findings, read_history(case, findings.decision))


def reason(case: Case, book: Rulebook) -> Findings:
    """Run every phase but the last and return all intermediate results."""
    bounds = bounds_of(case)
    meanings = Meanings(book)
    claim = read_state(case.workload)
    if case.still_running and claim.terminal in ("unknown", "not_started"):
        claim = replace(claim, terminal="running", symptom="")
    stated = claim_observation(case, claim, bounds)
    if stated is not None:
        case = replace(case, observations=[*case.observations, stated])
    directory = Directory(case.workload, case.observations)
    sifter = Sifter(case, meanings, Signatures(book), directory, bounds)
    sifted = sifter.sift()
    counting = [episode for episode in sifted.episodes if not episode.reason]
    located = locate(counting, directory, case=case, meanings=meanings)
    progress = read_progress(case, bounds)
    stalled = stall_episode(progress, claim, directory, meanings)
    episodes = [*sifted.episodes, *located, *stalled]
    bound_by_exits(episodes)
    proposed = run_python_rules(book.python, episodes, case=case, meanings=meanings, bounds=bounds)
    episodes.extend(proposed.episodes)
    counting = [episode for episode in episodes if not episode.reason]
    present = {episode.symptom: episode.meaning for episode in counting}
    rules = (*book.causes, *engine_causes(present))
    graph = Correlator(counting, rules, directory.names).build()
    proposed.join(graph)
    anchor = find_anchor(counting, claim)
    decision = Decider(
        graph,
        anchor,
        claim,
        progress,
        bounds=bounds,
        signal=case.detection_signal,
        names=tuple(n for n in (case.workload.job_id, case.workload.name) if n),
    ).decide()
    coverage = map_coverage(case, directory, bounds)
    judgement = Qualifier(
        case, graph, decision, coverage, directory=directory, bounds=bounds, progress=progress,
        claim=claim, losses=sorted([*case.losses, *sifted.losses]),
    ).judge()  # fmt: skip
    judgement.reasons = sorted({*judgement.reasons, *history_reasons(case, decision, directory)})
    return Findings(
        case,
        book,
        episodes,
        graph,
        decision,
        judgement,
        coverage,
        directory,
        bounds,
        progress,
        anchor,
    )
