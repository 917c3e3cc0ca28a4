"""The snapshot of what failed at the same time, and what a later look adds to it."""

from collections.abc import Iterator
from typing import Any

import pytest

from connectors.site import SiteError, read_site
from engine.model.verdict import PastVerdict
from engine.model.workload import Workload, image_mark
from functions.adapters.results_query import Span
from functions.scope.past import Past

SITE = b"""
version: 1
clusters:
  - name: a100
    switches:
      - {name: leaf-01, nodes: 'n[1-4]'}
      - {name: leaf-02, nodes: ['n[5-8]', n9]}
"""
KEY = "default/a100/slurm/1/r0"
WORKLOAD = Workload.model_validate(
    {
        "scheduler": "slurm", "cluster": "a100", "job_id": "1", "state": "FAILED",
        "start": "2026-01-31T10:00:00Z", "end": "2026-01-31T23:55:00Z", "image": "train:7",
        "nodes": ["n1", "n5"],
    }
)  # fmt: skip


class Items:
    """Stands for the table: what `by_day` would find, and which partitions were asked for."""

    def __init__(self, *items: dict[str, Any]):
        self.items = items
        self.asked: list[str] = []

    def by_job(self, _job: str, **_named: Any) -> Iterator[dict[str, Any]]:
        return iter(())

    def by_day(
        self, cluster: str, day: str, span: Span | None = None, *, names: Any
    ) -> Iterator[dict[str, Any]]:
        self.asked.append(f"{cluster} {day}")
        for item in self.items:
            ended = f"{item['end']}#{item['attempt_key']}"
            inside = span is None or str(span.since) <= ended < str(span.before)
            if item["end"].startswith(day) and inside:
                yield {key: value for key, value in item.items() if key in names}


def failed(job: str, *, end: str = "2026-02-01T00:02:00Z", **fields: Any) -> dict[str, Any]:
    return {
        "attempt_key": f"default/a100/slurm/{job}/r0", "attribution_id": f"sha256:{job}",
        "job_id": job, "start": "2026-01-31T12:00:00Z", "end": end, "domain": "network",
        "failure_class": "port_down", **fields,
    }  # fmt: skip


def past(*items: dict[str, Any]) -> Past:
    cluster = read_site(SITE, shown="sources.yaml").cluster("a100")
    assert cluster is not None
    above = cluster.above
    return Past(Items(*items), object(), lambda _workload, nodes: above(nodes))  # type: ignore[arg-type]


def found(*items: dict[str, Any]) -> tuple[PastVerdict, ...]:
    return past(*items).of(KEY, WORKLOAD)


def test_a_job_that_lost_nodes_below_a_shared_switch_is_given_across_midnight() -> None:
    (entry,) = found(failed("2", culprits=["n2"]))
    assert (entry.relation, entry.shared) == ("concurrent", ("switch leaf-01",))
    assert entry.below == {"switch leaf-01": ("n1",)}


def test_the_same_image_and_what_the_other_names_are_given() -> None:
    (entry,) = found(failed("2", image="train:7", named=["switch core-1"]))
    assert (entry.shared, entry.named) == (("image train:7",), ("switch core-1",))


@pytest.mark.parametrize(
    "other",
    [
        failed("2", culprits=["n20"], image="train:8"),
        failed("2", culprits=["n2"], end="2026-02-01T00:06:00Z"),
        failed("2", culprits=["n2"], end="2026-01-31T23:44:00Z"),
        failed("2", culprits=["n2"], domain="unknown"),
    ],
    ids=["nothing in common", "too late", "too early", "no cause"],
)
def test_what_has_nothing_in_common_is_not_given(other: dict[str, Any]) -> None:
    assert found(other) == ()


def test_a_shared_node_is_told_once_with_what_else_is_shared() -> None:
    (entry,) = found(failed("2", culprits=["n5"], image="train:7"))
    assert entry.shared == ("n5", "switch leaf-02", "image train:7")


def test_a_later_look_adds_what_failed_alike_and_was_not_known() -> None:
    first, second = failed("2", culprits=["n2"]), failed("3", culprits=["n3"])
    other = failed("4", culprits=["n4"], failure_class="nic_dead")
    known = [each.model_dump() for each in found(first)]
    added = past(first, second, other).since(
        KEY, WORKLOAD, known=known, cause=("network", "port_down")
    )
    assert [each.job_id for each in added] == ["3"]


def test_a_switch_named_twice_is_refused() -> None:
    with pytest.raises(SiteError, match="a switch is named twice"):
        read_site(SITE.replace(b"leaf-02", b"leaf-01"), shown="sources.yaml")


def test_an_image_is_compared_without_its_name() -> None:
    assert image_mark("repo/train:7") == image_mark("repo/train:7") != image_mark("repo/train:8")
    assert "train" not in str(image_mark("repo/train:7"))
    assert image_mark(None) is None


@pytest.mark.parametrize("end", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_an_end_at_the_edge_of_the_calendar_has_a_past_too(end: str) -> None:
    workload = Workload.model_validate({**WORKLOAD.model_dump(), "start": None, "end": end})
    items = Items(failed("2", end=end, start=None, culprits=["n1"]))
    (found,) = Past(items, None).of(KEY, workload)  # type: ignore[arg-type]
    assert found.shared == ("n1",)
