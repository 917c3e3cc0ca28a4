import json

from tests.unit.reading import facts, read


def job(**more):
    return {"job_id": 7, "name": "oom", "nodes": "n2", **more}


def test_the_state_may_be_text_or_a_list():
    old = job(state={"current": "TIMEOUT", "reason": "TimeLimit"})
    new = job(state={"current": ["TIMEOUT"], "reason": "TimeLimit"})
    wanted = ["slurm.job id=7 state=TIMEOUT reason=TimeLimit nodes=n2 name=oom"]
    assert facts(read("scheduler", json.dumps({"jobs": [old]}), job_id="7")) == wanted
    assert facts(read("scheduler", json.dumps({"jobs": [new]}), job_id="7")) == wanted


def test_exit_codes_of_both_parsers_come_out_as_code_and_signal():
    old = job(exit_code={"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 125}})
    number = {"set": True, "infinite": False, "number": 3}
    unset = {"set": False, "infinite": False, "number": 0}
    new = job(
        exit_code={"status": ["ERROR"], "return_code": number, "signal": {"id": unset, "name": ""}}
    )
    assert facts(read("scheduler", json.dumps({"jobs": [old]}), job_id="7")) == [
        "slurm.job id=7 exit=0 signal=125 nodes=n2 name=oom"
    ]
    assert facts(read("scheduler", json.dumps({"jobs": [new]}), job_id="7")) == [
        "slurm.job id=7 exit=3 signal=0 nodes=n2 name=oom"
    ]


def test_a_raw_wait_status_is_decoded():
    text = json.dumps({"jobs": [job(job_state="FAILED", exit_code=768)]})
    assert facts(read("scheduler", text, job_id="7")) == [
        "slurm.job id=7 state=FAILED exit=3 signal=0 nodes=n2 name=oom"
    ]


def test_steps_follow_their_job():
    step = {
        "step": {"id": {"job_id": 7, "step_id": "batch"}, "name": "batch"},
        "state": ["OUT_OF_MEMORY"],
        "exit_code": {
            "return_code": {"set": True, "number": 0},
            "signal": {"id": {"set": True, "number": 125}},
        },
        "nodes": {"count": 1, "range": "n2", "list": ["n2"]},
    }
    text = json.dumps({"jobs": [job(steps=[step])]})
    assert facts(read("scheduler", text, job_id="7"))[1] == (
        "slurm.step id=7 step=batch state=OUT_OF_MEMORY exit=0 signal=125 nodes=n2"
    )


def test_an_array_task_is_known_by_its_array_id():
    array = {"job_id": 9, "task_id": {"set": True, "number": 1}}
    text = json.dumps({"jobs": [job(job_id=10, array=array)]})
    assert facts(read("scheduler", text, job_id="9_1")) == ["slurm.job id=9_1 nodes=n2 name=oom"]


def test_a_completion_record_is_read_and_its_script_is_not_quoted():
    record = {
        "jobid": 1,
        "state": "NODE_FAIL",
        "exit_code": "0:0",
        "failed_node": "n3",
        "nodes": "n[1-3]",
        "@end": "2026-11-30T13:59:19",
        "script": "#!/bin/sh\nexport TOKEN=hunter2\n",
    }
    structured = read("scheduler", json.dumps(record), job_id="1")
    assert facts(structured) == [
        "slurm.job id=1 state=NODE_FAIL exit=0 signal=0 failed_node=n3 nodes=n[1-3]"
    ]
    assert "hunter2" not in structured.facts[0].excerpt


def test_json_lines_of_epilogs_are_read_one_by_one():
    text = (
        '{"SLURM_JOB_ID": "3", "SLURM_JOB_EXIT_CODE": "768", "SLURM_JOB_EXIT_CODE2": "3:0"}\n'
        '{"SLURM_JOB_ID": "4", "SLURM_JOB_EXIT_CODE": "11", "SLURM_JOB_EXIT_CODE2": "0:11"}\n'
    )
    assert facts(read("scheduler", text, job_id="4")) == [
        "slurm.job id=4 exit=0 signal=11",
        "slurm-other.job id=3 exit=3 signal=0",
    ]


def test_a_node_list_of_a_json_sinfo_gives_states_and_reasons():
    node = {
        "name": "n3",
        "state": ["DOWN", "DRAIN"],
        "reason": "Kill task failed [root@2026-01-01T00:00:00]",
    }
    text = json.dumps({"nodes": [node], "errors": []})
    assert facts(read("scheduler", text, nodes=("n3",))) == [
        'slurm.node node=n3 state=DOWN+DRAIN reason="Kill task failed" by=root'
    ]


def test_records_of_the_wrong_shape_leave_the_text_to_the_scanner():
    text = '{"jobs": [{"job_id": 7, "exit_code": {"signal": [1]}, "state": {"current": 5}, "time": 3}]}'  # noqa: E501
    structured = read("scheduler", text, job_id="7")
    assert structured is not None
    assert read("scheduler", "{" * 100_000) is None
