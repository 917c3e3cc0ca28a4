"""What we keep of a scheduler's event, and how several events of one attempt become one. Pure.

Terminal states are evidence: FAILED from one source and NODE_FAIL from another are both kept,
and the order in which they arrive changes nothing.
"""

from collections.abc import Iterable
from typing import Any, Final

from pydantic import Field

from connectors.schedulers.scoped import ScopedEvent
from engine.model.canonical import digest
from engine.model.contract import Document
from engine.model.vocabulary import DetectionSignal
from engine.model.workload import EvidenceSource, Workload

_SUCCEEDED: Final = frozenset({"COMPLETED", "SUCCEEDED", "COMPLETE", "FINISHED", "SUCCESS"})
_PRECISION: Final = (
    frozenset({"NODE_FAIL", "BOOT_FAIL"}),
    frozenset({"OUT_OF_MEMORY", "OOMKILLED"}),
    frozenset(
        {
            "TIMEOUT",
            "DEADLINE",
            "DEADLINEEXCEEDED",
            "MAXIMUMEXECUTIONTIMEEXCEEDED",
            "MAXRUNTIMEEXCEEDED",
            "MAXWAITTIMEEXCEEDED",
        }
    ),
    frozenset({"PREEMPTED", "EVICTED", "REVOKED", "INTERRUPTED"}),
    frozenset({"CANCELLED", "STOPPED"}),
    frozenset({"FAILED"}),
)
"""States from the most to the least telling; others come after, then success, then none."""


class Scope(Document):
    """All that the events of one attempt say together.

    `other_states` are the state and exit code of each event that the chosen workload does not
    carry itself. `record` is the fullest that each source told of the chosen state.
    """

    workload: Workload
    evidence: tuple[EvidenceSource, ...] = ()
    bundle_uri: str | None = None
    detection_signal: DetectionSignal | None = None
    other_states: tuple[tuple[str, str], ...] = ()
    record: str | None = None
    account: str = ""
    instance_ids: dict[str, str] = Field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def event_digest(event: ScopedEvent) -> str:
    """Return the content digest of an event: equal for redelivered and for repeated events."""
    return digest(event.model_dump(mode="json", exclude_none=True))


def is_success(scope: Scope) -> bool:
    """Whether the scheduler says that the job ended well and nobody says otherwise."""
    exit_code = (scope.workload.exit_code or "0").split(":", 1)[0]
    return (
        state_word(scope.workload) in _SUCCEEDED
        and exit_code in ("0", "n/a", "")
        and not scope.other_states
        and scope.detection_signal is None
    )


def state_word(workload: Workload) -> str:
    """Return the first word of the scheduler's state in upper case, "" where there is none."""
    words = (workload.state or "").upper().split()
    return words[0] if words else ""


def merge(events: Iterable[ScopedEvent]) -> Scope:
    """Return what several events say together; their order does not matter.

    The most telling state leads; what its event leaves out is taken from the others.
    """
    ordered = sorted(events, key=lambda each: (_rank(each.workload), event_digest(each)))
    leader = ordered[0].workload
    fields: dict[str, Any] = {}
    for each in reversed(ordered):
        fields |= _given(each.workload)
    states = {(each.workload.state or "", each.workload.exit_code or "") for each in ordered}
    states -= {(leader.state or "", leader.exit_code or ""), ("", "")}
    evidence = {entry.model_dump_json(): entry for each in ordered for entry in each.evidence}
    signals = sorted(each.detection_signal for each in ordered if each.detection_signal)
    instances = {node: name for each in ordered for node, name in each.instance_ids.items()}
    ended = any(state_word(each.workload) not in ("", "RUNNING") for each in ordered)
    return Scope(
        workload=Workload.model_validate(fields),
        evidence=tuple(evidence[key] for key in sorted(evidence)),
        bundle_uri=next((each.bundle_uri for each in ordered if each.bundle_uri), None),
        detection_signal=signals[0] if signals and not ended else None,
        other_states=tuple(sorted(states)),
        record=_fullest_record(ordered),
        account=next((each.account for each in ordered if each.account), ""),
        instance_ids=dict(sorted(instances.items())),
        left_out=tuple(sorted({name for each in ordered for name in each.left_out})),
    )


def _fullest_record(ordered: list[ScopedEvent]) -> str | None:
    """Return the fullest record that each source has of the chosen state, one after another."""
    best = _rank(ordered[0].workload)
    fullest: dict[str, str] = {}
    for each in ordered:
        if each.record and _rank(each.workload) == best:
            held = fullest.get(each.origin, "")
            fullest[each.origin] = max(held, each.record, key=lambda text: (len(text), text))
    return "".join(fullest[origin] for origin in sorted(fullest)) or None


def complete(scope: Scope, bundled: Workload) -> Workload:
    """Return the scoped workload with what only the bundle's own description knows."""
    return Workload.model_validate(_given(bundled) | _given(scope.workload))


def _rank(workload: Workload) -> int:
    word = state_word(workload).removesuffix("+")
    for rank, words in enumerate(_PRECISION):
        if word in words:
            return rank
    if word in _SUCCEEDED:
        return len(_PRECISION) + 1
    return len(_PRECISION) + (2 if word in ("", "RUNNING") else 0)


def _given(workload: Workload) -> dict[str, Any]:
    given = workload.model_dump(mode="python", exclude_unset=True, exclude_none=True)
    return {name: value for name, value in given.items() if value != ()}
