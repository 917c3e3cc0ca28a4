"""Behind a network that fails, a verdict is still made, and coverage says what it rests on."""

import pytest
from fault_proxy import FaultProxy
from loki_server import LokiServer
from test_coverage_truth import ENDED, NS, XID, judged, site_of, state_of

from functions.adapters.rulebook import shipped_rulebook

LINES = [(ENDED - 600 * NS + number * NS, f"usb {number}: device", {}) for number in range(590)]
KERNEL = [
    ({"unit": "kernel", "node": "n1"}, [*LINES, (ENDED - 2 * NS, XID, {})]),
    ({"unit": "kernel", "node": "n2"}, LINES),
]


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


@pytest.fixture
def behind():
    running = []

    def start(rhythm):
        server = LokiServer(KERNEL)
        proxy = FaultProxy(server.url, rhythm)
        running.extend([proxy, server])
        return proxy

    yield start
    for each in running:
        each.stop()


def run(proxy, book):
    site = site_of(proxy)
    cluster = site.clusters[0]
    loki = cluster.loki.model_copy(update={"page_lines": 50})
    site = site.model_copy(update={"clusters": (cluster.model_copy(update={"loki": loki}),)})
    verdict, reports = judged(site, book)
    return verdict, [each for each in reports if each.connector == "loki"]


@pytest.mark.parametrize(
    "rhythm",
    [
        ["ok", "slow"],
        ["ok", "reset"],
        ["half", "ok"],
        ["busy", "busy", "ok"],
        ["behind", "ok", "ahead", "ok", "ok"],
        [*["ok"] * 19, "error"],
        ["reset", "ok", "half", "ok", "busy", "ok", "error", "ok"],
    ],
    ids=[
        "latency",
        "resets",
        "half bodies",
        "429 storm",
        "skewed servers",
        "5 % errors",
        "all of it",
    ],
)
def test_what_a_retry_cures_changes_neither_verdict_nor_counts(behind, book, rhythm):
    plain, plain_reports = run(behind(["ok"]), book)
    proxy = behind(rhythm)
    verdict, reports = run(proxy, book)
    assert verdict.failure_class == plain.failure_class == "gpu_fallen_off_bus"
    assert state_of(verdict, "syslog") == state_of(plain, "syslog")
    assert [(r.lines, r.bytes) for r in reports] == [(r.lines, r.bytes) for r in plain_reports]
    assert sum(proxy.met.values()) == sum(report.requests for report in reports)


@pytest.mark.parametrize("fault", ["reset", "half", "busy", "error"])
def test_what_no_retry_cures_still_gives_a_verdict_that_says_so(behind, book, fault):
    verdict, reports = run(behind([fault]), book)
    assert verdict.domain == "unknown"
    assert {report.status for report in reports} == {"error"}
    states = {state for state, _ in state_of(verdict, "syslog")}
    assert states <= {"failed", "unverified"}
    assert {each.role for each in verdict.affected_nodes} == {"victim"}


def test_a_server_that_dies_in_the_middle_leaves_what_came_and_says_partial(behind, book):
    proxy = behind(["ok"] * 12 + ["reset"] * 10_000)
    verdict, reports = run(proxy, book)
    assert "partial" in {report.status for report in reports}
    assert {state for state, _ in state_of(verdict, "syslog")} <= {
        "partial",
        "unverified",
        "failed",
    }
    assert any(report.cursor for report in reports)
