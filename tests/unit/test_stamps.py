"""Stamp forms, what they leave out, and where that is taken from."""

from typing import Any

import pytest

from engine.extract.stamps import StampReader
from engine.model.moment import rfc3339
from engine.model.observation import When
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from tests.unit.extract_fixtures import extract, label


def workload(start: str = "2023-03-06T10:00:00Z", end: str | None = "2023-03-06T22:00:00Z",
             **more: Any) -> Workload:  # fmt: skip
    return Workload(scheduler="none", job_id="1", start=start, end=end, **more)


def stamps(source: str = "applog", *, job: Workload | None = None, **more: Any) -> StampReader:
    return StampReader(StreamLabel("x", source, "node", ("n1",), **more), job or workload())


def told(when: When | None) -> tuple[str, str, str] | None:
    if when is None or when.earliest_us is None or when.latest_us is None:
        return None
    return rfc3339(when.earliest_us), rfc3339(when.latest_us), when.basis


@pytest.mark.parametrize(
    ("text", "earliest", "latest", "basis"),
    [
        ("2023-03-06T21:01:02Z x", "2023-03-06T21:01:02Z", "2023-03-06T21:01:02.999999Z", "stamp"),
        ("2023-03-06T21:01:02.5+02:00 x", "2023-03-06T19:01:02.5Z", "2023-03-06T19:01:02.599999Z",
         "stamp"),
        ("2023-03-06 21:01:02,118 INFO", "2023-03-06T21:01:02.118Z",
         "2023-03-06T21:01:02.118999Z", "local"),
        ("[2023-03-06 21:01:02,118] [INFO] x", "2023-03-06T21:01:02.118Z",
         "2023-03-06T21:01:02.118999Z", "local"),
        ("[2023-03-06T01:05:46.310] error: x", "2023-03-06T01:05:46.31Z",
         "2023-03-06T01:05:46.310999Z", "local"),
        ("23-03-06 12:31:11.512 : x", "2023-03-06T12:31:11.512Z", "2023-03-06T12:31:11.512999Z",
         "local"),
        ("25/03/2023 06:00:58 x", "2023-03-25T06:00:58Z", "2023-03-25T06:00:58.999999Z", "local"),
        ("03/06/2023 11:00:58 - INFO - x", "2023-03-06T11:00:58Z", "2023-03-06T11:00:58.999999Z",
         "local"),
        ("I0306 12:01:13.644929 140 a.cc:1] x", "2023-03-06T12:01:13.644929Z",
         "2023-03-06T12:01:13.644929Z", "yearless"),
        ("[E306 12:24:44.448988908 ProcessGroupNCCL.cpp:1] x", "2023-03-06T12:24:44.448988Z",
         "2023-03-06T12:24:44.448988Z", "yearless"),
        ("INFO 03-06 11:00:00 [loader.py:1] x", "2023-03-06T11:00:00Z",
         "2023-03-06T11:00:00.999999Z", "yearless"),
        ("Mar  6 20:00:14 n1 sshd[1]: x", "2023-03-06T20:00:14Z", "2023-03-06T20:00:14.999999Z",
         "yearless"),
        ("[Mon Mar  6 20:00:14 2023] x", "2023-03-06T20:00:14Z", "2023-03-06T20:00:14.999999Z",
         "local"),
        ("libfabric:4517:1678100000::efa:cq:f():737<warn> err: 5", "2023-03-06T10:53:20Z",
         "2023-03-06T10:53:20.999999Z", "stamp"),
        ("1678100000 x", "2023-03-06T10:53:20Z", "2023-03-06T10:53:20.999999Z", "stamp"),
        ("1678100000123 x", "2023-03-06T10:53:20.123Z", "2023-03-06T10:53:20.123999Z", "stamp"),
        ("1678100000123456 x", "2023-03-06T10:53:20.123456Z", "2023-03-06T10:53:20.123456Z",
         "stamp"),
        ("1678100000123456789 x", "2023-03-06T10:53:20.123456Z", "2023-03-06T10:53:20.123456Z",
         "stamp"),
        ("[15:57:44] INFO x", "2023-03-06T15:57:44Z", "2023-03-06T15:57:44.999999Z", "yearless"),
        ("(raylet) [2023-03-06 11:00:00,123 E 1 1] x", "2023-03-06T11:00:00.123Z",
         "2023-03-06T11:00:00.123999Z", "local"),
        ("2023-03-06 11:00:00.120 | INFO     | m:f:1 - x", "2023-03-06T11:00:00.12Z",
         "2023-03-06T11:00:00.120999Z", "local"),
        ("slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2023-03-06T12:00:00 DUE TO TIME LIMIT",
         "2023-03-06T12:00:00Z", "2023-03-06T12:00:00.999999Z", "local"),
    ],
)  # fmt: skip
def test_a_stamp_is_an_interval_of_its_own_resolution(
    text: str, earliest: str, latest: str, basis: str
) -> None:
    assert told(stamps().read(text)) == (earliest, latest, basis)


@pytest.mark.parametrize(
    "text", ["step 12 loss 3", "[830000] loss 2.2", "12:99:00 x", "2023-13-40 10:00:00 x", "", "["]
)
def test_text_without_a_stamp_has_none(text: str) -> None:
    assert stamps().read(text) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("W1231 23:01:02.500000 12] x", "2025-12-31T23:01:02.5Z"),
        ("[W101 00:01:02.500000 x", "2026-01-01T00:01:02.5Z"),
        ("Dec 31 23:01:02 n1 kernel: x", "2025-12-31T23:01:02Z"),
        ("Jan  1 00:00:14 n1 kernel: x", "2026-01-01T00:00:14Z"),
    ],
)
def test_the_year_follows_the_attempt_across_new_year(text: str, moment: str) -> None:
    job = workload("2025-12-31T20:00:00Z", "2026-01-01T02:05:20Z")
    told_as = told(stamps("syslog", job=job).read(text))
    assert told_as is not None
    assert told_as[0] == moment


def test_a_naive_stamp_is_read_in_the_zone_of_its_label() -> None:
    reader = stamps(timezone="Europe/Paris")
    assert told(reader.read("2023-07-06 12:00:00 x")) == (
        "2023-07-06T10:00:00Z", "2023-07-06T10:00:00.999999Z", "local",
    )  # fmt: skip


def test_the_hour_that_a_clock_change_repeats_is_wide() -> None:
    reader = stamps(timezone="Europe/Paris")
    assert told(reader.read("2023-10-29 02:30:00.000000 x")) == (
        "2023-10-29T00:30:00Z", "2023-10-29T01:30:00Z", "local",
    )  # fmt: skip


def test_uptime_becomes_wall_time_with_the_labels_boot_time() -> None:
    reader = stamps("syslog", boot_time_us=1_678_000_000_000_000)
    when = reader.read("[  100.250000] NVRM: x")
    assert when is not None
    assert reader.resolve(when).earliest_us == 1_678_000_100_250_000
    assert reader.resolve(when).basis == "uptime"


def test_a_line_with_both_stamps_dates_the_lines_with_uptime_alone() -> None:
    reader = stamps("syslog")
    bare = reader.read("[  100.500000] NVRM: x")
    reader.read("Mar  6 12:00:00 n1 kernel: [  100.000000] y")
    assert bare is not None
    assert told(reader.resolve(bare)) == (
        "2023-03-06T12:00:00.5Z", "2023-03-06T12:00:01.499999Z", "uptime",
    )  # fmt: skip


def test_the_drivers_gsp_history_dates_a_log_with_uptime_alone() -> None:
    data = (
        "[ 2638.641516] NVRM: Xid (PCI:0000:03:00): 79, pid=3, GPU has fallen off the bus.\n"
        "[ 2638.641541] NVRM: GPU0 RPC history (CPU -> GSP):\n"
        "[ 2638.641545] NVRM:     entry function  data0 data1 ts_start ts_end duration\n"
        "[ 2638.641549] NVRM:      0    76   GSP_RM_CONTROL        0x000000002080a097 "
        "0x0000000000000490 0x000609ffebd7f5bd 0x0000000000000000          y\n"
    )
    (item,) = extract(data, label("syslog")).observations
    begun = 0x000609FFEBD7F5BD
    assert item.when.basis == "uptime"
    assert item.when.earliest_us is not None
    assert item.when.latest_us is not None
    assert item.when.earliest_us <= begun + 6_000_000 <= item.when.latest_us
    assert item.when.latest_us - item.when.earliest_us < 130_000_000


def test_uptime_without_a_boot_time_stays_unknown() -> None:
    reader = stamps("syslog")
    when = reader.read("[449001.120117] NVRM: x")
    assert when is not None
    assert reader.resolve(when) == When(clock="n1")


def test_kmsg_sequence_lines_are_microseconds_since_boot() -> None:
    reader = stamps("syslog", boot_time_us=0)
    when = reader.read("4,1234,5678901,-;NVRM: x")
    assert when is not None
    assert reader.resolve(when).earliest_us == 5_678_901


def test_a_time_of_day_that_fits_several_days_covers_them() -> None:
    job = workload("2023-03-06T10:00:00Z", "2023-03-08T12:00:00Z")
    assert told(stamps(job=job).read("[11:00:00] x")) == (
        "2023-03-06T11:00:00Z", "2023-03-08T11:00:00.999999Z", "yearless",
    )  # fmt: skip


def test_job_output_in_another_zone_is_moved_into_the_attempt_with_a_warning() -> None:
    data = (
        "2025-06-26 07:55:00,000 step 1\n2025-06-26 08:20:00,000 x\n"
        "2025-06-26 08:24:00,000 socket refused by 10.0.0.1\n"
    )
    found = extract(data)
    (item,) = found.observations
    assert told(item.when) == (
        "2025-06-26T06:24:00Z", "2025-06-26T06:24:00.000999Z", "local",
    )  # fmt: skip
    assert found.warnings == [
        "stamps without a zone lie outside the attempt; read as moved by -2 h"
    ]


def test_a_node_log_outside_the_attempt_is_never_moved() -> None:
    data = "Jun 26 02:24:00 node-1 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, x\n"
    (item,) = extract(data, label("syslog")).observations
    assert told(item.when) == ("2025-06-26T02:24:00Z", "2025-06-26T02:24:00.999999Z", "yearless")


def test_an_unstamped_line_lies_between_its_neighbours() -> None:
    data = "2025-06-26 06:00:00,000 a\nsocket refused by 10.0.0.1\n2025-06-26 06:00:05,000 b\n"
    (item,) = extract(data).observations
    assert told(item.when) == (
        "2025-06-26T06:00:00Z", "2025-06-26T06:00:05.000999Z", "neighbour",
    )  # fmt: skip


def test_a_line_without_stamped_neighbours_has_the_attempts_bounds() -> None:
    (item,) = extract("socket refused by 10.0.0.1\n").observations
    assert told(item.when) == ("2025-06-26T05:50:00Z", "2025-06-26T06:24:55Z", "attempt")


def test_another_ranks_stamps_do_not_date_a_line() -> None:
    data = (
        "[rank0]: 2025-06-26 06:00:00,000 a\n[rank1]: socket refused by 10.0.0.1\n"
        "[rank0]: 2025-06-26 06:00:05,000 b\n"
    )
    (item,) = extract(data).observations
    assert item.when.basis == "attempt"


def test_an_unknown_zone_is_a_warning_and_not_a_failure() -> None:
    found = extract("2025-06-26 06:00:00,000 socket refused by 10.0.0.1\n",
                    label(timezone="Mars/Olympus"))  # fmt: skip
    assert found.observations[0].when.basis == "local"
    assert found.warnings[0].startswith("unknown timezone 'Mars/Olympus'")


def test_a_stamp_between_two_prefixes_dates_the_line() -> None:
    found = extract("".join(
        f"{rank}: [2025-06-26 06:00:0{rank}.000001] [rank{rank}] socket refused by 10.0.0.1\n"
        for rank in range(4)
    )).observations  # fmt: skip
    assert told(found[3].when) == (
        "2025-06-26T06:00:03.000001Z", "2025-06-26T06:00:03.000001Z", "local",
    )  # fmt: skip


RELTIME = """\
[Mar 6 11:12] nvidia-modeset: loading
[Mar 6 20:49] pcieport 0000:00:03.0: something
[  +0.000012] pcieport 0000:00:03.0: a line more
[  +1.500000] invoked oom-killer
[Mar 6 21:12] systemd: later
"""


def test_a_kernel_line_that_tells_the_time_since_the_line_above_is_dated_by_the_last_minute() -> (
    None
):
    (found,) = extract(RELTIME, label("syslog"), workload=workload()).observations
    assert told(found.when) == (
        "2023-03-06T20:49:01.500012Z", "2023-03-06T20:50:01.500011Z", "yearless",
    )  # fmt: skip


def test_a_minute_alone_is_a_stamp_of_the_kernels_log_only() -> None:
    assert told(stamps("syslog").read("[Mar 6 20:49] x")) == (
        "2023-03-06T20:49:00Z", "2023-03-06T20:49:59.999999Z", "yearless",
    )  # fmt: skip
    assert stamps("applog").read("[Mar 6 20:49] x") is None


def test_time_since_a_line_without_a_time_is_none() -> None:
    (found,) = extract(
        "x\n[  +1.500000] invoked oom-killer\n", label("syslog"), workload=workload()
    ).observations
    assert found.when.basis == "attempt"


def test_libfabric_seconds_outside_of_this_century_are_no_time() -> None:
    assert stamps().read("libfabric:1:9999999999::efa:cq:f():1<warn> x") is None
    assert stamps().read("libfabric:1:0000000000::efa:cq:f():1<warn> x") is None
