"""Loki: every line once, whatever the pages; silence told from blindness; nothing secret told."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loki_server import LokiServer, Refused

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import SECRET, ConnectorContract

from connectors.allowance import Allowance
from connectors.protocol import SourceRefusedError
from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from connectors.telemetry.logql import Entry
from connectors.telemetry.loki_paging import Pager
from engine.model.plan import Budget
from engine.model.workload import Workload
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.collect.collection import Collecting, collect_item
from functions.scope.planning import windows_of
from functions.scope.telemetry import telemetry_items

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2026, 1, 1, 6, tzinfo=UTC)
NS = 1_000_000_000
BEGAN = int(START.timestamp()) * NS
ENDED = int(END.timestamp()) * NS
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus."
STREAMS = """\
      streams:
        - match: {job_id: '{job_id}'}
          node_label: node
          rank_label: rank
        - source: syslog
          match: {unit: kernel}
          by_node: true
          node_label: node
"""


def site(url, more="", streams=STREAMS):
    text = f"version: 1\nclusters:\n  - name: a\n    loki:\n      url: {url}\n{more}{streams}"
    return read_site(text.encode(), shown="sources.yaml")


def workload(**more):
    given = {"scheduler": "slurm", "job_id": "7", "nodes": ("n1", "n2"), "start": START, "end": END}
    return Workload(**(given | more))


def connector(url, more="", streams=STREAMS):
    outside = Outside(environment={"T": SECRET}, pause=lambda seconds: None)
    return build_connectors(site(url, more, streams), outside)[0]


@pytest.fixture(scope="module")
def collecting():
    book = shipped_rulebook()
    return Collecting(book=book, scanner=scanners.scanner_of(book))


@pytest.fixture
def serve():
    running = []

    def start(streams, **more):
        running.append(LokiServer(streams, **more))
        return running[-1]

    yield start
    for each in running:
        each.stop()


def items(server, book, job=None, more="", streams=STREAMS):
    job = job or workload()
    cluster = site(server.url, more, streams).cluster("a")
    return telemetry_items(cluster, job, book=book, windows=windows_of(job))


def collect(server, collecting, source, *, part="tail", job=None, more="", budget=None,
            cursor=None, streams=STREAMS):  # fmt: skip
    chosen = [
        each
        for each in items(server, collecting.book, job, more, streams)
        if each.source == source and each.query["part"] == part
    ]
    (item,) = chosen
    update = {"cursor": cursor} | ({"budget": budget} if budget else {})
    return collect_item(
        item.model_copy(update=update),
        workload=job or workload(),
        connector=connector(server.url, more, streams),
        collecting=collecting,
    )


def kernel(node, *lines, at=ENDED - 60 * NS):
    return ({"unit": "kernel", "node": node}, [(at + n, line, {}) for n, line in enumerate(lines)])


class TestLoki(ConnectorContract):
    requests_a_run = 2  # the list of streams and one page

    def make(self, fault):
        if fault == "down":
            return connector("http://127.0.0.1:9")

        def trouble(path, params):
            if fault == "refused":
                raise Refused(401, "no org id")
            if path.endswith("query_range") and 'rank="1"' in params["query"]:
                if fault == "one_absent":
                    raise Refused(404, "404 page not found")
                if fault == "one_busy":
                    raise Refused(429, "too many outstanding requests", {"Retry-After": "0"})

        streams = [
            ({"job_id": "7", "rank": str(rank)}, [(ENDED - 5 * NS, f"rank {rank} ended", {})])
            for rank in range(3)
        ]
        self.running.append(LokiServer(streams, fault=trouble))
        return connector(self.running[-1].url, more="      token: {env: T}\n")

    def workload(self):
        return workload()

    def item(self, **changes):
        return super().item(windows=windows_of(workload()), **changes)


def paged(server, page):
    running = connector(server.url)
    source = running.open_source(Allowance(Budget(), lambda: 0.0))
    told = []
    entries = list(Pager(source, page, told.append).entries('{a="b"}', BEGAN, ENDED))
    return entries, told


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    gaps=st.lists(st.sampled_from([0, 0, 0, 1, 5, 25 * 3_600 * NS // 10]), max_size=60),
    page=st.integers(1, 9),
)
def test_any_page_size_gives_every_line_once_whatever_times_repeat(gaps, page):
    at = BEGAN
    written = []
    for number, gap in enumerate(gaps):
        at += gap
        if at < ENDED:
            written.append((at, f"line {number % 7}" if gap else f"line {number}", {}))
    server = LokiServer([({"a": "b"}, written)])
    try:
        entries, told = paged(server, page)
        assert [(each.ns, each.line) for each in entries] == [(ns, line) for ns, line, _ in written]
        assert told == []
    finally:
        server.stop()


def test_the_start_is_inside_and_the_end_is_not(serve):
    server = serve([({"a": "b"}, [(BEGAN - 1, "x", {}), (BEGAN, "first", {}),
                                  (ENDED - 1, "last", {}), (ENDED, "y", {})])])  # fmt: skip
    assert [each.line for each in paged(server, 10)[0]] == ["first", "last"]


def test_a_nanosecond_with_more_than_the_server_gives_is_told(serve):
    crowd = [(BEGAN, f"{n}", {}) for n in range(30)]
    server = serve([({"a": "b"}, [*crowd, (BEGAN + 1, "z", {})])], max_entries=10)
    entries, told = paged(server, 10)
    assert [each.line for each in entries] == [*map(str, range(10)), "z"]
    assert "one nanosecond" in told[0]


def test_a_run_of_weeks_is_asked_for_a_day_at_a_time(serve):
    server = serve([({"a": "b"}, [(BEGAN + day * 86_400 * NS, f"{day}", {}) for day in range(40)])])
    source = connector(server.url).open_source(Allowance(Budget(), lambda: 0.0))
    found = Pager(source, 100, print).entries('{a="b"}', BEGAN, BEGAN + 40 * 86_400 * NS)
    assert [each.line for each in found] == [str(day) for day in range(40)]


def test_a_line_that_two_filters_keep_comes_once(serve):
    server = serve([({"a": "b"}, [(BEGAN, "one two", {}), (BEGAN, "one two", {}),
                                  (BEGAN + 1, "two", {}), (BEGAN + 2, "no", {})])])  # fmt: skip
    source = connector(server.url).open_source(Allowance(Budget(), lambda: 0.0))
    queries = ['{a="b"} |= "one"', '{a="b"} |= "two"']
    found = list(Pager(source, 2, print).merged(queries, BEGAN, ENDED))
    assert [each.line for each in found] == ["one two", "one two", "two"]


def test_a_node_s_kernel_line_names_its_node_and_its_time(serve, collecting):
    server = serve([kernel("n1", XID), kernel("n2", "usb 1-1: new device")])
    found = collect(server, collecting, "syslog")
    (xid,) = [each for each in found.observations if each.fields.get("code") == "79"]
    assert xid.entity.node == "n1"
    assert xid.trust == "node"
    assert xid.when.earliest_us == (ENDED - 60 * NS) // 1_000
    assert xid.first.origin.uri == "loki/1/node=n1,unit=kernel/tail"
    assert found.report.status == "ok"


def test_nodes_with_a_domain_are_the_job_s_own(serve, collecting):
    server = serve([kernel("n1.cluster.local", XID), kernel("n11", XID), kernel("n2", "x")])
    found = collect(server, collecting, "syslog")
    assert {each.entity.node for each in found.observations} == {"n1"}


def test_a_rank_may_stand_in_structured_metadata(serve, collecting):
    entries = [(ENDED - 9 * NS, "RuntimeError: CUDA error: out of memory", {"rank": "5"})]
    found = collect(serve([({"job_id": "7"}, entries)]), collecting, "applog")
    assert [each.entity.rank for each in found.observations] == [5]


def test_a_node_may_stand_in_structured_metadata(serve, collecting):
    streams = STREAMS.replace("          by_node: true\n", "")
    server = serve([({"unit": "kernel"}, [(ENDED - 9 * NS, XID, {"node": "n2"})])])
    found = collect(server, collecting, "syslog", streams=streams)
    assert [each.entity.node for each in found.observations] == ["n2"]


def test_a_json_record_of_a_shipper_is_read_as_one(serve, collecting):
    line = json.dumps({"time": "2026-01-01T05:59:00Z", "stream": "stderr", "log": XID + "\n"})
    found = collect(serve([kernel("n1", line), kernel("n2", "x")]), collecting, "syslog")
    assert [each.fields["code"] for each in found.observations] == ["79"]


def test_filtered_and_whole_fetch_give_the_same_matches(serve, collecting):
    noise = [f"usb {n}-1: new high-speed device {'x' * n}" for n in range(300)]
    hits = [
        XID,
        "Out of memory: Killed process 4242 (python) total-vm:1kB",
        "mlx5_core 0000:17:00.0: mlx5_0: Port: 1 Link DOWN",
        "EXT4-fs error (device sda1): ext4_find_entry: inode #2: comm python: reading directory",
        json.dumps({"time": "2026-01-01T00:10:00Z", "stream": "stderr", "log": XID}),
    ]
    lines = [line for pair in zip(noise, hits * 60, strict=True) for line in pair]
    server = serve([kernel("n1", *lines, at=BEGAN), kernel("n2", "x", at=BEGAN)])
    filtered = collect(server, collecting, "syslog", part="before")
    early = workload(end=datetime(2026, 1, 1, 0, 20, tzinfo=UTC))
    whole = collect(server, collecting, "syslog", job=early)

    def told(found):
        return sorted((each.symptom, each.count, each.when) for each in found.observations)

    assert told(filtered) == told(whole)
    assert [symptom for symptom, _, _ in told(filtered)] == [
        "filesystem_error",
        "gpu_fallen_off_bus",
        "host_oom_global",
    ]
    assert filtered.report.coverage == "filtered"
    assert filtered.report.lines < whole.report.lines


def test_labels_that_never_matched_are_unverified_and_never_empty(serve, collecting):
    streams = STREAMS.replace("unit: kernel", "unit: kernle")
    found = collect(serve([kernel("n1", XID)]), collecting, "syslog", streams=streams)
    assert (found.report.status, found.report.coverage) == ("empty", "unverified")
    assert 'unit="kernle"' in " ".join(found.report.warnings)


def test_a_mistyped_node_label_is_unverified_and_says_where_to_look(serve, collecting):
    streams = STREAMS.replace("node_label: node", "node_label: nod")
    found = collect(serve([kernel("n1", XID)]), collecting, "syslog", streams=streams)
    assert found.report.coverage == "unverified"
    assert "check node_label" in " ".join(found.report.warnings)


def test_streams_that_were_only_silent_are_empty(serve, collecting):
    quiet = kernel("n1", "hours ago", at=ENDED - 7_200 * NS)
    found = collect(serve([quiet]), collecting, "syslog")
    assert (found.report.status, found.report.coverage) == ("empty", "empty")


def test_a_node_without_a_stream_makes_it_partial(serve, collecting):
    found = collect(serve([kernel("n1", "x")]), collecting, "syslog")
    assert found.report.status == "partial"
    assert found.report.paths_missing == ("loki/of n2",)


def test_tenant_and_basic_credentials_are_sent(serve, collecting):
    more = "      tenant: team-a\n      user: rr\n      password: {env: T}\n"
    server = serve([kernel("n1", XID), kernel("n2", "x")], tenant="team-a",
                   authorization="Basic cnI6aHVudGVyMi10b2tlbg==")  # fmt: skip
    assert collect(server, collecting, "syslog", more=more).report.status == "ok"
    refused = collect(server, collecting, "syslog", more=more.replace("team-a", "team-b"))
    assert refused.report.status == "error"
    assert "no org id" in refused.report.reason
    assert SECRET not in refused.report.model_dump_json()


def test_a_storm_of_429_is_waited_out(serve, collecting):
    calls = []

    def storm(path, params):
        calls.append(path)
        if len(calls) % 3:
            raise Refused(429, "too many outstanding requests", {"Retry-After": "0"})

    server = serve([kernel("n1", XID), kernel("n2", "x")], fault=storm)
    found = collect(server, collecting, "syslog")
    assert found.report.status == "ok"
    assert found.report.requests == len(calls)


def test_a_budget_that_ends_inside_a_stream_keeps_what_came_and_goes_on_from_there(
    serve, collecting
):
    lines = [XID.replace("79", str(n)) for n in range(13, 63)]
    server = serve([kernel("n1", *lines), kernel("n2", "x")])
    more = "      page_lines: 10\n"
    cursor = None
    read = 0
    for _ in range(20):
        found = collect(server, collecting, "syslog", more=more, cursor=cursor,
                        budget=Budget(requests=3))  # fmt: skip
        read += found.report.lines
        cursor = found.report.cursor
        if cursor is None:
            break
        assert found.report.status == "partial"
    assert read == 51


def test_a_refusal_is_no_silence(serve):
    running = connector(serve([], authorization="Bearer other").url)
    source = running.open_source(Allowance(Budget(), lambda: 0.0))
    with pytest.raises(SourceRefusedError):
        list(Pager(source, 5, print).entries('{a="b"}', BEGAN, ENDED))


def test_a_probe_names_labels_that_loki_does_not_know(serve):
    server = serve([kernel("n1", "x")])
    probe = connector(server.url).probe()
    assert probe.status == "ok"
    assert "has not: job_id" in probe.detail


def test_entries_of_one_moment_keep_the_server_s_order(serve):
    server = serve([({"a": "b"}, [(BEGAN, "Traceback (most recent call last):", {}),
                                  (BEGAN, '  File "a.py", line 1', {})])])  # fmt: skip
    assert paged(server, 5)[0] == [
        Entry(BEGAN, "Traceback (most recent call last):"),
        Entry(BEGAN, '  File "a.py", line 1'),
    ]
