"""Reasoning over synthetic cases: time, memory, and how both grow.

    python scripts/bench_reasoning.py OBSERVATIONS RANKS    one case in this process, as JSON

A case is what a merged failure of that many ranks looks like after folding: one GPU falls off the
bus on one node, its rank raises, its neighbours' collectives time out under ever new sequence
numbers, and every node logs what nodes log. The observations are read as the attribute function
reads them, from shards of JSON lines.
"""

# ruff: noqa: PLC0415 - a child process imports what it times
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
GPUS = 8
_START_US = 1_793_707_200_000_000  # 2026-11-03T12:00:00Z
_HOUR_US = 3_600_000_000
_SHARD = 5000

if TYPE_CHECKING:
    from engine.case import Case
    from engine.rulebook.book import Rulebook


def case_of(count: int, ranks: int, book: "Rulebook") -> "Case":
    """A case of `count` folded observations from `ranks` ranks, eight to a node."""
    from engine.case import Case
    from engine.model.observation import Observation, Sharing, StreamSummary, decode, encode
    from engine.model.workload import Workload

    nodes = [f"node-{number:05d}" for number in range((ranks + GPUS - 1) // GPUS)]
    workload = Workload(
        scheduler="slurm", job_id="1", state="FAILED", exit_code="1:0", world_size=ranks,
        start="2026-11-03T12:00:00Z", end="2026-11-03T14:00:00Z", nodes=tuple(nodes),
        ranks=[{"rank": rank, "node": nodes[rank // GPUS], "gpu": rank % GPUS}
               for rank in range(ranks)],
    )  # fmt: skip
    chosen = _chosen(book)
    observations: list[Observation] = []
    shard: list[Observation | StreamSummary] = [_culprit(chosen["gpu_fallen_off_bus"], nodes[0])]
    sharing = Sharing()
    spread = [chosen[name] for name in sorted(chosen) if name != "gpu_fallen_off_bus"]
    for number in range(count - 1):
        rank = number % ranks
        turn = number // ranks
        shard.append(_victim(spread[turn % len(spread)], rank, nodes[rank // GPUS], turn))
        if len(shard) == _SHARD:
            observations += decode(encode(shard), sharing)[0]
            shard = []
    observations += decode(encode(shard), sharing)[0]
    return Case(workload, observations, [])


def _chosen(book: "Rulebook") -> dict[str, Any]:
    """The signatures that the case is made of, by symptom, as far as the ruleset has them."""
    wanted = (
        "gpu_fallen_off_bus", "collective_timeout", "nccl_remote_error", "python_exception",
        "rank_exited", "ib_link_down", "nccl_connection_closed", "process_aborted",
    )  # fmt: skip
    found: dict[str, Any] = {}
    for signature in book.signatures:
        symptoms = [signature.symptom, *(row.symptom for row in signature.family)]
        for symptom in symptoms:
            if symptom in wanted and symptom in book.symptoms:
                found.setdefault(symptom, (symptom, signature))
    for symptom in sorted(book.symptoms):  # enough different ones whatever the ruleset names
        if len(found) >= len(wanted):
            break
        signature = next((s for s in book.signatures if s.symptom == symptom), None)
        if signature is not None and "applog" in signature.sources:
            found.setdefault(symptom, (symptom, signature))
    if "gpu_fallen_off_bus" not in found:
        raise SystemExit("the ruleset does not know gpu_fallen_off_bus")
    return found


def _observation(chosen: Any, entity: Any, at_us: int, line: int, **more: Any) -> Any:
    from engine.model.observation import Observation, Origin, Sample, When

    symptom, signature = chosen
    when = When(at_us, at_us, "stamp", entity.node)
    source = more.pop("source")
    uri = f"{source}/{entity.node}.log"
    text = f"{at_us} [rank{entity.rank}] {symptom} {more}"
    sample = Sample(Origin(uri, line, line * 200, 180), when, text)
    return Observation(
        kind="match", symptom=symptom, rule=signature.rule, source=source, connector="static",
        trust="node" if source == "syslog" else "workload", stream=uri, entity=entity, when=when,
        count=1, first=sample, last=sample, samples=(sample,), identity=tuple(sorted(more)),
        fields=more, signature=signature.name,
    )  # fmt: skip


def _culprit(chosen: Any, node: str) -> Any:
    from engine.model.observation import Entity

    entity = Entity(node=node, gpu_pci="0000:3b:00")
    return _observation(
        chosen, entity, _START_US + _HOUR_US, 1, source="syslog", code="79", pci="0000:3b:00"
    )


def _victim(chosen: Any, rank: int, node: str, turn: int) -> Any:
    from engine.model.observation import Entity

    at_us = _START_US + _HOUR_US + 1_000_000 + turn * 1000 + rank
    return _observation(
        chosen, Entity(node=node, rank=rank), at_us, turn * GPUS + rank % GPUS + 1,
        source="applog", seq=str(turn), op="ALLREDUCE",
    )  # fmt: skip


def main() -> None:
    """Time one case; building it is not counted."""
    sys.path.insert(0, str(ROOT))
    from engine.pipeline import attribute
    from functions.collect.pace import collect_rarely
    from rootrank.local_case import load_book

    count, ranks = int(sys.argv[1]), int(sys.argv[2])
    book = load_book()
    collect_rarely()
    case = case_of(count, ranks, book)
    if "--warm" in sys.argv:
        attribute(case, book)
    built = _peak_mib()
    begun, cpu = time.perf_counter(), time.process_time()
    verdict = attribute(case, book)
    print(json.dumps({
        "observations": count, "ranks": ranks, "wall_s": round(time.perf_counter() - begun, 3),
        "cpu_s": round(time.process_time() - cpu, 3), "case_mib": built, "peak_mib": _peak_mib(),
        "failure_class": verdict.failure_class,
    }))  # fmt: skip


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return (
        next(int(row.split()[1]) for row in status.splitlines() if row.startswith("VmHWM")) // 1024
    )


if __name__ == "__main__":
    main()
