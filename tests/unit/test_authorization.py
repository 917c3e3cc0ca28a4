"""Who may speak for whom."""

from pathlib import Path

import pytest

from connectors.schedulers import kubernetes, slurm
from connectors.schedulers.scoped import ScopedEvent
from connectors.site import AtOnce, Site, SiteError, read_site
from connectors.telemetry import cloudwatch, files, loki, pod_logs, prometheus
from functions.scope.authorization import NotAuthorizedError, authorize
from functions.scope.terms import terms_of

FILE = b"""version: 1
tenants:
  - {name: team-a, accounts: ['111111111111', '222222222222']}
  - {name: team-b, accounts: ['333333333333']}
clusters:
  - name: research
    tenant: team-a
    grace_seconds: 60
    deadline_seconds: 1800
    budget_usd: '0.05'
    at_once: {loki: 4}
"""
BUNDLES = "s3://ours/bundles/"


def site() -> Site:
    return read_site(FILE, shown="sources.yaml")


def event(tenant: str, account: str, *, cluster: str = "x", uri: str | None = None) -> ScopedEvent:
    workload = {"scheduler": "slurm", "job_id": "1", "tenant": tenant, "cluster": cluster}
    return ScopedEvent.model_validate(
        {"origin": "t", "workload": workload, "account": account, "bundle_uri": uri}
    )


@pytest.mark.parametrize("account", ["111111111111", "222222222222"])
def test_an_account_speaks_for_its_own_tenant(account: str) -> None:
    authorize(event("team-a", account, cluster="research"), site(), bundles=BUNDLES)
    authorize(event("team-a", account, uri=f"{BUNDLES}team-a/x/"), site(), bundles=BUNDLES)


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (event("team-a", "333333333333"), "account 333333333333 may not speak for tenant 'team-a'"),
        (event("team-a", ""), "account unknown may not speak"),
        (event("team-c", "111111111111"), "tenant 'team-c' is not in the site file"),
        (event("default", "111111111111"), "tenant 'default' is not in the site file"),
        (event("team-b", "333333333333", cluster="research"), "cluster 'research' is tenant"),
        (event("team-b", "333333333333", uri=f"{BUNDLES}team-a/x/"), "is not below s3://ours/"),
        (event("team-b", "333333333333", uri=f"{BUNDLES}team-bb/"), "is not below s3://ours/"),
    ],
)
def test_nobody_speaks_for_another(sent: ScopedEvent, told: str) -> None:
    with pytest.raises(NotAuthorizedError, match=told):
        authorize(sent, site(), bundles=BUNDLES)


def test_without_tenants_everybody_is_let_in() -> None:
    authorize(event("any", ""), None, bundles=BUNDLES)
    authorize(event("any", ""), Site(version=1), bundles=BUNDLES)


def test_terms_are_those_of_the_attempts_cluster() -> None:
    known = terms_of(site(), event("team-a", "1", cluster="research").workload)
    assert (known.grace_seconds, known.deadline_seconds) == (60, 1800)
    assert str(known.budget_usd) == "0.05"
    other = terms_of(site(), event("team-a", "1").workload)
    assert (other.grace_seconds, other.deadline_seconds, other.budget_usd) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ((b"tenant: team-a", b"tenant: team-x"), "clusters of tenants that are not listed: team-x"),
        ((b"team-b", b"team-a"), "a tenant is named twice"),
        ((b"'333333333333'", b"'3333'"), "accounts"),
        ((b"name: team-b", b"name: a/b"), "name"),
        ((b"0.05", b"0.0001"), "budget_usd"),
        ((b"loki: 4", b"loki: 0"), "at_once"),
        ((b"loki: 4", b"lokki: 4"), "unknown key; did you mean 'loki'"),
    ],
)
def test_a_site_file_that_would_not_hold_is_refused(change: tuple[bytes, bytes], told: str) -> None:
    with pytest.raises(SiteError, match=told):
        read_site(FILE.replace(*change), shown="sources.yaml")


def test_the_site_file_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs/tenants.md").read_text(encoding="utf-8")
    text = page.split("```yaml\n", 1)[1].split("```", 1)[0]
    assert [each.name for each in read_site(text.encode(), shown="page").tenants] == [
        "team-a", "team-b",
    ]  # fmt: skip


def test_every_source_of_a_site_can_be_limited_under_its_connectors_name() -> None:
    names = {slurm.NAME, kubernetes.NAME, files.NAME, prometheus.NAME, loki.NAME, cloudwatch.NAME,
             pod_logs.NAME}  # fmt: skip
    assert set(AtOnce.model_fields) == names
    assert site().clusters[0].at_once == AtOnce(loki=4)
