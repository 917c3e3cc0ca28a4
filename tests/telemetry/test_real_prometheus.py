"""Metric rules driven through the connector by a real Prometheus with backfilled series."""

import subprocess
import time
import urllib.request
from datetime import UTC, datetime

import pytest
from prometheus_server import BASE, Prometheus, free_port, series

from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from connectors.telemetry.promql import read_queries
from engine.model.plan import Budget
from engine.model.workload import Workload
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.collect.collection import Collecting, collect_item
from functions.scope.planning import windows_of
from functions.scope.telemetry import metric_queries, telemetry_items

pytestmark = pytest.mark.system("prometheus")

GPU = {"gpu": "0", "modelName": "H100"}


def step(before, after, at):
    return lambda offset: after if offset >= at else before


SERIES = [
    series("DCGM_FI_DEV_XID_ERRORS", {**GPU, "Hostname": "n1"}, step(0, 79, 600)),
    series("DCGM_FI_DEV_XID_ERRORS", {**GPU, "Hostname": "n2"}, lambda offset: 0),
    # An old code that was there before the job says nothing of it.
    series("DCGM_FI_DEV_XID_ERRORS", {**GPU, "Hostname": "n3"}, lambda offset: 48),
    # Another job's node.
    series("DCGM_FI_DEV_XID_ERRORS", {**GPU, "Hostname": "n9"}, step(0, 79, 600)),
    # The exporter restarts: a gap of two minutes, the counter begins anew and then grows.
    series(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        {"gpu": "3", "Hostname": "n2"},
        lambda offset: 7 if offset < 400 else None if offset < 520 else 0 if offset < 700 else 1,
        kind="gauge",
    ),
    # A restart alone is no growth.
    series(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        {"gpu": "4", "Hostname": "n2"},
        lambda offset: 9 if offset < 400 else None if offset < 520 else 0,
    ),
    series("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", {**GPU, "Hostname": "n3"}, step(0, 64, 600)),
    series(
        "node_network_carrier_changes_total",
        {"device": "eth0", "instance": "n3.cluster.local:9100"},
        lambda offset: 2 + offset // 100,
        kind="counter",
    ),
    series(
        "node_memory_MemAvailable_bytes",
        {"instance": "n2:9100"},
        step(90_000_000_000, 900_000_000, 900),
    ),
    series("up", {"instance": "n1:9100", "job": "node-exporter"}, step(1, 0, 1_000)),
    series("up", {"instance": "n2:9100", "job": "node-exporter"}, lambda offset: 1),
    # Exported by the site, but not of these nodes.
    series("node_boot_time_seconds", {"instance": "n9:9100"}, lambda offset: 5),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), SERIES)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def collecting():
    book = shipped_rulebook()
    return Collecting(book=book, scanner=scanners.scanner_of(book))


def workload(nodes=("n1", "n2", "n3"), start=BASE, end=BASE + 1_200):
    return Workload(
        scheduler="slurm",
        job_id="7",
        cluster="a",
        nodes=nodes,
        start=datetime.fromtimestamp(start, UTC),
        end=datetime.fromtimestamp(end, UTC),
    )


def collect(server, collecting, *, job=None, more="", budget=None, url=None):
    text = (
        f"version: 1\nclusters:\n  - name: a\n    prometheus:\n      url: {url or server.url}\n"
        f"      values: {{job: {{node: node-exporter}}}}\n{more}"
    )
    site = read_site(text.encode(), shown="sources.yaml")
    job = job or workload()
    (item,) = telemetry_items(site.cluster("a"), job, book=collecting.book, windows=windows_of(job))
    if budget:
        item = item.model_copy(update={"budget": budget})
    (connector,) = build_connectors(site, Outside(pause=lambda seconds: None))
    return collect_item(item, workload=job, connector=connector, collecting=collecting)


def seen(found):
    return {(each.symptom, each.entity.node, each.entity.gpu_index) for each in found.observations}


def test_each_rule_sees_its_series_and_nothing_else(server, collecting):
    found = collect(server, collecting)
    assert seen(found) == {
        ("gpu_xid_metric", "n1", 0),
        ("gpu_ecc_metric", "n2", 3),
        ("gpu_thermal_slowdown", "n3", 0),
        ("network_carrier_changes", "n3", None),
        ("host_memory_low", "n2", None),
        ("host_exporter_lost", "n1", None),
    }


def test_a_step_is_dated_between_two_samples(server, collecting):
    found = collect(server, collecting)
    (xid,) = [each for each in found.observations if each.symptom == "gpu_xid_metric"]
    assert xid.when.earliest_us == (BASE + 585) * 1_000_000
    assert xid.when.latest_us == (BASE + 600) * 1_000_000
    assert xid.fields["last_value"] == "79"


def test_a_reset_counts_from_zero_and_a_gap_adds_nothing(server, collecting):
    found = collect(server, collecting)
    (ecc,) = [each for each in found.observations if each.symptom == "gpu_ecc_metric"]
    assert ecc.fields["increase"] == "1"
    assert ecc.fields["resets"] == "1"


def test_evidence_is_a_line_of_the_fetched_text(server, collecting):
    found = collect(server, collecting)
    (low,) = [each for each in found.observations if each.symptom == "host_memory_low"]
    assert low.first.origin.uri == "prometheus/node_memory_MemAvailable_bytes"
    assert low.first.origin.line == 61
    assert low.first.text == (
        'node_memory_MemAvailable_bytes{instance="n2:9100"} 900000000 1767226500000'
    )


def test_what_is_not_exported_is_told_apart_from_what_these_nodes_lack(server, collecting):
    warnings = " ".join(collect(server, collecting).report.warnings)
    assert "not exported here, so never healthy by it: DCGM_FI_DEV" in warnings
    assert "but not for these nodes (check labels): node_boot_time_seconds" in warnings


def test_nodes_that_no_series_names_are_unverified_and_never_healthy(server, collecting):
    found = collect(server, collecting, job=workload(nodes=("m1", "m2")))
    assert found.observations == []
    assert found.report.coverage == "unverified"
    assert found.report.status == "empty"


def test_a_mistyped_label_is_unverified(server, collecting):
    more = "      labels: {Hostname: hostnam, instance: instnce}\n"
    found = collect(server, collecting, more=more)
    assert found.observations == []
    assert found.report.coverage == "unverified"


def test_a_server_without_any_of_the_metrics_is_not_configured(server, collecting):
    found = collect(server, collecting, more="      matchers: {cluster: elsewhere}\n")
    assert found.report.status == "skipped"
    assert "exports none of the" in found.report.reason


def test_one_node_without_series_makes_it_partial(server, collecting):
    found = collect(server, collecting, job=workload(nodes=("n1", "n2", "n3", "n4")))
    assert found.report.status == "partial"
    assert "prometheus/of n4" in found.report.paths_missing


def test_a_long_run_is_asked_for_in_coarse_steps_and_its_end_in_samples(server, collecting):
    raw = collect(server, collecting)
    coarse = collect(server, collecting, more="      raw_seconds: 300\n")
    assert seen(coarse) == seen(raw)
    assert coarse.report.lines < raw.report.lines


def test_a_large_job_is_asked_where_a_rule_can_fire_and_the_rest_is_looked_at(
    server, collecting, monkeypatch
):
    whole = collect(server, collecting)
    monkeypatch.setattr("connectors.telemetry.prometheus.WHOLE_NODE_SECONDS", 0)
    screened = collect(server, collecting)
    assert facts_of(screened) == facts_of(whole)
    assert screened.report.lines < whole.report.lines
    assert screened.report.paths_missing == whole.report.paths_missing
    assert {each.node for each in screened.summaries} == {each.node for each in whole.summaries}


def facts_of(found):
    return [(each.symptom, each.entity, each.when, each.fields) for each in found.observations]


def test_no_series_that_a_rule_fires_on_is_screened_out(server, collecting):
    queries = {each.metric: each for each in read_queries(metric_queries(collecting.book))}
    fired = {each.fields["metric"] for each in collect(server, collecting).observations}
    assert len(fired) == 6
    assert all(queries[metric].screens for metric in fired)


def test_a_spent_budget_leaves_a_cursor_and_says_partial(server, collecting):
    found = collect(server, collecting, budget=Budget(requests=3))
    assert found.report.status == "partial"
    assert found.report.cursor.startswith("prometheus/")
    assert found.report.requests == 3


def test_nobody_listening_is_an_error_and_never_empty(server, collecting):
    found = collect(server, collecting, url="http://127.0.0.1:9")
    assert found.report.status == "error"


def test_a_real_exporter_that_stops_is_seen_as_lost(tmp_path, collecting):
    port = free_port()
    exporter = subprocess.Popen(
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    server = Prometheus(tmp_path, scrapes=[f"127.0.0.1:{port}"])
    try:
        began = time.time()
        _wait_for(server, "up == 1")
        exporter.terminate()
        exporter.wait(10)
        _wait_for(server, "up == 0")
        job = workload(nodes=("n1",), start=began - 60, end=time.time() + 1)
        found = _collect_plain(server, collecting, job)
        assert ("host_exporter_lost", "n1", None) in seen(found)
    finally:
        exporter.kill()
        server.stop()


def _collect_plain(server, collecting, job):
    site = read_site(
        f"version: 1\nclusters: [{{name: a, prometheus: {{url: '{server.url}'}}}}]\n".encode(),
        shown="sources.yaml",
    )
    (item,) = telemetry_items(site.cluster("a"), job, book=collecting.book, windows=windows_of(job))
    (connector,) = build_connectors(site)
    return collect_item(item, workload=job, connector=connector, collecting=collecting)


def _wait_for(server, query):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        address = f"{server.url}/api/v1/query?query={query.replace(' ', '%20')}"
        if b'"value"' in urllib.request.urlopen(address, timeout=5).read():
            return
        time.sleep(0.3)
    raise AssertionError(query)
