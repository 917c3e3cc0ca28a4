"""Who may speak for whom: an event's tenant, cluster and bundle against the site file. Pure.

EventBridge itself writes the account into an event, so a sender cannot choose it; everything
below `detail` it can.
"""

from typing import TYPE_CHECKING

from connectors.protocol import ConnectorError
from connectors.schedulers.scoped import ScopedEvent

if TYPE_CHECKING:
    from connectors.site import Site


class NotAuthorizedError(ConnectorError):
    """An event that speaks for a tenant or cluster that is not its account's."""


def authorize(event: ScopedEvent, site: "Site | None", *, bundles: str) -> None:
    """Let an event pass, or raise `NotAuthorizedError`; without tenants in the site file all pass.

    `bundles` is the place below which bundles lie, such as `s3://bucket/bundles/`; with tenants
    each has its own folder there, so that nobody has another's evidence read for him.
    """
    if site is None or not site.tenants:
        return
    workload = event.workload
    tenant = next((each for each in site.tenants if each.name == workload.tenant), None)
    if tenant is None:
        raise NotAuthorizedError(
            f"tenant {workload.tenant!r} is not in the site file; add it under tenants"
        )
    if event.account not in tenant.accounts:
        raise NotAuthorizedError(
            f"account {event.account or 'unknown'} may not speak for tenant {tenant.name!r}; "
            "add it to the tenant's accounts"
        )
    cluster = site.cluster(workload.cluster)
    if cluster is not None and cluster.tenant is not None and cluster.tenant != tenant.name:
        raise NotAuthorizedError(
            f"cluster {workload.cluster!r} is tenant {cluster.tenant!r}'s, not {tenant.name!r}'s"
        )
    allowed = f"{bundles}{tenant.name}/"
    if event.bundle_uri is not None and not event.bundle_uri.startswith(allowed):
        raise NotAuthorizedError(f"bundle_uri {event.bundle_uri!r} is not below {allowed}")
