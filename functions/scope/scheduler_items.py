"""What a site's own scheduler adds to a plan: its description of the attempt, and an item. Pure."""

from collections.abc import Sequence
from typing import Final

from connectors.schedulers.attempt import enrich
from connectors.schedulers.kubernetes import NAME as KUBERNETES
from connectors.schedulers.slurm import NAME as SLURM
from connectors.schedulers.slurm import SlurmConnector
from connectors.site import Cluster
from connectors.telemetry.settings import CLUSTER
from engine.model.canonical import short_id
from engine.model.evidence_request import EvidenceRequest
from engine.model.plan import PlanItem, Window
from engine.model.workload import Workload

_SLURM: Final = frozenset({"slurm", "pcs"})
_KUBERNETES: Final = frozenset({"kubernetes", "kueue"})


def scheduler_items(
    cluster: Cluster | None,
    workload: Workload,
    *,
    windows: tuple[Window, ...],
    requests: Sequence[EvidenceRequest] = (),
) -> list[PlanItem]:
    """Return the item that asks the scheduler of the attempt's cluster, if one is configured.

    With `requests` (the second collection) it is asked again only where one names its source.
    """
    if cluster is None:
        return []
    found: list[PlanItem] = []
    for name, source, schedulers, settings in (
        (SLURM, "scheduler", _SLURM, cluster.slurm),
        (KUBERNETES, "kubernetes", _KUBERNETES, cluster.kubernetes),
    ):
        is_asked = not requests or any(each.source == source for each in requests)
        if settings is None or workload.scheduler not in schedulers or not is_asked:
            continue
        found.append(
            PlanItem.model_validate(
                {
                    "item_id": short_id("i", name, cluster.name, str(len(requests))),
                    "connector": name,
                    "shard": name,
                    "source": source,
                    "windows": windows,
                    "budget": cluster.budget,
                    "query": {CLUSTER: cluster.name},
                    **({} if cluster.runner == "lambda" else {"runner": cluster.runner}),
                }
            )
        )
    return found


def described(workload: Workload, connector: SlurmConnector) -> Workload:
    """Return the workload with what accounting knows of the attempt; raises `ConnectorError`s.

    What the event says stays: accounting may be late, or of another attempt.
    """
    attempt = connector.describe(workload)
    return workload if attempt is None else enrich(workload, attempt)
