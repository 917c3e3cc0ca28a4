import gzip
from dataclasses import dataclass, field

import pytest

from connectors.protocol import SourceNotConfiguredError, TransientError
from engine.extract.scanner import build_scanner
from engine.model.plan import Budget, PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from engine.rulebook.book import Rulebook, SignatureDef
from functions.collect.collection import Collecting, collect_item, state_line


def signature(index, rule, scan, sources):
    return SignatureDef(
        index, rule, "main", rule.split("/")[1], sources, (), scan, scan, False, (), {}, (), None,
        {}, None,
    )  # fmt: skip


BOOK = Rulebook(
    "1.0.0", "sha256:e", "sha256:r",
    (
        signature(0, "host/panic", "Kernel panic", ("syslog", "applog")),
        signature(1, "scheduler/ended", "scheduler=slurm state=TIMEOUT", ("scheduler",)),
    ),
    {}, (), (),
)  # fmt: skip
WORKLOAD = Workload(scheduler="slurm", job_id="7", state="TIMEOUT", exit_code="0:125")


@dataclass
class FakeStream:
    label: StreamLabel
    pieces: list
    closed: bool = False

    def read(self, size, /):
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self):
        self.closed = True


@dataclass
class FakeConnector:
    streams: list
    name: str = "fake"
    missing: list = field(default_factory=list)

    def open_streams(self, item, workload, collected):
        collected.paths_missing.extend(self.missing)
        for stream in self.streams:
            if isinstance(stream, Exception):
                raise stream
            collected.requests += 1
            yield stream


def stream(uri, *pieces):
    return FakeStream(StreamLabel(uri, "syslog", "node", ("n1",)), list(pieces))


def collect(*streams, budget=None, item=None, missing=(), **more):
    made = item or PlanItem(
        item_id="i", connector="fake", shard="s", source="syslog", budget=budget or Budget()
    )
    connector = FakeConnector(list(streams), missing=list(missing))
    collecting = Collecting(book=BOOK, scanner=build_scanner(BOOK), **more)
    return collect_item(made, workload=WORKLOAD, connector=connector, collecting=collecting)


def test_an_item_gives_observations_summaries_and_an_ok_report():
    result = collect(stream("a", b"x\nKernel panic\n"), stream("b", b"y\n"))
    assert [each.symptom for each in result.observations] == ["panic"]
    assert [each.stream for each in result.summaries] == ["a", "b"]
    report = result.report
    assert (report.status, report.reason, report.lines, report.bytes) == ("ok", None, 3, 17)
    assert (report.requests, report.observations) == (2, 1)
    assert report.extraction_digest == "sha256:e"


def test_a_stream_that_breaks_loses_nothing_of_the_others():
    broken = stream("a", b"x\n", OSError("the disk is gone"))
    result = collect(broken, stream("b", b"Kernel panic\n"))
    assert [each.symptom for each in result.observations] == ["panic"]
    assert result.report.status == "partial"
    assert "a: OSError" in result.report.reason
    assert "the disk is gone" in result.report.reason
    assert broken.closed


def test_compressed_data_that_end_early_are_told_as_a_loss():
    whole = gzip.compress(b"Kernel panic\n" + bytes(range(256)) * 40)
    result = collect(stream("a.gz", whole[:-12]), stream("b", b"y\n"))
    assert [each.symptom for each in result.observations] == ["panic"]
    assert result.report.status == "partial"
    assert result.report.reason == ("a.gz: gzip data end early; what came before the cut was kept")


def test_a_connector_that_raises_keeps_what_it_gave_before():
    result = collect(stream("a", b"Kernel panic\n"), RuntimeError("no more"))
    assert len(result.observations) == 1
    assert result.report.status == "partial"
    assert result.report.reason.startswith("RuntimeError at test_collection.py:")


def test_a_connector_that_gives_nothing_and_raises_is_an_error():
    assert collect(TransientError("throttled")).report.status == "error"


def test_a_patient_run_lets_what_a_retry_can_cure_through():
    with pytest.raises(TransientError):
        collect(TransientError("throttled"), is_patient=True)
    with pytest.raises(TransientError):
        collect(stream("a", TransientError("reset")), is_patient=True)


def test_a_source_that_nobody_configured_is_skipped_not_empty():
    report = collect(SourceNotConfiguredError("no endpoint is set; set METRICS_URL")).report
    assert (report.status, report.reason) == ("skipped", "no endpoint is set; set METRICS_URL")


def test_missing_files_make_a_report_partial_or_failed_never_empty():
    assert collect(stream("a", b"x\n"), missing=["b"]).report.status == "partial"
    report = collect(missing=["b"]).report
    assert (report.status, report.reason) == ("error", "not found: b")
    assert report.paths_missing == ("b",)


def test_streams_without_a_byte_are_empty():
    assert collect(stream("a")).report.status == "empty"
    assert collect().report.status == "empty"


def test_out_of_time_the_cursor_names_the_first_stream_left():
    first = stream("a", b"Kernel panic\n")
    result = collect(
        first, stream("b", b"x\n"), stream("c", b"x\n"), is_out_of_time=lambda: first.closed
    )
    assert result.report.cursor == "b"
    assert result.report.status == "partial"
    assert len(result.observations) == 1


def test_out_of_time_inside_a_stream_what_was_read_of_it_is_kept():
    """A log of ten gigabytes outlasts any function: it must not take the item with it."""
    endless = stream("a", b"Kernel panic\n", *[b"x\n"] * 1000)
    result = collect(endless, stream("b", b"x\n"), is_out_of_time=lambda: len(endless.pieces) < 500)
    assert result.report.cursor == "a"
    assert result.report.status == "partial"
    assert result.report.reason == "out of budget before a"
    assert len(result.observations) == 1
    assert 500 <= result.report.lines <= 502


def test_out_of_bytes_a_stream_is_cut_and_the_rest_is_left():
    result = collect(
        stream("a", b"Kernel panic\n" * 100_000), stream("b", b"x\n"), budget=Budget(bytes=500_000)
    )
    assert result.report.cursor == "b"
    assert "cut by the byte budget" in result.report.reason
    assert result.report.bytes <= 600_000


def test_the_workloads_own_item_reads_the_schedulers_words_without_a_connector():
    item = PlanItem(item_id="i", connector="workload", shard="state")
    result = collect(item=item)
    assert [(each.symptom, each.trust) for each in result.observations] == [("ended", "platform")]
    assert result.report.status == "ok"


def test_an_item_of_an_unknown_connector_is_skipped():
    item = PlanItem(item_id="i", connector="loki", shard="s")
    collecting = Collecting(book=BOOK, scanner=build_scanner(BOOK))
    report = collect_item(item, workload=WORKLOAD, connector=None, collecting=collecting).report
    assert (report.status, report.reason) == ("skipped", "no connector is named 'loki'")


def test_the_state_line_splits_code_and_signal_and_keeps_the_states_first_word():
    assert state_line(WORKLOAD) == "workload.state scheduler=slurm state=TIMEOUT exit=0 signal=125"
    evicted = Workload(scheduler="kubernetes", job_id="x", state="Evicted", exit_code="n/a")
    assert state_line(evicted) == "workload.state scheduler=kubernetes state=EVICTED"
    cancelled = Workload(scheduler="slurm", job_id="x", state="CANCELLED by 0", exit_code="1")
    assert state_line(cancelled) == "workload.state scheduler=slurm state=CANCELLED exit=1"


def test_the_order_of_streams_changes_no_observation():
    pieces = {"a": b"Kernel panic\n", "b": b"x\nKernel panic\n"}
    one = collect(*(stream(uri, pieces[uri]) for uri in "ab"))
    two = collect(*(stream(uri, pieces[uri]) for uri in "ba"))
    assert one == two
