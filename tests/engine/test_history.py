"""What concurrent failures must have in common to be one incident."""

from dataclasses import replace
from datetime import timedelta

import pytest

from engine.history import shared_things
from engine.model.verdict import PastVerdict, Verdict
from engine.pipeline import attribute
from tests.engine.cases import START, book, case, meaning, seen

RULES = book(
    meaning("port_down", "network", "root", 2, entity="node"),
    meaning("lib_missing", "framework", "root", 2, entity="rank"),
    meaning("lustre_lost", "storage", "root", 2, entity="job"),
)
PORT = seen("port_down", 50, source="syslog", node="node-002")
SWITCH, IMAGE = "switch leaf-01", "image train:7"


def judge(fault, *given: PastVerdict, **changes) -> Verdict:
    return attribute(replace(case(fault, **changes), history=given), RULES)


def met(job: str = "99", domain: str = "network", failure_class: str = "port_down", **fields):
    return PastVerdict(attribution_id=f"sha256:{job}", relation="concurrent", job_id=job,
                       domain=domain, failure_class=failure_class, **fields)  # fmt: skip


def test_jobs_below_one_switch_share_an_incident():
    entry = met(shared=(SWITCH,), below={SWITCH: ("node-002",)})
    verdict = judge(PORT, entry)
    assert verdict.history.verdicts[0].shared == (SWITCH,)
    assert verdict.history.incident_id
    assert "shared_with_other_jobs" in verdict.quality.reasons


@pytest.mark.parametrize(
    "entry",
    [
        met(shared=(SWITCH,), below={SWITCH: ("node-001",)}),
        met(shared=(IMAGE,)),
        met(shared=(SWITCH,), named=("switch leaf-02", "filesystem scratch")),
        met(named=("switch leaf-01",)),
    ],
    ids=["above other nodes", "an image", "both name others", "this one names none"],
)
def test_what_cannot_be_why_both_failed_is_not_told(entry):
    if entry.named and entry.shared:
        fault = seen("port_down", 50, source="syslog", node="node-002", switch="leaf-01")
    else:
        fault = PORT
    verdict = judge(fault, entry)
    assert verdict.history == judge(fault).history
    assert verdict == judge(fault)


def test_a_switch_that_both_name_is_shared():
    fault = seen("port_down", 50, source="syslog", node="node-002", switch="leaf-01")
    verdict = judge(fault, met(named=(SWITCH,)))
    assert verdict.history.verdicts[0].shared == (SWITCH,)


def test_an_image_is_shared_where_its_software_failed():
    fault = seen("lib_missing", 50, node="node-002", rank=1)
    entry = met(domain="framework", failure_class="lib_missing", shared=(IMAGE, SWITCH))
    assert judge(fault, entry).history.verdicts[0].shared == (IMAGE,)


def test_the_incident_is_the_same_from_each_attempt():
    """Three jobs below one switch, two of which share another: all see what most share."""
    ends = {"1": 55, "2": 60, "3": 64}
    shared = {("1", "2"): (SWITCH, "switch core"), ("1", "3"): (SWITCH,), ("2", "3"): (SWITCH,)}
    found = set()
    for job, end in ends.items():
        given = [
            met(other, shared=shared[tuple(sorted((job, other)))],
                end=f"2026-01-31T0{(minute // 60)}:{minute % 60:02}:00Z")
            for other, minute in ends.items() if other != job
        ]  # fmt: skip
        verdict = judge(PORT, *given, end=START + timedelta(minutes=end))
        found.add(verdict.history.incident_id)
    assert len(found) == 1
    assert None not in found


def test_targets_of_lustre_stand_for_their_file_system_and_local_disks_are_not_shared():
    assert shared_things("storage", "lustre_lost", (), ("scratch-OST0003-osc-ff88",)) == {
        "filesystem scratch"
    }
    assert shared_things("storage", "filesystem_error", (), ("sda1",)) == frozenset()
    assert shared_things("nvlink", "nvswitch_fatal", ("0",), ()) == frozenset()
