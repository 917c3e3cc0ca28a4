from engine.model.moment import parse_rfc3339 as moment
from engine.model.moment import to_us
from tests.unit.reading import facts, read

FIXED = """\
JobID           JobName  Partition      State ExitCode               Start                 End
------------ ---------- ---------- ---------- -------- ------------------- -------------------
410050          scgpt        gpu    TIMEOUT      0:0 2025-01-08T15:27:16 2025-01-10T15:27:25
410050.ba+      batch             CANCELLED     0:15 2025-01-08T15:27:16 2025-01-10T15:27:27
410050.0       python             CANCELLED      0:9 2025-01-08T15:27:20 2025-01-10T15:27:58
"""


def test_a_fixed_width_table_gives_the_job_and_its_steps_with_cut_names_made_whole():
    assert facts(read("scheduler", FIXED)) == [
        "slurm.job id=410050 state=TIMEOUT exit=0 signal=0 name=scgpt",
        "slurm.step id=410050 step=batch state=CANCELLED exit=0 signal=15",
        "slurm.step id=410050 step=0 state=CANCELLED exit=0 signal=9",
    ]


def test_a_fact_keeps_the_line_offset_and_text_that_it_was_read_from():
    structured = read("scheduler", FIXED)
    fact = structured.facts[1]
    start = fact.origin.byte_offset
    assert fact.origin.line == 4
    assert FIXED[start : start + fact.origin.byte_length] == fact.excerpt
    assert fact.excerpt.startswith("410050.ba+ ")


def test_the_end_of_a_job_is_read_in_the_jobs_own_timezone():
    structured = read("scheduler", FIXED, timezone="Europe/Paris")
    wanted = to_us(moment("2025-01-10T14:27:25Z"))
    assert structured.facts[0].when.earliest_us == wanted


def test_a_state_cut_to_ten_characters_is_made_whole():
    table = """\
JobID          State      ExitCode
------------ ---------- --------
77           OUT_OF_ME+    0:125
78           CANCELLED+      0:0
"""
    assert facts(read("scheduler", table, job_id="77"))[0] == (
        "slurm.job id=77 state=OUT_OF_MEMORY exit=0 signal=125"
    )
    assert facts(read("scheduler", table, job_id="78"))[0] == (
        "slurm.job id=78 state=CANCELLED exit=0 signal=0"
    )


def test_who_cancelled_is_kept_beside_the_state():
    text = "JobID|State|ExitCode\n6|CANCELLED by 1000|0:0\n"
    assert facts(read("scheduler", text, job_id="6")) == [
        "slurm.job id=6 state=CANCELLED by=1000 exit=0 signal=0"
    ]


def test_a_parsable_table_ends_each_row_with_a_bar():
    text = "JobID|JobName|State|ExitCode|\n9|a b|FAILED|1:0|\n9.0|python|FAILED|1:0|\n"
    assert facts(read("scheduler", text, job_id="9")) == [
        'slurm.job id=9 state=FAILED exit=1 signal=0 name="a b"',
        "slurm.step id=9 step=0 state=FAILED exit=1 signal=0",
    ]


def test_a_bar_inside_the_submit_line_does_not_shift_the_columns_after_it():
    text = "JobID|SubmitLine|State|ExitCode\n9|sbatch --wrap a | b|NODE_FAIL|0:0\n"
    assert facts(read("scheduler", text, job_id="9")) == [
        "slurm.job id=9 state=NODE_FAIL exit=0 signal=0"
    ]


def test_another_jobs_row_is_marked_so_that_no_rule_matches_it():
    text = "JobID|State|ExitCode\n6|COMPLETED|0:0\n7|NODE_FAIL|0:0\n"
    assert facts(read("scheduler", text, job_id="6")) == [
        "slurm.job id=6 state=COMPLETED exit=0 signal=0",
        "slurm-other.job id=7 state=NODE_FAIL exit=0 signal=0",
    ]


def test_one_task_of_an_array_is_not_its_siblings():
    text = "JobID|State|ExitCode\n9_1|FAILED|1:0\n9_2|COMPLETED|0:0\n"
    assert facts(read("scheduler", text, job_id="9_1")) == [
        "slurm.job id=9_1 state=FAILED exit=1 signal=0",
        "slurm-other.job id=9_2 state=COMPLETED exit=0 signal=0",
    ]


def test_of_a_requeued_job_the_run_that_fits_the_attempts_start_counts():
    text = (
        "JobID|State|ExitCode|Start|End\n"
        "9|NODE_FAIL|0:0|2025-01-01T00:00:00|2025-01-01T01:00:00\n"
        "9|FAILED|1:0|2025-01-01T02:00:00|2025-01-01T03:00:00\n"
    )
    found = facts(read("scheduler", text, job_id="9", start="2025-01-01T02:00:03"))
    assert found == [
        "slurm.job id=9 state=FAILED exit=1 signal=0",
        "slurm-other.job id=9 state=NODE_FAIL exit=0 signal=0",
    ]


def test_scontrol_values_may_hold_spaces_and_null_words_are_left_out():
    text = """\
JobId=5 JobName=time out
   UserId=root(0) GroupId=root(0) MCS_label=N/A
   JobState=TIMEOUT Reason=TimeLimit Dependency=(null)
   Requeue=0 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:15
   NodeList=n[2-3]
"""
    assert facts(read("scheduler", text, job_id="5")) == [
        "slurm.job id=5 state=TIMEOUT exit=0 signal=15 reason=TimeLimit nodes=n[2-3] "
        'restarts=2 user=root name="time out"'
    ]


def test_scontrol_one_liners_are_read_alike():
    text = (
        "JobId=12(9_3) ArrayJobId=9 ArrayTaskId=3 JobState=NODE_FAIL Reason=NodeDown ExitCode=0:1\n"
    )
    assert facts(read("scheduler", text, job_id="9_3")) == [
        "slurm.job id=9_3 state=NODE_FAIL exit=0 signal=1 reason=NodeDown"
    ]


def test_a_down_node_of_the_job_is_an_entity_and_its_reason_has_an_author_and_a_time():
    text = (
        "NodeName=n1 Arch=x86_64 CoresPerSocket=1\n   State=DOWN*+DRAIN ThreadsPerCore=1\n"
        "   Reason=Not responding [slurm@2026-11-30T14:14:48]\n"
    )
    structured = read("scheduler", text, job_id="5", nodes=("n1",))
    assert facts(structured) == [
        'slurm.node node=n1 state=DOWN*+DRAIN reason="Not responding" by=slurm'
    ]
    fact = structured.facts[0]
    assert fact.entity.node == "n1"
    assert fact.when.earliest_us == to_us(moment("2026-11-30T14:14:48Z"))


def test_a_drained_node_that_the_job_did_not_run_on_is_a_stranger():
    text = (
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "Prolog error         slurm     2018-05-17T01:05:47 node-[001-002]\n"
    )
    structured = read("scheduler", text, job_id="23", nodes=("node-001",))
    assert facts(structured) == [
        'slurm.node node=node-001 reason="Prolog error" by=slurm',
        'slurm-other.node node=node-002 reason="Prolog error" by=slurm',
    ]
    assert [fact.entity.node for fact in structured.others] == [""]


def test_squeue_reasons_are_not_taken_for_nodes():
    text = (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
        "                88      main    train     root PD       0:00      4 (Resources)\n"
    )
    assert facts(read("scheduler", text, job_id="88")) == [
        "slurm.job id=88 state=PENDING reason=Resources elapsed=0:00 user=root name=train"
    ]


def test_lines_that_are_no_table_stay_text():
    structured = read(
        "scheduler",
        "$ sacct -j 6\nJobID|State|ExitCode\n6|FAILED|1:0\nsrun: error: x\n",
        job_id="6",
    )
    assert structured.unconsumed == [(1, 0, b"$ sacct -j 6"), (4, 47, b"srun: error: x")]


def test_plain_text_is_no_structured_source_at_all():
    assert read("scheduler", "slurmctld: error: Nodes n3 not responding\n") is None


def test_a_host_list_without_end_does_not_hang():
    text = (
        "REASON USER TIMESTAMP NODELIST\n"
        "Low RealMemory slurm 2018-05-17T01:05:47 n[0-999999999999]\n"
    )
    structured = read("scheduler", text, nodes=("n1",))
    assert len(structured.others) <= 101


def test_a_seff_block_gives_state_and_exit_code():
    text = (
        "Job ID: 7\nCluster: lab\nUser/Group: alice/ml\nState: OUT_OF_MEMORY (exit code 0)\n"
        "Job Wall-clock time: 03:57:12\nMemory Utilized: 199.99 GB\n\nsomething else\n"
    )
    structured = read("scheduler", text, job_id="7")
    assert facts(structured) == [
        "slurm.job id=7 state=OUT_OF_MEMORY exit=0 elapsed=03:57:12 user=alice"
    ]
    assert [line for _, _, line in structured.unconsumed] == [b"something else"]


def test_where_the_jobs_nodes_are_unknown_a_drained_node_is_nobodys_entity():
    text = (
        "REASON               USER      TIMESTAMP           NODELIST\n"
        "Not responding       slurm     2018-05-17T01:05:47 node-[001-004]\n"
    )
    structured = read("scheduler", text, nodes=())
    assert {fact.entity.node for fact in structured.facts} == {""}
