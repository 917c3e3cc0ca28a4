"""What to do, from the closed set, and whether the evidence would carry a machine doing it."""

from engine.decide import Decision
from engine.model.hostlist import compact_hostlist
from engine.model.verdict import Action
from engine.model.vocabulary import HARDWARE_DOMAINS
from engine.qualify import Judgement
from engine.roles import Cast, Part

_OUT_OF_SERVICE = frozenset({"reset_gpu", "reboot_node", "drain_node", "replace_node"})
# A host or network cause above tier 1 may be software (a driver upgrade, a full table).
_DEVICE_DOMAINS = frozenset({"gpu", "nvlink", "pcie"})
# Memory that a job used up says nothing about the health of the node.
_NO_CAUSE = "the cause is not shown"
_NO_ADVICE = "the rule of this cause advises nothing; look at its evidence"
_NOT_HARDWARE_TAGS = ("host_oom",)


def advise(decision: Decision, judgement: Judgement, cast: Cast, job_id: str) -> list[Action]:
    """Return the actions in a stable order, each once."""
    if decision.domain == "none":
        return [Action(action="none", target=job_id, reason="the job completed")]
    found: dict[tuple[str, str | None], Action] = {}
    primary = decision.primary
    if primary is not None and judgement.level in ("definitive", "probable"):
        head = primary.head
        for advice in head.meaning.actions:
            targets = _targets(advice.target, cast, job_id)
            if advice.action == "retry_excluding_nodes":
                targets = _excluded(cast)
            for target in targets:
                action = Action.model_validate(
                    {
                        "action": advice.action, "target": target, "reason": advice.reason,
                        "evidence_supports_automation": _carries(
                            advice.action, target, decision, judgement, cast
                        ),
                    }
                )  # fmt: skip
                found.setdefault((advice.action, target), action)
    is_open = judgement.level in ("ambiguous", "insufficient")
    if not found or (is_open and judgement.requests):
        why = _NO_CAUSE if not decision.causes or is_open else _NO_ADVICE
        why = judgement.requests[0].why if judgement.requests else why
        found.setdefault(
            ("collect_more_evidence", job_id),
            Action(action="collect_more_evidence", target=job_id, reason=why),
        )
    return list(found.values())


def _excluded(cast: Cast) -> list[str | None]:
    """The nodes to leave out, in the notation that schedulers take; none where none is named."""
    nodes = [part.id for part in cast.of("node", "culprit")]
    return [compact_hostlist(nodes)] if nodes else []


def _targets(kind: str, cast: Cast, job_id: str) -> list[str | None]:
    if kind == "gpu":
        return [part.id.replace("|", "/") for part in cast.of("gpu", "culprit")]
    if kind == "node":
        return [part.id for part in cast.of("node", "culprit")]
    if kind == "filesystem":
        named: list[str | None] = [part.id for part in cast.of("filesystem", "culprit")]
        return named or [None]
    if kind == "job":
        return [job_id]
    return [None]


def _carries(
    action: str, target: str | None, decision: Decision, judgement: Judgement, cast: Cast
) -> bool:
    """True only for a definitive hardware cause, reported by platform or node on that entity."""
    primary = decision.primary
    if (
        primary is None
        or action not in _OUT_OF_SERVICE
        or judgement.level != "definitive"
        or primary.domain not in HARDWARE_DOMAINS
        or (primary.domain not in _DEVICE_DOMAINS and primary.head.meaning.tier > 1)
        or primary.head.has_tag(*_NOT_HARDWARE_TAGS)
    ):
        return False
    parts: list[Part] = [p for kind in ("gpu", "node") for p in cast.of(kind, "culprit")]
    return any(
        part.id.replace("|", "/") == target
        and any(e.trust in ("platform", "node") for e in part.episodes)
        for part in parts
    )
