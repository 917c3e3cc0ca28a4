"""What two rulebooks say of the same bundles: the verdict fields that consumers act on."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.model.verdict import Verdict
from engine.rulebook.book import Rulebook

AttributePath = Callable[[Path, Rulebook], Verdict]


@dataclass(slots=True, frozen=True)
class VerdictChange:
    """One bundle whose verdict differs, field by field; `error` where one side gave none."""

    bundle: str
    fields: tuple[tuple[str, str, str], ...] = ()
    error: str | None = None


def bundles_below(folders: Iterable[Path]) -> list[Path]:
    """Return every folder below `folders` that holds a `workload.yaml`, sorted."""
    found = {path.parent for folder in folders for path in folder.rglob("workload.yaml")}
    return sorted(found)


def changed_verdicts(
    bundles: Iterable[Path], old: Rulebook, new: Rulebook, *, attribute: AttributePath
) -> list[VerdictChange]:
    """Attribute each bundle with both books and return those that come out differently."""
    changes: list[VerdictChange] = []
    for bundle in bundles:
        try:
            before, after = _acted_on(attribute(bundle, old)), _acted_on(attribute(bundle, new))
        except (ValueError, OSError) as error:
            changes.append(VerdictChange(bundle.name, error=f"{type(error).__name__}: {error}"))
            continue
        fields = tuple((k, before[k], after[k]) for k in before if before[k] != after[k])
        if fields:
            changes.append(VerdictChange(bundle.name, fields))
    return changes


def _acted_on(verdict: Verdict) -> dict[str, str]:
    culprits = [node.node for node in verdict.affected_nodes if node.role == "culprit"]
    ranks = [rank.rank for rank in verdict.affected_ranks if rank.role == "culprit"]
    return {
        "terminal_state": verdict.terminal_state,
        "manifestation": verdict.manifestation,
        "domain": verdict.domain,
        "failure_class": verdict.failure_class,
        "quality": verdict.quality.level,
        "root_causes": ", ".join(sorted(cause.symptom for cause in verdict.root_causes)),
        "culprit_nodes": ", ".join(sorted(culprits)),
        "culprit_ranks": ", ".join(str(rank) for rank in sorted(ranks)),
        "actions": ", ".join(sorted({action.action for action in verdict.actions})),
    }
