"""Slurm's records of many releases and tools as attempts."""

from connectors.schedulers.slurm_record import (
    read_jobs_json,
    read_record,
    read_sacct_text,
    read_scontrol,
)

HEAD = (
    "JobIDRaw|JobID|State|ExitCode|DerivedExitCode|Submit|Start|End|TimelimitRaw|NodeList|JobName"
)


def row(**values):
    given = {
        "raw": "7", "id": "7", "state": "FAILED", "exit": "3:0", "derived": "0:0",
        "submit": "2026-03-29T00:10:00", "start": "2026-03-29T00:30:00",
        "end": "2026-03-29T01:30:00", "limit": "60", "nodes": "n[01-03]", "name": "sft",
    } | values  # fmt: skip
    return "|".join(given.values())


def one(text):
    (attempt,) = read_sacct_text(text)
    return attempt


def test_accounting_gives_window_nodes_in_order_limit_and_exit():
    workload = one(f"{HEAD}\n{row()}\n").workload
    assert (workload.job_id, workload.state, workload.exit_code) == ("7", "FAILED", "3:0")
    assert workload.nodes == ("n01", "n02", "n03")
    assert workload.time_limit_s == 3600
    assert (workload.end - workload.start).total_seconds() == 3600


def test_a_zone_whose_clocks_change_in_between_is_counted_right():
    text = f"{HEAD}\n{row(start='2026-03-29T01:30:00', end='2026-03-29T03:30:00')}\n"
    (attempt,) = read_sacct_text(text, timezone="Europe/Paris")
    workload = attempt.workload
    assert (workload.end - workload.start).total_seconds() == 3600


def test_a_job_over_midnight_keeps_its_order():
    workload = one(f"{HEAD}\n{row(start='2026-12-31T23:59:58', end='2027-01-01T00:00:03')}\n")
    assert (workload.workload.end - workload.workload.start).total_seconds() == 5


def test_a_name_with_newlines_and_bars_stays_in_its_column():
    rows = [HEAD, row(name="a|b"), row(id="8", raw="8", name="x\ny|FAILED"), row(id="9", raw="9")]
    attempts = read_sacct_text("\n".join(rows))
    assert [each.workload.job_id for each in attempts] == ["7", "8", "9"]
    assert [each.workload.name for each in attempts] == ["a|b", "x\ny|FAILED", "sft"]


def test_a_requeued_jobs_attempts_come_by_start_and_the_waiting_one_last():
    text = "\n".join(
        [
            HEAD,
            row(state="PENDING", start="Unknown", end="Unknown", nodes="None assigned"),
            row(state="FAILED", start="2026-03-29T02:00:00", end="2026-03-29T02:10:00"),
            row(state="NODE_FAIL", start="2026-03-29T00:30:00", end="2026-03-29T01:30:00"),
        ]
    )
    attempts = read_sacct_text(text)
    assert [each.workload.state for each in attempts] == ["NODE_FAIL", "FAILED", "PENDING"]
    assert [each.is_over for each in attempts] == [True, True, False]
    assert attempts[2].workload.nodes == ()


def test_array_tasks_and_het_parts_are_named_as_slurm_writes_them():
    text = "\n".join([HEAD, row(raw="12", id="10_2"), row(raw="21", id="20+1")])
    attempts = read_sacct_text(text)
    assert [each.workload.job_id for each in attempts] == ["10_2", "20+1"]
    assert (attempts[0].array_job_id, attempts[0].array_task_id) == ("10", "2")
    assert (attempts[1].het_job_id, attempts[1].het_offset) == ("20", "1")


def test_steps_are_no_attempts():
    text = "\n".join([HEAD, row(), row(raw="7.batch", id="7.batch"), row(raw="7.0", id="7.0")])
    assert len(read_sacct_text(text)) == 1


def test_fixed_width_output_is_read_by_its_dashes():
    text = (
        "       JobID      State ExitCode        NodeList \n"
        "------------ ---------- -------- --------------- \n"
        "7            CANCELLED+     0:15        n[01-02] \n"
        "7.batch       CANCELLED     0:15        n01 \n"
    )
    workload = one(text).workload
    assert (workload.state, workload.exit_code) == ("CANCELLED+", "0:15")
    assert workload.nodes == ("n01", "n02")


def test_an_end_of_a_running_job_is_not_one():
    assert one(f"{HEAD}\n{row(state='RUNNING')}\n").workload.end is None


def new_json(**values):
    job = {
        "job_id": 12, "name": "sft", "nodes": "n[1-2]", "restart_cnt": 2, "failed_node": "n2",
        "state": {"current": ["NODE_FAIL"], "reason": "None"},
        "exit_code": {"status": ["SIGNALED"], "return_code": {"set": False, "number": 0},
                      "signal": {"id": {"set": True, "infinite": False, "number": 9}, "name": "9"}},
        "time": {"start": 1760000000, "end": 1760000100, "submission": 1759999000,
                 "limit": {"set": True, "infinite": False, "number": 30}},
        "array": {"job_id": 10, "task_id": {"set": True, "infinite": False, "number": 2}},
        "association": {"account": "ml", "user": "ann", "cluster": "c"},
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 16}]},
    }  # fmt: skip
    return {"jobs": [job | values]}


def test_json_of_later_releases_wraps_numbers_and_lists_states():
    (attempt,) = read_jobs_json(new_json())
    workload = attempt.workload
    assert (workload.job_id, workload.state, workload.exit_code) == ("10_2", "NODE_FAIL", "0:9")
    assert (workload.tenant, workload.user, workload.time_limit_s) == ("ml", "ann", 1800)
    assert (attempt.restarts, attempt.failed_nodes, attempt.gpus) == (2, ("n2",), 16)


def test_json_of_22_05_gives_no_exit_code_where_it_lies():
    old = {
        "job_id": 3, "state": {"current": "FAILED"}, "nodes": "n1", "array": {"job_id": 0},
        "exit_code": {"status": "SUCCESS", "return_code": 0}, "time": {"start": 1, "end": 2},
    }  # fmt: skip
    (attempt,) = read_jobs_json({"jobs": [old]})
    assert attempt.workload.exit_code is None


def test_unlimited_and_unset_numbers_are_none():
    (attempt,) = read_jobs_json(
        new_json(
            time={"start": 0, "end": 0, "limit": {"set": True, "infinite": True, "number": 0}},
            array={"job_id": 0, "task_id": {"set": False, "infinite": False, "number": 0}},
        )
    )
    assert attempt.workload.job_id == "12"
    assert (attempt.workload.start, attempt.workload.time_limit) == (None, None)


def test_a_broken_json_answer_has_no_jobs():
    for document in ({}, {"jobs": None}, {"jobs": [3, {}]}, [], None):
        assert read_jobs_json(document) == []


def test_the_controllers_record_is_read_in_both_forms():
    many = (
        "JobId=7 ArrayJobId=5 ArrayTaskId=2 JobName=a b=c\n   UserId=ann(1000) GroupId=ann(1000)\n"
        "   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)\n"
        "   Requeue=0 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:15\n"
        "   RunTime=00:01:28 TimeLimit=1-00:00:00 TimeMin=N/A\n"
        "   StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00 Deadline=N/A\n"
        "   ReqNodeList=(null) ExcNodeList=(null)\n   NodeList=n[1-2]\n"
        "   StdOut=/home/ann/out dir/7.out\n"
    )
    for text in (many, " ".join(many.split("\n"))):
        (attempt,) = read_scontrol(text)
        workload = attempt.workload
        assert (workload.job_id, workload.name, workload.user) == ("5_2", "a b=c", "ann")
        assert (workload.state, workload.time_limit_s) == ("TIMEOUT", 86400)
        assert workload.nodes == ("n1", "n2")
        assert (attempt.restarts, attempt.reason) == (1, "TimeLimit")
        assert attempt.stdout == "/home/ann/out dir/7.out"


def test_a_job_name_cannot_give_the_controllers_record_another_state():
    text = (
        "JobId=7 JobName=x JobState=COMPLETED NodeList=n9 UserId=ann(1) GroupId=a(1)\n"
        "   JobState=FAILED Reason=None\n   NodeList=n1\n"
    )
    (attempt,) = read_scontrol(text)
    assert attempt.workload.state == "FAILED"
    assert attempt.workload.nodes == ("n1",)


def test_an_epilogs_environment_has_no_state_but_exit_codes_and_restarts():
    attempt = read_record(
        {
            "SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "2",
            "SLURM_JOB_EXIT_CODE": "768", "SLURM_JOB_EXIT_CODE2": "3:0",
            "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_JOB_RESTART_COUNT": "1",
            "SLURM_CLUSTER_NAME": "lab", "SLURM_JOB_ACCOUNT": "ml",
        }
    )  # fmt: skip
    workload = attempt.workload
    assert (workload.job_id, workload.state, workload.exit_code) == ("10_2", None, "3:0")
    assert (workload.cluster, workload.tenant, attempt.restarts) == ("lab", "ml", 1)
    assert not attempt.is_over


def test_a_completion_scripts_environment_is_read():
    attempt = read_record(
        {
            "JOBID": "4", "JOBSTATE": "FAILED", "EXITCODE": "0:11", "DERIVED_EC": "0:0",
            "START": "1796048062", "END": "1796048063", "NODES": "n1", "LIMIT": "01:00:00",
            "ARRAYJOBID": "0", "ARRAYTASKID": "4294967294", "ACCOUNT": "ml", "CLUSTER": "lab",
        }
    )  # fmt: skip
    assert attempt.workload.job_id == "4"
    assert attempt.workload.exit_code == "0:11"
    assert attempt.workload.time_limit_s == 3600


def test_a_posted_completion_names_the_failed_node():
    attempt = read_record(
        {
            "jobid": 9, "state": "NODE_FAIL", "exit_code": "0:0", "failed_node": "n2",
            "nodes": "n[1-2]", "@start": "2026-11-30T13:59:19", "@end": "2026-11-30T13:59:20",
            "time_limit": 3600, "script": "export TOKEN=hunter2",
        }
    )  # fmt: skip
    assert attempt.failed_nodes == ("n2",)
    assert "hunter2" not in attempt.model_dump_json()


def test_a_record_without_a_job_is_none():
    assert read_record({"SLURM_CLUSTER_NAME": "lab"}) is None


def test_a_job_that_never_began_has_no_start_though_slurm_writes_one():
    moment = "2026-03-29T00:30:00"
    texts = [
        f"{HEAD}\n{row(state='CANCELLED by 0', start=moment, end=moment, nodes=given)}\n"
        for given in ("", "None assigned")
    ]
    assert [one(text).workload.start for text in texts] == [None, None]
    told = read_record({"JOBID": "1", "JOBSTATE": "CANCELLED", "START": "1796066780",
                        "END": "1796066780", "NODES": ""})  # fmt: skip
    assert told.workload.start is None


def test_a_job_that_ran_for_less_than_a_second_has_a_start():
    moment = "2026-03-29T00:30:00"
    assert one(f"{HEAD}\n{row(start=moment, end=moment)}\n").workload.start is not None
