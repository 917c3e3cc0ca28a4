"""CloudWatch Logs: the contract, pages without loss or repeats, and the real client over moto."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
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
from connectors.telemetry.cloudwatch import CloudWatchConnector, LogEvent
from connectors.telemetry.settings import CloudWatchSource
from engine.model.plan import Budget, PlanItem
from engine.model.workload import Workload
from functions.adapters.cloudwatch_logs import CloudWatchLogs
from functions.scope.planning import windows_of

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

    def page(self, group, stream, start_ms, end_ms, *, token):
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


def test_a_group_that_is_not_there_is_absent(logs):
    with pytest.raises(SourceAbsentError, match="check the name of the group"):
        CloudWatchLogs(logs).stream_names("/nowhere", "", 1, lambda: None)
