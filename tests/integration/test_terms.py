"""Grace, deadline, budget and history, as a plan carries them and a verdict shows them."""

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from functions.adapters import site_file
from functions.scope import affordable
from functions.scope.scoping import read_plan

SITE = """version: 1
clusters:
  - name: quick
    grace_seconds: 0
    deadline_seconds: 60
  - name: late
    grace_seconds: 3600
    deadline_seconds: 600
  - name: poor
    budget_usd: '0.002'
"""
BUNDLE = "043-node-failure-only"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives the stack a site file."""

    def give(text: str) -> None:
        path = tmp_path / "sources.yaml"
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv(site_file.VARIABLE, str(path))
        site_file.configured_site.cache_clear()

    yield give
    site_file.configured_site.cache_clear()


def send(embedded: Any, cluster: str) -> tuple[str, dict[str, Any]]:
    workload = {**embedded.workload(), "cluster": cluster}
    embedded.send(workload, bundle_uri=embedded.bundle(BUNDLE))
    key = embedded.key.replace("default/default/", f"default/{cluster}/")
    return key, embedded.current(key)


def plans(embedded: Any, key: str) -> list[Any]:
    names = [name for name, _ in embedded.store.list_objects(f"{key}/plans/")]
    return [read_plan(embedded.store, name) for name in names if name.endswith("/plan.json")]


def test_a_clusters_own_grace_and_deadline_are_in_its_plans_and_items(
    embedded: Any, site: Callable[[str], None]
) -> None:
    site(SITE)
    key, current = send(embedded, "quick")
    first, second = plans(embedded, key)
    assert first.grace_seconds == 0
    assert first.deadline_at == second.deadline_at
    assert {item.deadline_at for item in first.items} == {first.deadline_at}
    assert current["status"] == "final"


def test_a_second_collection_that_would_miss_the_deadline_is_not_begun(
    embedded: Any, site: Callable[[str], None]
) -> None:
    site(SITE)
    key, current = send(embedded, "late")
    assert len(plans(embedded, key)) == 1
    assert current["status"] == "final"
    assert json.loads(embedded.verdict(key))["quality"]["would_change"]


def test_a_budget_that_is_too_small_gives_a_partial_and_truthful_verdict(
    embedded: Any, site: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    site(SITE)
    # At this price the accounting record can be paid for, and the log cannot.
    monkeypatch.setattr(affordable, "USD_PER_GB", Decimal(400))
    key, current = send(embedded, "poor")
    verdict = json.loads(embedded.verdict(key))
    (report,) = [each for each in verdict["connector_reports"] if each["connector"] == "budget"]
    assert report["status"] == "partial"
    assert "were not read: the budget is $0.00" in report["reason"]
    (unread,) = [each for each in verdict["coverage"] if each["source"] == "applog"]
    assert unread["state"] == "failed"
    assert "the budget is" in unread["reason"]
    assert verdict["terminal_state"] == "node_fail"
    assert current["terminal_state"] == "node_fail"


def test_the_envelope_says_what_an_attribution_took(embedded: Any) -> None:
    embedded.send(embedded.workload(), bundle_uri=embedded.bundle(BUNDLE))
    current = embedded.current(embedded.key)
    envelope = json.loads(embedded.store.get(current["envelope_key"])[0])
    cost = envelope["cost"]
    assert cost["bytes_scanned"] > 0
    assert cost["requests"] > 20
    assert 0 < float(cost["usd_estimate"]) < 0.05
    assert cost["priced_on"] == "2025-07-21"
    assert sorted(envelope["timings_ms"]) == [
        "attribute", "collect_longest", "collect_total", "plan",
    ]  # fmt: skip
    assert current["usd_estimate"] == cost["usd_estimate"]


def test_earlier_attempts_and_verdicts_on_the_same_node_are_given_as_history(
    embedded: Any,
) -> None:
    cluster = f"h{embedded.job_id}"
    uri = embedded.bundle(BUNDLE)
    first = {**embedded.workload(), "cluster": cluster, "attempt": 0, "nodes": ["node-037"]}
    second = {
        **first, "attempt": 1, "start": "2023-03-06T03:30:00Z", "end": "2023-03-06T04:00:00Z",
    }  # fmt: skip
    embedded.send(first, bundle_uri=uri)
    embedded.send(second, bundle_uri=uri)
    other = {**second, "job_id": f"{embedded.job_id}9", "attempt": 0}
    other |= {"start": "2023-03-06T05:00:00Z", "end": "2023-03-06T06:00:00Z"}
    embedded.send(other, bundle_uri=uri)
    base = f"default/{cluster}/slurm"
    (entry,) = json.loads(embedded.verdict(f"{base}/{embedded.job_id}/r1"))["history"]["verdicts"]
    assert (entry["relation"], entry["job_id"], entry["attempt"], entry["shared"]) == (
        "earlier_attempt", embedded.job_id, 0, ["node-037"],
    )  # fmt: skip
    given = json.loads(embedded.verdict(f"{base}/{embedded.job_id}9/r0"))["history"]["verdicts"]
    assert {each["relation"] for each in given} == {"same_node"}
    assert json.loads(embedded.verdict(f"{base}/{embedded.job_id}/r0"))["history"]["verdicts"] == []


def test_secrets_in_a_jobs_name_are_stored_nowhere(embedded: Any) -> None:
    named = {**embedded.workload(), "name": "train --api-key sk-proj-abcdefghijklmnopqrstuvwx"}
    embedded.send(named)
    current = embedded.current(embedded.key)
    assert current["name"] == "train --api-key [redacted]"
    kept = [embedded.store.get(key)[0] for key, _ in embedded.store.list_objects(embedded.key)]
    assert all(b"sk-proj" not in body for body in kept)


def test_an_event_for_another_accounts_tenant_waits_in_the_dead_letter_queue(
    embedded: Any, site: Callable[[str], None]
) -> None:
    site(
        "version: 1\ntenants:\n"
        "  - {name: ours, accounts: ['123456789012']}\n"
        "  - {name: theirs, accounts: ['210987654321']}\n"
        "redaction:\n  emails: true\n"
    )
    workload = {**embedded.workload(), "name": "sft by ada@example.org"}
    for tenant in ("ours", "theirs"):
        embedded.send({**workload, "tenant": tenant})
    key = embedded.key.replace("default/default/", "ours/default/")
    assert embedded.current(key)["name"] == "sft by [redacted]"
    letters = [each["body"]["detail"]["workload"] for each in embedded.stack.dead_letters()]
    assert [each["tenant"] for each in letters if each["job_id"] == embedded.job_id] == ["theirs"]
    kept = [embedded.store.get(name)[0] for name, _ in embedded.store.list_objects("ours/")]
    assert kept
    assert all(b"ada@example.org" not in body for body in kept)
