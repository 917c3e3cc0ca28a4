"""Cases from short literals: a few sightings, a small rulebook, and nothing read from disk."""

from datetime import UTC, datetime, timedelta
from typing import Any

from engine.case import Case
from engine.model.moment import to_us
from engine.model.observation import (
    Entity,
    Observation,
    Origin,
    Sample,
    StreamSummary,
    When,
)
from engine.model.workload import Workload
from engine.rulebook.book import CauseDef, OnsetTimer, Rulebook, SignatureDef, SymptomDef

START = datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC)
END = START + timedelta(hours=1)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HARDWARE_SOURCES = ("node", "platform")


def at(minutes: float) -> int:
    """Microseconds of `minutes` after the start."""
    return to_us(START) + int(minutes * MINUTE)


def workload(**changes: Any) -> Workload:
    """A Slurm job of two nodes and four ranks that failed after an hour."""
    fields: dict[str, Any] = {
        "scheduler": "slurm", "job_id": "100", "state": "FAILED", "exit_code": "1:0",
        "start": START, "end": END, "nodes": ["node-001", "node-002"], "world_size": 4,
    }  # fmt: skip
    fields.update(changes)
    return Workload.model_validate(fields)


def seen(
    symptom: str, when: float | None = None, *, source: str = "applog", trust: str | None = None,
    node: str = "", line: int = 1, uri: str | None = None, fields: dict[str, str] | None = None,
    text: str | None = None, count: int = 1, last: float | None = None, **entity: Any,
) -> Observation:  # fmt: skip
    """One observation; `when` and `last` in minutes after the start, None where unstamped."""
    trusts = {"applog": "workload", "syslog": "node", "flight_recorder": "workload",
              "inventory": "node"}  # fmt: skip
    uri = uri or f"{source}{'-' + node if node else ''}.log"
    body = text or f"{symptom} line"

    def moment(minutes: float | None) -> When:
        if minutes is None:
            return When(to_us(START), to_us(END), "attempt", node)
        return When(at(minutes), at(minutes), "stamp", node or "job")

    first = Sample(Origin(uri, line, line * 100, len(body)), moment(when), body)
    final = Sample(
        Origin(uri, line + count - 1, (line + count - 1) * 100, len(body)),
        moment(when if last is None else last),
        body,
    )
    return Observation(
        kind="match", symptom=symptom, rule=f"test/{symptom}", source=source,  # type: ignore[arg-type]
        connector="static", trust=trust or trusts.get(source, "platform"),  # type: ignore[arg-type]
        stream=uri, entity=Entity(node=node, **entity), when=first.when, count=count,
        first=first, last=final, fields=fields or {},
    )  # fmt: skip


def stream(
    uri: str, *, source: str = "applog", node: str = "", ranks: tuple[int, ...] = (),
    first: float = 0, last: float = 60, step: int | None = None, step_at: float | None = None,
    lines: int = 100, size: int | None = None,
) -> StreamSummary:  # fmt: skip
    """A stream summary with times in minutes after the start."""

    def moment(minutes: float) -> When:
        return When(at(minutes), at(minutes), "stamp", node)

    return StreamSummary(
        stream=uri, source=source, connector="static", trust="workload", node=node,  # type: ignore[arg-type]
        ranks=ranks, lines=lines, bytes=size or lines * 80, first=moment(first), last=moment(last),
        first_step=None if step is None else 1, last_step=step,
        last_step_when=When() if step_at is None else moment(step_at),
    )  # fmt: skip


def meaning(symptom: str, domain: str, role: str, tier: int, **changes: Any) -> SymptomDef:
    """A symptom's meaning with quiet defaults."""
    fields: dict[str, Any] = {
        "symptom": symptom, "rule": f"test/{symptom}", "status": "stable",
        "title": symptom.replace("_", " "), "domain": domain, "role": role, "tier": tier,
        "manifestation": "crash", "entity": "job", "proof": "direct", "alone": "definitive",
        "rivals": (), "terminal": None, "accuses": True, "tags": (), "about": "",
        "explanation": "", "actions": (),
    }  # fmt: skip
    fields.update(changes)
    return SymptomDef(**fields)


def signature(
    symptom: str, *, sources: tuple[str, ...] = ("applog",), proves_from: tuple[str, ...] = (),
    onset: OnsetTimer | None = None,
) -> SignatureDef:  # fmt: skip
    """What the engine reads of a signature: its trust and its timer."""
    return SignatureDef(
        index=0, rule=f"test/{symptom}", name="main", symptom=symptom, sources=sources,
        proves_from=proves_from, scan="none", extract="none", ignore_case=False, identity=(),
        when={}, unless=(), block=None, set={}, onset=onset,
    )  # fmt: skip


def cause(
    causes: tuple[str, ...], effects: tuple[str, ...], joins: tuple[str, ...], *,
    low: float = 0, high: float = 60, strength: str = "sufficient",
    requires: tuple[str, ...] = (), unless: tuple[str, ...] = (),
) -> CauseDef:  # fmt: skip
    """A cause rule; its window in seconds."""
    return CauseDef(
        rule=f"test/{causes[0]}_explains_{effects[0]}", status="stable", title="test",
        causes=causes, effects=effects, joins=joins, min_us=int(low * SECOND),
        max_us=int(high * SECOND), strength=strength, requires=requires, unless=unless,
    )  # fmt: skip


_MEANINGS = (
    meaning("gpu_lost", "gpu", "root", 1, entity="gpu"),
    meaning("gpu_ecc", "gpu", "root", 1, entity="gpu"),
    meaning("pcie_fatal", "pcie", "root", 1, entity="node"),
    meaning("nic_dead", "network", "root", 1, entity="nic"),
    meaning("oom_kill", "host", "root", 2, entity="node", terminal="out_of_memory",
            tags=("host_oom",)),
    meaning("disk_full", "storage", "root", 2),
    meaning("nfs_stall", "storage", "root", 2, manifestation="hang"),
    meaning("user_error", "application", "root", 3, entity="rank", tags=("python_exception",)),
    meaning("other_error", "application", "root", 3, entity="rank"),
    meaning("illegal_access", "application", "ambiguous", 4, entity="rank", alone="ambiguous",
            rivals=("gpu",), tags=("cuda_error",)),
    meaning("cuda_failed", "gpu", "secondary", 6, entity="rank", tags=("cuda_error",)),
    meaning("link_retry", "network", "ambiguous", 5, entity="rank", alone="probable",
            accuses=False, tags=("ib_error",)),
    meaning("slow_gpu", "gpu", "lean_root", 2, entity="gpu", manifestation="slow",
            proof="inferred", alone="probable"),
    meaning("watchdog_timeout", "unknown", "secondary", 6, entity="rank", proof="inferred",
            alone="insufficient", manifestation="hang", tags=("collective_failure",)),
    meaning("peer_closed", "unknown", "secondary", 6, entity="rank", proof="inferred",
            tags=("collective_failure",)),
    meaning("rank_exited", "unknown", "secondary", 6, entity="rank", proof="inferred",
            tags=("rank_exit",)),
    meaning("first_failure", "unknown", "secondary", 6, entity="rank", proof="inferred",
            tags=("launcher_report",)),
    meaning("benign_notice", "none", "noise", 7),
    meaning("driver_load", "none", "marker", 7, entity="node"),
    meaning("rank_place", "none", "marker", 7, entity="rank"),
    meaning("hangup", "operator", "root", 0, manifestation="stopped_by_policy",
            alone="probable", tags=("job_stop",)),
)  # fmt: skip
_KERNEL = ("gpu_lost", "gpu_ecc", "pcie_fatal", "nic_dead", "oom_kill", "driver_load")
_TIMER = OnsetTimer(field="timeout_ms", unit_us=1000, default_us=600 * SECOND, min_us=0,
                    max_us=60 * SECOND)  # fmt: skip
_CAUSES = (
    cause(("pcie_fatal",), ("gpu_lost",), ("same_node",), low=-2, high=10),
    cause(("gpu_lost", "gpu_ecc"), ("cuda_failed", "illegal_access"), ("same_gpu",), high=120),
    cause(("nic_dead",), ("link_retry",), ("same_node", "named_peer"), high=120),
    cause(("oom_kill",), ("rank_exited",), ("same_node",), high=60),
    cause(("nfs_stall",), ("watchdog_timeout",), ("job",), high=1800),
    cause(("user_error", "other_error", "illegal_access", "cuda_failed"),
          ("rank_exited", "first_failure"), ("same_rank",), high=120),
    cause(("rank_exited", "user_error"), ("peer_closed", "watchdog_timeout"), ("job",),
          high=3600),
)  # fmt: skip


def book(
    *extra: SymptomDef, causes: tuple[CauseDef, ...] = (), signatures: tuple[SignatureDef, ...] = ()
) -> Rulebook:
    """The small rulebook of the engine's tests."""
    meanings = {item.symptom: item for item in (*_MEANINGS, *extra)}
    own = tuple(
        signature(name, sources=("syslog", "applog"), proves_from=HARDWARE_SOURCES)
        for name in _KERNEL
    )
    timed = signature("watchdog_timeout", onset=_TIMER)
    return Rulebook(
        version="0.0.1", extraction_digest="sha256:e", reasoning_digest="sha256:r",
        signatures=(*own, timed, *signatures), symptoms=meanings, causes=(*_CAUSES, *causes),
        metrics=(),
    )  # fmt: skip


def case(*observations: Observation, streams: tuple[StreamSummary, ...] = (), **changes: Any
         ) -> Case:  # fmt: skip
    """A case over the default workload; `changes` go to the workload."""
    return Case(workload(**changes), list(observations), list(streams))
