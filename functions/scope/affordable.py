"""A budget in dollars, turned into what may be read: the rest is left out and told. Pure.

Reading costs by the byte, and each item costs by itself; what is cheap and telling comes first, so
that a small budget still sees the scheduler's words and the kernels' before the ranks' logs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, get_args

from engine.model.plan import Plan, PlanItem, Report
from engine.model.vocabulary import Source
from engine.model.workload import EvidenceSource

USD_PER_GB: Final = Decimal("0.0015")
"""Scanning with the shipped rules at 20 MB/s (docs/benchmarks.md) on the collector's 1.73 GB."""
USD_PER_ITEM: Final = Decimal("0.0002")
"""Start-up of a collector, its states and its requests (docs/cost.md)."""
USD_FIXED: Final = Decimal("0.001")
"""Admission, two plans, two attributions and a message."""
LEAST_BYTES: Final = 1024**2
"""What a source that a site configured may read at least."""
UNAFFORDED: Final = "unafforded "
"""Notes that start so name a source and why not all of it was read."""
_GB: Final = 1024**3
_FIRST: Final[tuple[Source, ...]] = (
    "scheduler", "kubernetes", "inventory", "syslog", "flight_recorder", "applog", "metrics",
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class Affordable:
    """What a budget buys of a bundle's evidence; `bytes_left` is for other sources."""

    evidence: tuple[EvidenceSource, ...]
    notes: tuple[str, ...] = ()
    bytes_left: int | None = None


def afford(
    evidence: Sequence[EvidenceSource], sizes: Mapping[str, int], budget_usd: Decimal | None
) -> Affordable:
    """Return the evidence that fits into the budget, all of it where there is none.

    Within a source small files come first: many ranks are seen before one long log.
    """
    if budget_usd is None:
        return Affordable(tuple(evidence))
    left = int(max(Decimal(0), budget_usd - USD_FIXED - 2 * USD_PER_ITEM) / USD_PER_GB * _GB)
    chosen: set[int] = set()
    skipped: dict[Source, list[int]] = {}
    order = sorted(
        range(len(evidence)),
        key=lambda at: (
            _FIRST.index(evidence[at].source),
            sizes.get(evidence[at].path, 0),
            evidence[at].model_dump_json(),
        ),
    )
    for at in order:
        size = sizes.get(evidence[at].path, 0)
        if size <= left:
            left -= size
            chosen.add(at)
        else:
            skipped.setdefault(evidence[at].source, []).append(size)
    notes = tuple(
        f"{UNAFFORDED}{source}: {len(sizes)} files of {sum(sizes)} bytes were not read: "
        f"the budget is ${budget_usd:f}"
        for source, sizes in sorted(skipped.items())
    )
    kept = tuple(entry for at, entry in enumerate(evidence) if at in chosen)
    return Affordable(kept, notes, left)


def limited(items: Sequence[PlanItem], bytes_left: int | None) -> list[PlanItem]:
    """Return a site's items with what is left of the budget shared among them."""
    if bytes_left is None or not items:
        return list(items)
    share = max(LEAST_BYTES, bytes_left // len(items))
    return [
        item
        if item.budget.bytes <= share
        else item.model_copy(update={"budget": item.budget.model_copy(update={"bytes": share})})
        for item in items
    ]


def unafforded_reports(plan: Plan) -> list[Report]:
    """Return a report for each source of which not all could be paid for: partial, never silent."""
    told = [note.removeprefix(UNAFFORDED) for note in plan.notes if note.startswith(UNAFFORDED)]
    found = []
    for note in told:
        source, _, reason = note.partition(": ")
        if source in get_args(Source):
            found.append(
                Report.model_validate(
                    {
                        "item_id": f"budget-{source}",
                        "connector": "budget",
                        "shard": source,
                        "source": source,
                        "status": "partial",
                        "reason": reason,
                        "extraction_digest": plan.extraction_digest,
                    }
                )
            )
    return found
