"""Lines that shippers wrap: what they hold is matched, in its escaped form as well."""

import json
import struct

import pytest

from tests.unit.extract_fixtures import extract

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 3, in main\n'
    "RuntimeError: uncorrectable ECC error encountered"
)


def journal(message, us, *, binary=False):
    body = message.encode()
    head = f"__CURSOR=s=1;i={us}\n__REALTIME_TIMESTAMP={us}\n_HOSTNAME=n1\n_PID=77\n".encode()
    head += b"SYSLOG_IDENTIFIER=train\n"
    if binary:
        return head + b"MESSAGE\n" + struct.pack("<Q", len(body)) + body + b"\n\n"
    return head + b"MESSAGE=" + body + b"\n\n"


def symptoms(found):
    return [each.symptom for each in found.observations]


def test_a_journal_s_message_of_several_lines_is_read_whole():
    data = journal("quiet", 1_767_225_600_000_000) * 8
    data += journal(TRACE, 1_767_225_601_000_000, binary=True)
    data += journal(XID, 1_767_225_602_000_000)
    found = extract(data)
    assert sorted(symptoms(found)) == ["ecc_error", "gpu_lost"]
    (ecc,) = [each for each in found.observations if each.symptom == "ecc_error"]
    assert ecc.when.earliest_us == 1_767_225_601_000_000


@pytest.mark.parametrize("length", [9, 10, 266, 2_570])
def test_a_length_that_holds_a_line_feed_splits_nothing(length):
    message = "x" * (length - 1) + "\n"
    data = journal("quiet", 1_767_225_600_000_000) * 8
    data += journal(message, 1_767_225_601_000_000, binary=True)
    data += journal(XID, 1_767_225_602_000_000)
    assert symptoms(extract(data)) == ["gpu_lost"]


def test_a_length_that_lies_costs_one_value():
    data = journal("quiet", 1_767_225_600_000_000) * 8
    data += b"MESSAGE\n" + struct.pack("<Q", 1 << 60) + b"short\n\n"
    data += journal(XID, 1_767_225_602_000_000)
    assert symptoms(extract(data)) == ["gpu_lost"]


def otlp(body, host="n1"):
    attributes = [{"key": "host.name", "value": {"stringValue": host}},
                  {"key": "service.name", "value": {"stringValue": "kernel"}}]  # fmt: skip
    records = [{"timeUnixNano": "1767225601000000000", "body": {"stringValue": body}}]
    scope = {"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": records}]}
    return json.dumps({"resourceLogs": [scope]})


FORMS = {
    "rsyslog": {"timestamp": "2026-01-01T00:00:01Z", "host": "n1", "syslog-tag": "kernel:",
                "message": XID},
    "fluent bit": {"date": 1767225601.0, "log": XID, "kubernetes": {"pod_name": "sft-0"}},
    "docker": {"log": XID + "\n", "stream": "stderr", "time": "2026-01-01T00:00:01.000000Z"},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_shipper_s_record_is_matched_and_dated(form):
    found = extract(f"{json.dumps(FORMS[form])}\n".encode() * 3)
    assert set(symptoms(found)) == {"gpu_lost"}
    assert found.observations[0].when.earliest_us == 1_767_225_601_000_000


def test_otlp_says_when_where_and_what():
    found = extract(f"{otlp(XID)}\n".encode() * 2)
    (lost,) = found.observations
    assert (lost.symptom, lost.when.earliest_us) == ("gpu_lost", 1_767_225_601_000_000)
    assert " n1 kernel: NVRM" in lost.first.text


@pytest.mark.parametrize("escape", ["ascii", "go"])
def test_what_a_shipper_escapes_is_matched_as_what_it_is(escape):
    text = 'Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType="x" <a>'
    line = json.dumps({"log": text.replace("OpType=", "OpType=ALL"), "stream": "stderr",
                       "time": "2026-01-01T00:00:01Z"})  # fmt: skip
    if escape == "go":
        line = line.replace("<", r"\u003c").replace(">", r"\u003e").replace("=", r"\u003d")
    assert symptoms(extract(f"{line}\n".encode() * 2)) == ["collective_timeout"]
