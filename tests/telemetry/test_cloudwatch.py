"""CloudWatch Logs: the contract, pages without loss or repeats, and the real client over moto."""

import io
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
import re2
from cloudwatch_server import CloudWatchServer
from hypothesis import given, settings
from hypothesis import strategies as st
from moto import mock_aws

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

from connector_contract import ConnectorContract

from connectors.protocol import (
    Collected,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.site import Cluster
from connectors.static import BlobStream
from connectors.telemetry.cloudwatch import CloudWatchConnector, LogEvent
from connectors.telemetry.filter_patterns import filter_patterns
from connectors.telemetry.settings import CloudWatchSource
from engine.extract.redact import Redactor
from engine.extract.session import ExtractContext, extract_stream
from engine.model.plan import Budget, PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from engine.rulebook.coarse import coarse_texts
from functions.adapters.cloudwatch_logs import CloudWatchLogs
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.scope.planning import windows_of
from functions.scope.telemetry import telemetry_items

END = datetime(2026, 1, 1, 6, tzinfo=UTC)
ENDED = int(END.timestamp()) * 1000
SETTINGS = CloudWatchSource(
    region="eu-west-1",
    groups=(
        {"name": "train", "group": "/aws/sagemaker/TrainingJobs", "streams": ["{job_id}/algo-*"]},
    ),
)


class Logs:
    """Streams of one group; `size` events a page."""

    def __init__(self, streams, *, size=100, fault=None):
        self.streams = streams
        self.size = size
        self.fault = fault

    def stream_names(self, group, prefix, most, on_request):
        on_request()
        if self.fault == "down":
            raise SourceUnreachableError("cloudwatch: EndpointConnectionError")
        if self.fault == "refused":
            raise SourceRefusedError("cloudwatch: AccessDeniedException")
        return sorted(each for each in self.streams if each.startswith(prefix))[:most]

    def page(self, group, stream, start_ms, end_ms, *, token, pattern=None):
        if stream.endswith("algo-2") and self.fault == "one_absent":
            raise SourceAbsentError("cloudwatch: ResourceNotFoundException")
        if stream.endswith("algo-2") and self.fault == "one_busy":
            raise SourceBusyError("cloudwatch: ThrottlingException")
        found = [e for e in self.streams[stream] if start_ms <= e.ms < end_ms]
        at = int(token or 0)
        return found[at : at + self.size], str(min(at + self.size, len(found)))


def job(**more):
    given = {"scheduler": "sagemaker", "job_id": "sft", "nodes": ("algo-1",), "end": END,
             "start": datetime(2026, 1, 1, tzinfo=UTC)}  # fmt: skip
    return Workload(**(given | more))


def connector(api):
    return CloudWatchConnector("a", SETTINGS, api, lambda: 0.0)


class TestCloudWatch(ConnectorContract):
    requests_a_run = 3  # the names, a page, and the page that says that it was the last

    def make(self, fault):
        streams = {f"sft/algo-{n}": [LogEvent(ENDED - 9, f"algo {n} ended")] for n in range(1, 4)}
        streams["other/algo-1"] = [LogEvent(ENDED - 9, "another job")]
        return connector(Logs(streams, fault=fault))

    def workload(self):
        return job()

    def item(self, **changes):
        return super().item(windows=windows_of(job()), **changes)


def read(api, *, cursor=None, budget=None):
    item = PlanItem(item_id="i", connector="c", shard="s", windows=windows_of(job()),
                    cursor=cursor, budget=budget or Budget())  # fmt: skip
    collected = Collected()
    body = b""
    for stream in connector(api).open_streams(item, job(), collected):
        while piece := stream.read(64):
            body += piece
        stream.close()
    return body, collected


@settings(deadline=None)
@given(
    count=st.integers(1, 40),
    together=st.integers(1, 3),
    size=st.integers(2, 6),
    requests=st.integers(4, 7),
)
def test_any_page_size_and_any_budget_give_every_event_once(count, together, size, requests):
    at = ENDED - 600_000
    events = [LogEvent(at + number // together, f"line {number}") for number in range(count)]
    api = Logs({"sft/algo-1": events}, size=size)
    body, cursor = b"", None
    for _ in range(50):
        part, collected = read(api, cursor=cursor, budget=Budget(requests=requests))
        body += part
        cursor = collected.cursor
        if cursor is None:
            break
    told = [line.split(b" ", 1)[1].decode() for line in body.splitlines()]
    assert told == [f"line {number}" for number in range(count)]


def test_streams_without_events_are_empty_and_no_streams_are_unverified():
    assert read(Logs({"sft/algo-1": []}))[1].coverage == "empty"
    assert read(Logs({"stf/algo-1": [LogEvent(ENDED - 1, "x")]}))[1].coverage == "unverified"


def test_each_line_has_its_time_in_front():
    body, _ = read(Logs({"sft/algo-1": [LogEvent(ENDED - 1, "CUDA error\n")]}))
    assert body == b"2026-01-01T05:59:59.999000000Z CUDA error\n"


@pytest.fixture
def logs(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    with mock_aws():
        yield boto3.client("logs", region_name="eu-west-1")


def test_the_real_client_reads_a_group(logs):
    now_ms = int(time.time() * 1000)
    logs.create_log_group(logGroupName="/g")
    for name in ("sft/algo-1", "sft/algo-2", "other/algo-1"):
        logs.create_log_stream(logGroupName="/g", logStreamName=name)
    events = [{"timestamp": now_ms - 5_000 + n, "message": f"line {n}"} for n in range(3)]
    logs.put_log_events(logGroupName="/g", logStreamName="sft/algo-1", logEvents=events)
    api = CloudWatchLogs(logs)
    assert api.stream_names("/g", "sft/", 10, lambda: None) == ["sft/algo-1", "sft/algo-2"]
    found, token = api.page("/g", "sft/algo-1", now_ms - 5_000, now_ms, token=None)
    assert [each.message for each in found] == ["line 0", "line 1", "line 2"]
    assert token


@pytest.fixture
def serve():
    running = []

    def start(groups, **more):
        running.append(CloudWatchServer(groups, **more))
        return running[-1]

    yield start
    for each in running:
        each.stop()


GROUP = "/aws/sagemaker/TrainingJobs"
LINES = [
    (ENDED - 5 * 3_600_000 + 7 * number, text)
    for number, text in enumerate(
        [
            "step 1 loss 2.1",
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.",
            "step 2 loss 2.0",
            "RuntimeError: CUDA error: device-side assert triggered",
            '{"log":"torch.OutOfMemoryError: CUDA out of memory. \\"x\\"","stream":"stderr"}',
            "step 3 loss 1.9",
        ]
        * 30
    )
]


def before(server, book, **group):
    """Read what lies before the tail, as the planner asks for it."""
    settings = CloudWatchSource(
        region="eu-west-1",
        groups=({"name": "train", "group": GROUP, "streams": ["{job_id}/*"], **group},),
    )
    cluster = Cluster(name="a", cloudwatch=settings)
    items = telemetry_items(cluster, job(), book=book, windows=windows_of(job()))
    (item,) = [each for each in items if each.query["part"] == "before"]
    api = CloudWatchLogs(server.client())
    collected = Collected()
    made = CloudWatchConnector("a", settings, api, lambda: 0.0)
    streams = made.open_streams(item, job(), collected)
    return b"".join(iter_bytes(each) for each in streams), collected, item


def iter_bytes(stream):
    return b"".join(iter(lambda: stream.read(4096), b""))


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


def test_before_the_tail_only_lines_that_a_rule_could_match_are_asked_for(serve, book):
    server = serve({GROUP: {"sft/algo-1": LINES}})
    body, collected, item = before(server, book)
    assert collected.coverage == "filtered"
    assert len(body.splitlines()) == 90
    assert b"step" not in body
    patterns = {asked["filterPattern"] for name, asked in server.asked if "Filter" in name}
    assert 1 < len(patterns) < 12
    assert len(item.query["texts"]) < 20_000


def test_filtered_and_whole_find_the_same_matches(serve, book):
    server = serve({GROUP: {"sft/algo-1": LINES}}, page=7)
    filtered, _, _ = before(server, book)
    whole, _, _ = before(server, book, pushdown=False)
    assert whole.count(b"\n") == len(LINES)
    found = [extract_text(each.decode(), book) for each in (filtered, whole)]
    assert found[0] == found[1]
    assert {"xid_79", "cuda_oom"} & found[0]


def extract_text(text, book):
    stream = BlobStream(
        StreamLabel("x", "applog", "workload", nodes=("n1",)), io.BytesIO(text.encode())
    )
    context = ExtractContext(
        book=book, scanner=scanners.scanner_of(book), workload=job(), connector="c",
        extraction_digest=book.extraction_digest, redactor=Redactor(),
    )  # fmt: skip
    found = extract_stream(stream.read, stream.label, context)
    return {each.symptom for each in found.observations}


@settings(deadline=None, max_examples=60)
@given(texts=st.sets(st.text(st.characters(max_codepoint=0x2FF), min_size=4, max_size=20)))
def test_every_text_passes_the_patterns_that_are_made_of_it(texts):
    patterns = filter_patterns([(each, len(each) % 2 == 0) for each in texts])
    assert all(len(each) <= 1_024 for each in patterns)
    compiled = [re2.compile(each[1:-1]) for each in patterns]
    for text in texts:
        given_text = text.swapcase() if len(text) % 2 == 0 and text.isascii() else text
        assert any(each.search(given_text.replace("\n", " ")) for each in compiled)


@given(st.sets(st.text("abcde ", min_size=4, max_size=30), min_size=1))
def test_coarse_texts_stand_for_every_text(texts):
    pieces = coarse_texts(texts)
    assert all(any(piece in text for piece in pieces) for text in texts)
    assert coarse_texts(sorted(texts, reverse=True)) == pieces


def test_names_of_streams_come_page_by_page(serve):
    streams = {f"sft/algo-{number}": [] for number in range(130)}
    server = serve({GROUP: streams})
    found = CloudWatchLogs(server.client()).stream_names(GROUP, "sft/", 5_000, lambda: None)
    assert found == sorted(streams)


def test_a_group_that_is_not_there_is_absent(logs):
    with pytest.raises(SourceAbsentError, match="check the name of the group"):
        CloudWatchLogs(logs).stream_names("/nowhere", "", 1, lambda: None)
