"""What an event carries of its scheduler keeps to the connector contract like any source."""

import pytest
from connector_contract import ConnectorContract

from connectors.protocol import Collected
from connectors.schedulers.record import MAX_RECORD_CHARS, NODE, QUERY, RecordConnector, bounded
from engine.model.plan import Budget, PlanItem
from engine.model.workload import Workload

TEXT = '{"jobid": 7, "state": "FAILED", "exit_code": "3:0"}\n'


class TestRecord(ConnectorContract):
    """Nothing is asked of anybody: the text travels in the item, so no source can be away."""

    has_cursor = False  # one stream
    has_probe = False  # no source of its own
    has_source = False
    counts_requests = False

    def make(self, fault):
        return RecordConnector()

    def workload(self):
        return Workload(scheduler="slurm", job_id="7")

    def item(self, **changes):
        return super().item(query={QUERY: TEXT}, **changes)


def opened(item):
    collected = Collected()
    workload = Workload(scheduler="slurm", job_id="7")
    streams = list(RecordConnector().open_streams(item, workload, collected))
    return [(each.label, each.read(1_000_000)) for each in streams], collected


def item(**changes):
    return PlanItem(item_id="i", connector="record", **{"shard": "record", **changes})


def test_an_item_without_a_record_is_noted_and_no_error():
    streams, collected = opened(item())
    assert streams == []
    assert collected.paths_missing == ["event/record"]


def test_a_record_about_one_machine_is_labelled_with_its_node():
    ((label, body),), _ = opened(item(shard="context-000", query={QUERY: TEXT, NODE: "n1"}))
    assert (label.uri, label.nodes, label.trust) == ("event/context-000", ("n1",), "platform")
    assert body == TEXT.encode()


@pytest.mark.parametrize("text", ["a\ud800b\n", "\x00\n"])
def test_what_is_no_text_makes_no_error(text):
    ((_, body),), _ = opened(item(query={QUERY: text}))
    assert body


def test_a_record_is_bounded_between_lines():
    lines = ["x" * 999] * 100
    kept = bounded(lines)
    assert len(kept) <= MAX_RECORD_CHARS
    assert set(kept.splitlines()) == {"x" * 999}


def test_a_budget_is_not_needed_for_what_is_here_already():
    streams, collected = opened(item(query={QUERY: TEXT}, budget=Budget(requests=1, bytes=1)))
    assert len(streams) == 1
    assert collected.cursor is None
