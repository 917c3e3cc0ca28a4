"""Silence and blindness never look the same in a verdict, and pass two fetches what it names."""

from datetime import UTC, datetime

import pytest
from loki_server import LokiServer

from connectors.registry import Outside, connector_for
from connectors.site import read_site
from engine.case import Case
from engine.model.evidence_request import EvidenceRequest
from engine.model.workload import Workload
from engine.pipeline import attribute
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.collect.collection import Collecting, collect_item
from functions.scope.planning import RuleDigests, make_plan, windows_of
from functions.scope.telemetry import telemetry_items

NS = 1_000_000_000
END = datetime(2026, 1, 1, 6, tzinfo=UTC)
ENDED = int(END.timestamp()) * NS
JOB = Workload(
    scheduler="slurm",
    cluster="a",
    job_id="7",
    nodes=("n1", "n2"),
    state="FAILED",
    exit_code="1:0",
    start=datetime(2026, 1, 1, tzinfo=UTC),
    end=END,
)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, GPU has fallen off the bus."
KERNEL = [
    ({"unit": "kernel", "node": "n1"}, [(ENDED - 30 * NS, XID, {}), (ENDED - NS, "quiet", {})]),
    ({"unit": "kernel", "node": "n2"}, [(ENDED - NS, "quiet", {})]),
]


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


@pytest.fixture
def serve():
    running = []

    def start(streams):
        running.append(LokiServer(streams))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def site_of(server, label="unit"):
    return read_site(
        f"""\
version: 1
clusters:
  - name: a
    loki:
      url: {server.url}
      streams:
        - source: syslog
          match: {{{label}: kernel}}
          by_node: true
          node_label: node
""".encode(),
        shown="sources.yaml",
    )


def judged(site, book, *, requests=(), outside=None, budget=None, connectors=None):
    """Plan, collect and attribute as the pipeline does; returns the verdict and the reports."""
    windows = windows_of(JOB)
    plan = make_plan(JOB, (), digests=RuleDigests.of(book))
    items = [*plan.items] if not requests else []
    items += telemetry_items(
        None if site is None else site.cluster("a"),
        JOB,
        book=book,
        windows=windows,
        requests=requests,
        collection=2 if requests else 1,
    )
    collecting = Collecting(book=book, scanner=scanners.scanner_of(book))
    if connectors:
        items = [each for each in items if each.connector in (*connectors, "workload")]
    if budget:
        items = [each.model_copy(update={"budget": budget}) for each in items]
    outside = outside or Outside(pause=lambda seconds: None)
    found = [
        collect_item(
            item,
            workload=JOB,
            connector=None if site is None else connector_for(site, item, outside),
            collecting=collecting,
        )
        for item in items
    ]
    case = Case(
        workload=JOB,
        observations=[each for one in found for each in one.observations],
        streams=[each for one in found for each in one.summaries],
        reports=[one.report for one in found],
        windows=windows,
    )
    return attribute(case, book), [one.report for one in found]


def state_of(verdict, source):
    return {(each.state, each.nodes) for each in verdict.coverage if each.source == source}


def test_node_logs_in_loki_name_the_node_that_failed(serve, book):
    verdict, _ = judged(site_of(serve(KERNEL)), book)
    assert verdict.failure_class == "gpu_fallen_off_bus"
    assert ("n1", "culprit") in {(each.node, each.role) for each in verdict.affected_nodes}
    assert state_of(verdict, "syslog") == {("complete", "n[1-2]")}


def test_the_tail_is_told_from_what_was_filtered_before_it(serve, book):
    hours = [(ENDED - 4 * 3_600 * NS, XID, {}), (ENDED - 3 * 3_600 * NS, "quiet", {})]
    streams = [(labels, sorted(entries + hours)) for labels, entries in KERNEL]
    verdict, _ = judged(site_of(serve(streams)), book)
    found = {(e.window, e.state, e.lines) for e in verdict.coverage if e.source == "syslog"}
    assert found == {("tail", "complete", 3), ("whole", "filtered", 2)}


def test_a_mistyped_label_is_unverified_and_never_a_cleaner_verdict(serve, book):
    server = serve(KERNEL)
    right, _ = judged(site_of(server), book)
    wrong, _ = judged(site_of(server, label="unti"), book)
    assert state_of(wrong, "syslog") == {("unverified", "n[1-2]")}
    assert wrong.quality.level == "insufficient"
    assert wrong.domain == "unknown"
    assert right.quality.level in ("definitive", "probable")


def test_streams_that_were_silent_are_empty_which_is_not_unverified(serve, book):
    silent = [({"unit": "kernel", "node": "n1"}, [(ENDED - 8 * 3_600 * NS, "boot", {})])]
    verdict, reports = judged(site_of(serve(silent)), book)
    assert {report.coverage for report in reports if report.connector == "loki"} == {"empty"}
    assert {state for state, _ in state_of(verdict, "syslog")} == {"empty"}


def test_a_source_that_is_down_is_failed_and_never_empty(book):
    class Down:
        url = "http://127.0.0.1:9"

    verdict, _ = judged(site_of(Down), book)
    assert {state for state, _ in state_of(verdict, "syslog")} <= {"failed", "unverified"}
    assert "empty" not in {state for state, _ in state_of(verdict, "syslog")}


def test_without_a_site_nothing_is_planned(book):
    assert telemetry_items(None, JOB, book=book, windows=windows_of(JOB)) == []


def test_pass_two_asks_loki_for_exactly_the_nodes_and_the_window_that_a_verdict_names(serve, book):
    server = serve(KERNEL)
    request = EvidenceRequest(
        source="syslog",
        entities=("n1",),
        window={"start": "2026-01-01T05:50:00Z", "end": "2026-01-01T06:05:00Z"},
        why="kernel messages would show a device fault",
    )
    _, reports = judged(site_of(server), book, requests=[request])
    assert [report.status for report in reports] == ["ok"]
    asked = [params for path, params, _ in server.requests if path.endswith("query_range")]
    assert [each["query"] for each in asked] == ['{node="n1",unit="kernel"}']
    assert asked[0]["start"] == str(ENDED - 600 * NS)
    assert asked[0]["end"] == str(ENDED + 300 * NS)


def test_a_request_for_another_source_asks_loki_nothing(serve, book):
    server = serve(KERNEL)
    request = EvidenceRequest(source="flight_recorder", why="traces")
    _, reports = judged(site_of(server), book, requests=[request])
    assert reports == []
    assert server.requests == []


def test_the_plan_of_a_site_does_not_depend_on_the_order_of_requests(serve, book):
    cluster = site_of(serve([])).cluster("a")
    asked = [EvidenceRequest(source="syslog", entities=(n,), why="w") for n in ("n1", "n2")]
    windows = windows_of(JOB)
    one = telemetry_items(cluster, JOB, book=book, windows=windows, requests=asked)
    two = telemetry_items(cluster, JOB, book=book, windows=windows, requests=asked[::-1])
    assert one == two
    assert len({item.item_id for item in one}) == 2


def test_a_secret_in_a_log_reaches_no_observation(serve, book):
    token = "hf_" + "a1B2" * 8
    line = f"{XID} token={token}"
    streams = [({"unit": "kernel", "node": "n1"}, [(ENDED - NS, line, {})])]
    verdict, reports = judged(site_of(serve(streams)), book)
    assert token not in verdict.model_dump_json()
    assert all(token not in report.model_dump_json() for report in reports)
