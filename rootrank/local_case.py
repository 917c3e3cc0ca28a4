"""A bundle on this machine as the engine's case: planned, collected and gathered in process."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import engine
from connectors.bundle import LoadedBundle, load_bundle
from connectors.static import NAME as STATIC
from connectors.static import StaticConnector
from engine.case import Case
from engine.extract.scanner import Scanner
from engine.model.plan import Plan, Report
from engine.rulebook.book import Rulebook
from functions.attribute.undescribed import BUNDLE, reported_losses, with_window
from functions.collect.collection import CollectedItem, Collecting, collect_item
from functions.scope.planning import RuleDigests, make_plan, windows_of
from rootrank.kept import kept_rulebook, kept_scanner

SHIPPED: Final = Path(engine.__file__).resolve().parent.parent / "rules"
"""The rules of this release."""

_MAX_NOTES: Final = 20
_RUNNING: Final = ("RUNNING", "COMPLETING", "SUSPENDED")


@dataclass(slots=True, frozen=True)
class LocalCase:
    """A case with the bundle and the plan that it came from."""

    case: Case
    bundle: LoadedBundle
    plan: Plan


def load_book(folder: Path | None = None, site: Path | None = None) -> Rulebook:
    """Return the rulebook of `folder`, or the shipped one, with a site's own rules over it.

    Raises `RulesError` with every problem of either.
    """
    if site is not None:
        from engine.rulebook.site import site_files, with_site  # noqa: PLC0415  rarely asked for

        return with_site(load_book(folder), site_files(site))
    return kept_rulebook(folder or SHIPPED)


def read_case(path: Path | str, *, book: Rulebook, scanner: Scanner | None = None) -> LocalCase:
    """Load, plan and collect one bundle, bare folder or file; raises `BundleError`."""
    bundle = load_bundle(path)
    plan = make_plan(
        bundle.workload,
        (*bundle.evidence, *(each for each in bundle.declared if each.path in bundle.missing)),
        digests=RuleDigests.of(book),
        sizes=bundle.sizes,
    )
    collecting = Collecting(book=book, scanner=scanner or kept_scanner(book))
    connector = StaticConnector(bundle.source)
    collected = [
        collect_item(
            item,
            workload=plan.workload,
            connector=connector if item.connector == STATIC else None,
            collecting=collecting,
        )
        for item in plan.items
    ]
    return LocalCase(_case_of(bundle, plan, collected), bundle, plan)


def _case_of(bundle: LoadedBundle, plan: Plan, collected: list[CollectedItem]) -> Case:
    streams = [each for item in collected for each in item.summaries]
    workload, windows = plan.workload, plan.windows
    if bundle.is_inferred:
        workload = with_window(workload, streams)
        windows = windows_of(workload)
    reports = [item.report for item in collected]
    reports += _bundle_report(bundle, plan)
    state = (workload.state or "").upper()
    return Case(
        workload=workload,
        observations=[each for item in collected for each in item.observations],
        streams=streams,
        reports=reports,
        windows=windows,
        losses=tuple(reported_losses(reports)),
        still_running=state.startswith(_RUNNING) and workload.end is None,
    )


def _bundle_report(bundle: LoadedBundle, plan: Plan) -> list[Report]:
    """Say what had to be inferred, or could not be: unknown is a result."""
    if not bundle.notes:
        return []
    return [
        Report(
            item_id="bundle",
            connector=BUNDLE,
            shard="inference",
            status="partial",
            reason="; ".join(sorted(bundle.notes)[:_MAX_NOTES]),
            extraction_digest=plan.extraction_digest,
        )
    ]
