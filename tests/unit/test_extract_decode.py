"""Compressed, damaged and wrapped input."""

import gzip
import json

import pytest
from backports import zstd

from engine.extract.decode import DecodedStream, read_whole
from engine.extract.segment import SEGMENT_BYTES
from tests.unit.extract_fixtures import extract, label, reader

TEXT = b"2025-06-26 06:00:00,000 step 1\nsocket refused by 10.0.0.1\n" * 3000


def decoded(data: bytes) -> tuple[bytes, list[str]]:
    stream = DecodedStream(reader(data))
    found, _ = read_whole(stream, 1 << 30)
    return found, stream.warnings


def test_every_member_of_a_gzip_file_is_read() -> None:
    assert decoded(gzip.compress(TEXT) + gzip.compress(b"tail\n")) == (TEXT + b"tail\n", [])


def test_a_truncated_gzip_file_keeps_what_came_before_the_cut() -> None:
    found, warnings = decoded(gzip.compress(TEXT)[:-40])
    assert TEXT.startswith(found)
    assert len(found) > len(TEXT) // 2
    assert len(warnings) == 1


def test_garbage_behind_a_gzip_member_is_ignored_with_a_warning() -> None:
    assert decoded(gzip.compress(TEXT) + b"garbage") == (
        TEXT, ["bytes after the gzip data were ignored"],
    )  # fmt: skip


def test_zero_padding_behind_a_gzip_member_is_no_damage() -> None:
    assert decoded(gzip.compress(TEXT) + bytes(512)) == (TEXT, [])


def test_every_frame_of_a_zstd_file_is_read() -> None:
    assert decoded(zstd.compress(TEXT) + zstd.compress(b"tail\n")) == (TEXT + b"tail\n", [])


def test_a_truncated_zstd_file_warns() -> None:
    found, warnings = decoded(zstd.compress(TEXT)[:-4])
    assert TEXT.startswith(found)
    assert len(warnings) == 1


def test_a_decompression_bomb_stops_at_the_budget() -> None:
    found = extract(gzip.compress(bytes(50 << 20)), max_bytes=1 << 20)
    assert (found.bytes, found.truncated) == (1 << 20, True)


def test_offsets_are_of_the_decompressed_stream() -> None:
    (item,) = extract(gzip.compress(TEXT)).observations
    assert item.first.origin.byte_offset == TEXT.index(b"socket")
    assert item.count == 3000


def test_colours_inside_a_match_do_not_hide_it_and_offsets_stay_raw() -> None:
    data = b"a\n\x1b[31msocket \x1b[0mrefused\x1b[1m by 10.0.0.1\x1b[0m\n"
    (item,) = extract(data).observations
    origin = item.first.origin
    assert item.first.text == "socket refused by 10.0.0.1"
    assert (origin.line, origin.byte_offset, origin.byte_length) == (2, 2, len(data) - 3)


def test_pieces_of_a_progress_bar_are_lines_with_one_number_and_their_own_offsets() -> None:
    data = b"start\n 1%|x\rsocket refused by 10.0.0.1\r 2%|x\nend\n"
    (item,) = extract(data).observations
    origin = item.first.origin
    assert (origin.line, data[origin.byte_offset :][: origin.byte_length]) == (
        2, b"socket refused by 10.0.0.1",
    )  # fmt: skip


def test_windows_line_ends_are_no_part_of_a_line() -> None:
    (item,) = extract(b"x\r\nsocket refused by 10.0.0.1\r\n").observations
    assert item.fields["peer_addr"] == "10.0.0.1"
    assert (item.first.origin.line, item.first.origin.byte_offset) == (2, 3)


def test_utf_16_with_a_mark_is_read_with_offsets_of_the_stored_bytes() -> None:
    data = b"\xff\xfe" + "first\nsocket refused by 10.0.0.1\n".encode("utf-16-le")
    (item,) = extract(data).observations
    origin = item.first.origin
    assert (origin.line, origin.byte_offset) == (2, 2 + 2 * len("first\n"))
    assert data[origin.byte_offset :][: origin.byte_length].decode("utf-16-le") == item.first.text


def test_a_utf_8_mark_is_skipped() -> None:
    (item,) = extract(b"\xef\xbb\xbfsocket refused by 10.0.0.1\n").observations
    assert item.first.origin.byte_offset == 3


def test_bytes_that_are_no_utf_8_are_kept_as_latin_1() -> None:
    (item,) = extract(b"caf\xe9: socket refused by 10.0.0.1\n").observations
    assert item.first.text == "caf\u00e9: socket refused by 10.0.0.1"


def test_a_hole_of_zero_bytes_does_not_hide_the_line_behind_it() -> None:
    (item,) = extract(bytes(5000) + b"socket refused by 10.0.0.1\n").observations
    assert item.first.text == "socket refused by 10.0.0.1"


def test_a_line_longer_than_the_cap_is_cut_and_numbers_stay_right() -> None:
    data = b"x" * (3 << 20) + b"\nsocket refused by 10.0.0.1\n"
    (item,) = extract(data).observations
    assert (item.first.origin.line, item.first.origin.byte_offset) == (2, (3 << 20) + 1)


def wrapped(**record: object) -> str:
    return json.dumps(record) + "\n"


@pytest.mark.parametrize(
    "line",
    [
        wrapped(log="socket refused by 10.0.0.1\n", stream="stderr", time="2025-06-26T06:00:00.5Z"),
        wrapped(MESSAGE="socket refused by 10.0.0.1", __REALTIME_TIMESTAMP="1750917600500000",
                _HOSTNAME="node-1", SYSLOG_IDENTIFIER="app", _PID="7"),
        wrapped(date=1750917600.5, log="socket refused by 10.0.0.1"),
        wrapped(timestamp="2025-06-26T06:00:00.5Z", host="node-1",
                message="socket refused by 10.0.0.1", severity="err"),
        wrapped(resourceLogs=[{"scopeLogs": [{"logRecords": [
            {"timeUnixNano": "1750917600500000000",
             "body": {"stringValue": "socket refused by 10.0.0.1"}}]}]}]),
    ],
)  # fmt: skip
def test_a_wrapped_line_is_unwrapped_with_its_time(line: str) -> None:
    (item,) = extract("".join([line] * 3)).observations
    assert item.fields["peer_addr"] == "10.0.0.1"
    assert (item.when.earliest_us, item.when.basis) == (1_750_917_600_500_000, "stamp")
    assert (item.count, item.last.origin.line) == (3, 3)
    assert item.first.origin.byte_length == len(line) - 1


def test_a_traceback_inside_one_wrapped_record_is_a_block() -> None:
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1'
    data = wrapped(message=text, level="error", ts="2025-06-26T06:00:00Z")
    (item,) = extract(data).observations
    assert item.fields["exception"] == "KeyError"


def test_journal_export_entries_are_read() -> None:
    entry = (
        "__CURSOR=s=1\n__REALTIME_TIMESTAMP=1750917600500000\n_HOSTNAME=node-1\n"
        "SYSLOG_IDENTIFIER=kernel\n"
        "MESSAGE=NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n\n"
    )
    (item,) = extract(entry * 2, label("syslog")).observations
    assert (item.symptom, item.count, item.first.origin.line) == ("gpu_lost", 2, 5)
    assert item.when.earliest_us == 1_750_917_600_500_000


def test_the_last_journal_entry_counts_where_the_stream_ends_with_a_segment() -> None:
    entry = b"__REALTIME_TIMESTAMP=1750917600000000\n_HOSTNAME=node-1\nSYSLOG_IDENTIFIER=kernel\n"
    last = b"MESSAGE=invoked oom-killer\n"
    filler = entry + b"MESSAGE=step\n\n"
    room = SEGMENT_BYTES - len(entry) - len(last)
    data = filler * (room // len(filler) - 1)
    data += b"X=" + b"y" * (room - len(data) - 4) + b"\n\n" + entry + last
    assert len(data) == SEGMENT_BYTES
    found = extract(data, label("syslog")).observations
    assert [item.symptom for item in found] == ["host_oom"]
