"""What the rules see of Slurm's JSON, where a release is known to write what is not so."""

import json

import pytest

from tests.unit.reading import facts, read


def job(exit_code, state="FAILED"):
    return json.dumps(
        {"jobs": [{"job_id": 7, "state": {"current": state}, "exit_code": exit_code, "steps": []}]}
    )


def exit_of(exit_code, state="FAILED"):
    (line,) = facts(read("scheduler", job(exit_code, state), job_id="7"))
    return line.partition(" exit=")[2].split(" ")[0]


def test_a_failed_job_that_22_05_calls_a_success_has_no_exit_code():
    assert exit_of({"status": "SUCCESS", "return_code": 0}) == ""


@pytest.mark.parametrize(
    ("exit_code", "state", "told"),
    [
        ({"status": "SUCCESS", "return_code": 0}, "COMPLETED", "0"),
        ({"status": "ERROR", "return_code": 3}, "FAILED", "3"),
        ({"status": ["ERROR"], "return_code": {"set": True, "number": 3}}, "FAILED", "3"),
        ({"status": ["SUCCESS"], "return_code": {"set": True, "number": 0}}, "FAILED", "0"),
    ],
)
def test_every_other_exit_code_is_told_as_it_is(exit_code, state, told):
    assert exit_of(exit_code, state) == told
