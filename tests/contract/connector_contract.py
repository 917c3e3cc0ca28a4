"""What every connector keeps to. A connector's test subclasses `ConnectorContract`.

`make(fault)` builds the connector over its source; a fault is one of `FAULTS` or none.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pytest

from connectors.protocol import (
    Collected,
    Connector,
    ConnectorError,
    SourceUnreachableError,
    TransientError,
)
from engine.model.plan import Budget, PlanItem
from engine.model.vocabulary import SOURCES
from engine.model.workload import Workload

FAULTS = ("down", "refused", "one_absent", "one_busy")
SECRET = "hunter2-token"


@dataclass
class Run:
    """One reading of an item."""

    streams: dict[str, bytes]
    labels: list
    collected: Collected
    error: ConnectorError | None = None


class ConnectorContract(ABC):
    """Subclass it as `TestX`; set what the connector has no notion of to False."""

    has_cursor = True
    has_probe = True
    has_source = True
    counts_requests = True

    @pytest.fixture(autouse=True)
    def _servers(self):
        """Stop what `make` started and put into `running`."""
        self.running = []
        yield
        for each in self.running:
            each.stop()

    @abstractmethod
    def make(self, fault: str | None) -> Connector: ...

    @abstractmethod
    def workload(self) -> Workload: ...

    def item(self, **changes) -> PlanItem:
        return PlanItem(item_id="i", connector="c", shard="s", **changes)

    def run(self, fault: str | None = None, **changes) -> Run:
        collected = Collected()
        streams: dict[str, bytes] = {}
        labels = []
        error = None
        opened = self.make(fault).open_streams(self.item(**changes), self.workload(), collected)
        try:
            for stream in opened:
                body = b""
                while piece := stream.read(7):
                    body += piece
                stream.close()
                labels.append(stream.label)
                assert stream.label.uri not in streams, "one uri, one stream"
                streams[stream.label.uri] = body
        except ConnectorError as raised:  # the tests look at it
            error = raised
        return Run(streams, labels, collected, error)

    def need_a_source(self) -> None:
        """Leave out what is about a source that can fail."""
        if not self.has_source:
            pytest.skip("asks nobody: what it yields travels in the item")

    def test_every_stream_is_labelled_with_a_logical_place_a_source_and_a_trust(self):
        run = self.run()
        assert run.error is None
        assert run.streams
        for label in run.labels:
            assert label.uri
            assert not label.uri.startswith("/")
            assert ".." not in label.uri.split("/")
            assert "://" not in label.uri
            assert label.source in SOURCES
            assert label.trust in ("platform", "node", "workload", "caller")

    def test_streams_come_in_one_order_and_say_the_same_twice(self):
        first, second = self.run(), self.run()
        assert list(first.streams) == sorted(first.streams)
        assert list(first.streams.items()) == list(second.streams.items())

    def test_streams_hold_text(self):
        assert all(body.strip() for body in self.run().streams.values())

    def test_requests_are_counted(self):
        if self.counts_requests:
            assert self.run().collected.requests >= len(self.run().streams)

    def test_what_is_absent_is_noted_and_loses_nothing_else(self):
        self.need_a_source()
        whole, partial = self.run(), self.run("one_absent")
        assert partial.error is None
        assert len(partial.collected.paths_missing) == 1
        missing = set(partial.collected.paths_missing)
        assert set(partial.streams) == set(whole.streams) - missing
        assert partial.collected.warnings

    def test_a_busy_source_is_a_transient_error_that_loses_nothing_else(self):
        self.need_a_source()
        whole, partial = self.run(), self.run("one_busy")
        assert isinstance(partial.error, TransientError)
        assert len(partial.streams) == len(whole.streams) - 1

    def test_a_source_that_is_down_is_a_transient_error(self):
        self.need_a_source()
        run = self.run("down")
        assert isinstance(run.error, SourceUnreachableError)
        assert not run.streams

    def test_a_refusal_is_told_and_not_retried_as_transient(self):
        self.need_a_source()
        run = self.run("refused")
        assert not isinstance(run.error, TransientError)
        assert not run.streams
        assert run.error is not None or run.collected.warnings

    def test_a_spent_budget_leaves_a_cursor_from_which_the_rest_comes(self):
        if not self.has_cursor:
            pytest.skip("reads one answer")
        whole = self.run()
        taken: dict[str, bytes] = {}
        cursor = None
        for _ in range(len(whole.streams) * 4 + 4):
            part = self.run(budget=Budget(requests=self.requests_a_run), cursor=cursor)
            assert part.error is None
            assert not set(part.streams) & set(taken), "nothing twice"
            taken |= part.streams
            cursor = part.collected.cursor
            if cursor is None:
                break
        assert taken == whole.streams

    requests_a_run = 1

    def test_a_probe_answers_and_never_raises(self):
        if not self.has_probe:
            pytest.skip("no source of its own")
        good = self.make(None).probe()
        assert good.status == "ok"
        assert good.would_collect
        assert self.make("down").probe().status == "unreachable"
        assert self.make("refused").probe().status in ("refused", "unreachable")

    def test_no_secret_is_told(self):
        for fault in (None, *FAULTS):
            run = self.run(fault)
            told = f"{run.labels} {run.collected} {run.error}"
            if self.has_probe:
                told += str(self.make(fault).probe())
            assert SECRET not in told
