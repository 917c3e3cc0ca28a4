"""What a site allows the attempts of a cluster: how long late evidence may take, until when a
verdict has to be final, and what it may cost."""

from dataclasses import dataclass
from decimal import Decimal

from connectors.site import Site
from engine.model.workload import Workload


@dataclass(slots=True, frozen=True)
class Terms:
    """The terms of one cluster; what is absent is the stack's own, or without limit."""

    grace_seconds: int | None = None
    deadline_seconds: int | None = None
    budget_usd: Decimal | None = None


def terms_of(site: Site | None, workload: Workload) -> Terms:
    """Return the terms of the attempt's cluster."""
    cluster = None if site is None else site.cluster(workload.cluster)
    if cluster is None:
        return Terms()
    return Terms(cluster.grace_seconds, cluster.deadline_seconds, cluster.budget_usd)
