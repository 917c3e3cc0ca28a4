"""Lambda entry point of scope's second half: plan, the workflow's first state."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.parser import parse
from aws_lambda_powertools.utilities.typing import LambdaContext

from connectors.protocol import ConnectorError
from connectors.site import SiteError
from engine.model.evidence_request import EvidenceRequest
from engine.model.plan import Plan, PlanItem
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook
from functions.adapters.metering import emit
from functions.adapters.results_query import ResultsQuery
from functions.adapters.rulebook import shipped_rulebook
from functions.adapters.services import Services, connect
from functions.adapters.site_file import configured_site, site_redactor
from functions.adapters.site_rules import site_rules
from functions.adapters.site_sources import aws_outside
from functions.adapters.tracing import traced
from functions.scope.claiming import Claims
from functions.scope.past import Past
from functions.scope.planning import RuleDigests
from functions.scope.reception import masked
from functions.scope.scheduler_items import described, scheduler_items
from functions.scope.scoping import PlanTask, Scoping
from functions.scope.telemetry import telemetry_items
from functions.scope.terms import Terms, terms_of

logger = Logger(service="rootrank")


@traced
def plan(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Make and store the plan of one collection."""
    task = parse(event=event, model=PlanTask)
    services = connect()
    meter = services.start_meter(int(context.memory_limit_in_mb))
    prefix = services.settings.site_rules
    book = site_rules.over(shipped_rulebook(), services.store, prefix=prefix).book
    scoping = Scoping(
        _claims(services),
        services.store,
        services.table,
        lambda: RuleDigests.of(book),
        partial(_site_items, book),
        _ask_scheduler,
        mask=_masked,
        past=Past(
            ResultsQuery(services.table.client, services.table.name), services.store, _switches
        ),
        terms=_terms,
        meter=meter.read,
    )
    scoped = scoping.scope(task)
    logger.info("planned", extra={**task.model_dump(), **asdict(scoped)})
    emit({"ItemsPlanned": scoped.item_count})
    return asdict(scoped)


def _site_items(
    book: Rulebook, plan: Plan, requests: Sequence[EvidenceRequest]
) -> Sequence[PlanItem]:
    try:
        site = configured_site()
    except SiteError as error:
        # The item fails with the same words, so that the verdict's coverage tells of it.
        logger.warning("sources.yaml cannot be used", extra={"reason": str(error)[:2000]})
        return () if requests else (PlanItem(item_id="i-site", connector="site", shard="site"),)
    if site is None:
        return ()
    cluster = site.cluster(plan.workload.cluster)
    asked = scheduler_items(cluster, plan.workload, windows=plan.windows, requests=requests)
    return asked + telemetry_items(
        cluster,
        plan.workload,
        book=book,
        windows=plan.windows,
        requests=requests,
        collection=plan.collection,
    )


def _ask_scheduler(workload: Workload) -> Workload:
    """Return the workload with what its scheduler knows; where it cannot say, the event alone."""
    try:
        site = configured_site()
        cluster = None if site is None else site.cluster(workload.cluster)
        if cluster is None or cluster.slurm is None or workload.scheduler not in ("slurm", "pcs"):
            return workload
        if cluster.runner != "lambda":  # it cannot be reached from here; its item asks it
            return workload
        from connectors.registry import slurm_connector  # noqa: PLC0415  see site_sources

        return described(workload, slurm_connector(cluster, aws_outside()))
    except ConnectorError as error:
        logger.warning("the scheduler was not asked", extra={"reason": str(error)[:2000]})
        return workload


def _masked(workload: Workload) -> Workload:
    """Return the workload without what a site wants masked; of an unknown wish, without names."""
    try:
        return masked(workload, site_redactor())
    except SiteError:
        return workload.model_copy(update={"name": None, "user": None})


def _switches(workload: Workload, nodes: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return the site's switches above the nodes; none where the site file cannot be used."""
    try:
        site = configured_site()
    except SiteError:
        return {}
    cluster = None if site is None else site.cluster(workload.cluster)
    return {} if cluster is None else cluster.above(nodes)


def _terms(workload: Workload) -> Terms:
    try:
        return terms_of(configured_site(), workload)
    except SiteError:
        return Terms()


def _claims(services: Services) -> Claims:
    return Claims(services.store, services.table)
