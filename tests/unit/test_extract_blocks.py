"""Blocks: tracebacks and their claims, torchelastic tables, OOM reports, loose lines."""

from engine.model.observation import Observation
from tests.unit.extract_fixtures import extract, label


def by_symptom(data: str, source: str = "applog") -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for item in extract(data, label(source)).observations:
        found.setdefault(item.symptom, []).append(item)
    return found


PLAIN = """\
Traceback (most recent call last):
  File "/home/u/train.py", line 3, in <module>
    main()
  File "/opt/lib/python3.10/site-packages/torch/nn/modules/module.py", line 9, in to
    return x
ValueError: bad: value
after
"""


def test_a_traceback_is_one_sample_with_exception_and_innermost_frame() -> None:
    (item,) = by_symptom(PLAIN)["python_exception"]
    assert item.kind == "block"
    assert item.first.text == PLAIN.removesuffix("after\n").rstrip("\n")
    assert (item.first.origin.line, item.first.lines) == (1, 6)
    assert item.fields == {
        "exception": "ValueError", "error": "bad: value", "frame_function": "to",
        "frame_file": "/opt/lib/python3.10/site-packages/torch/nn/modules/module.py",
        "frame_package": "torch",
    }  # fmt: skip


def test_a_frame_outside_site_packages_is_the_users() -> None:
    data = 'Traceback (most recent call last):\n  File "train.py", line 1, in f\nKeyError: 1\n'
    (item,) = by_symptom(data)["python_exception"]
    assert item.fields["frame_package"] == "user"


def test_the_cause_of_an_explicit_chain_is_what_was_raised_first() -> None:
    data = """\
Traceback (most recent call last):
  File "a.py", line 1, in read
OSError: [Errno 5] Input/output error

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 1, in load
RuntimeError: could not load
"""
    (item,) = by_symptom(data)["python_exception"]
    assert (item.count, item.first.lines) == (1, 9)
    assert item.fields["exception"] == "OSError"
    assert item.fields["frame_function"] == "read"
    assert item.fields["final_exception"] == "RuntimeError"


def test_a_specific_signature_in_any_link_claims_the_whole_chain() -> None:
    data = """\
Traceback (most recent call last):
  File "a.py", line 1, in save
OSError: [Errno 28] No space left on device

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 1, in exit
RuntimeError: unexpected pos 64 vs 0
"""
    found = by_symptom(data)
    assert sorted(found) == ["disk_full"]
    assert found["disk_full"][0].fields["final_error"] == "unexpected pos 64 vs 0"
    assert found["disk_full"][0].first.origin.line == 1


def test_a_teardown_line_does_not_claim_a_traceback() -> None:
    data = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n'
        "SignalException: closing signal SIGTERM\n"
    )
    assert sorted(by_symptom(data)) == ["closing_signal", "python_exception"]


def test_prefixes_that_change_from_line_to_line_are_stripped() -> None:
    lines = [
        "Traceback (most recent call last):", '  File "a.py", line 1, in f', "KeyError: 'x'",
    ]  # fmt: skip
    data = "".join(
        f"2025-06-26 06:01:12.{977 + n} [12/train/34 (pid 28936)] {line}\n"
        for n, line in enumerate(lines)
    )
    (item,) = by_symptom(data)["python_exception"]
    assert (item.fields["exception"], item.fields["error"]) == ("KeyError", "'x'")
    assert item.when.basis == "local"


def test_writers_that_their_prefix_tells_apart_do_not_mix() -> None:
    def row(rank: int, milliseconds: int, text: str) -> str:
        return f"2025-06-26 06:01:12.{milliseconds} [12/train/34 (pid {rank})] {text}\n"

    data = (
        row(1, 970, "Traceback (most recent call last):")
        + row(2, 971, "Traceback (most recent call last):")
        + row(1, 972, '  File "a.py", line 1, in one')
        + row(2, 973, '  File "b.py", line 1, in two')
        + row(2, 974, "KeyError: 2") + row(1, 975, "ValueError: 1")
    )  # fmt: skip
    items = by_symptom(data)["python_exception"]
    assert sorted((item.fields["exception"], item.fields["frame_function"]) for item in items) == [
        ("KeyError", "two"), ("ValueError", "one"),
    ]  # fmt: skip
    assert all(not item.flags for item in items)


def test_a_log_record_may_prefix_only_the_header() -> None:
    data = (
        "2025-06-26 06:01:12,977 ERROR Traceback (most recent call last):\n"
        '  File "a.py", line 1, in f\nKeyError: 1\n'
    )
    (item,) = by_symptom(data)["python_exception"]
    assert item.fields["exception"] == "KeyError"


def test_a_rich_box_with_colours_is_read() -> None:
    data = (
        "╭─── Traceback (most recent call last) ───╮\n"
        "│ /home/u/train.py:188 in main            │\n"
        "│   188 │   run()                         │\n"
        "╰─────────────────────────────────────────╯\n"
        "\x1b[1;91mRuntimeError: \x1b[0mCUDA error: uncorrectable ECC error encountered\n"
    )
    found = by_symptom(data)
    (item,) = found["ecc_error"]
    assert "python_exception" not in found
    assert item.fields["exception"] == "RuntimeError"
    assert item.fields["frame_file"] == "/home/u/train.py"


def test_interleaved_ranks_do_not_mix() -> None:
    data = """\
[rank0]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank0]:   File "a.py", line 1, in zero
[rank1]:   File "b.py", line 1, in one
[rank1]: KeyError: 1
[rank0]: ValueError: 0
"""
    items = by_symptom(data)["python_exception"]
    told = {item.entity.rank: (item.fields["exception"], item.fields["frame_function"])
            for item in items}  # fmt: skip
    assert told == {0: ("ValueError", "zero"), 1: ("KeyError", "one")}
    assert all(not item.flags for item in items)


def test_tracebacks_that_mix_without_identity_are_flagged() -> None:
    data = """\
Traceback (most recent call last):
  File "a.py", line 1, in zero
Traceback (most recent call last):
  File "b.py", line 1, in one
KeyError: 1
ValueError: 0
"""
    (item,) = by_symptom(data)["python_exception"]
    assert item.flags == ("interleaved",)


def test_rays_wrapper_gives_the_remote_exception() -> None:
    data = """\
Traceback (most recent call last):
  File "driver.py", line 1, in <module>
ray.exceptions.RayTaskError(ValueError): ray::train() (pid=12, ip=10.0.0.1)
  File "worker.py", line 2, in train
ValueError: boom
"""
    (item,) = by_symptom(data)["python_exception"]
    assert (item.fields["exception"], item.fields["frame_function"]) == ("ValueError", "train")


def test_a_traceback_inside_a_json_string_is_read() -> None:
    data = (
        '      "py_callstack": "Traceback (most recent call last):\\n  File \\"a.py\\", line 1, '
        'in f\\n    x\\nTimeoutError: timed out\\n",\n'
    )
    (item,) = by_symptom(data)["python_exception"]
    assert (item.fields["exception"], item.fields["error"]) == ("TimeoutError", "timed out")


TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-06-26_06:20:31
  host      : node-1
  rank      : 0 (local_rank: 0)
  exitcode  : -6 (pid: 7101)
  error_file: <N/A>
  traceback : Signal 6 (SIGABRT) received by PID 7101
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-06-26_06:20:30
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 7102)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_the_elastic_table_gives_one_observation_a_failed_rank() -> None:
    first, second = sorted(
        by_symptom(TABLE)["rank_failed"], key=lambda item: item.fields["first"], reverse=True
    )
    assert first.fields == {
        "first": "true", "host": "node-1", "rank": "1", "local_rank": "1", "exit_code": "1",
        "pid": "7102",
    }  # fmt: skip
    assert (second.fields["signal"], second.fields["exit_code"]) == ("6", "-6")
    assert (second.entity.rank, second.entity.pid) == (0, 7101)
    assert first.first.origin.line == 14
    assert first.when.earliest_us == 1_750_918_830_000_000


def test_the_launchers_own_traceback_is_claimed_by_the_table() -> None:
    data = (
        'Traceback (most recent call last):\n  File "run.py", line 1, in main\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + TABLE
    )
    assert sorted(by_symptom(data)) == ["rank_failed"]


def test_the_older_boxed_table_is_read() -> None:
    data = """\
***************************************
       train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2025-06-26_06:20:30
  rank: 3 (local_rank: 3)
  exitcode: -9 (pid: 77)
  error_file: <N/A>
  msg: "Signal 9 (SIGKILL) received by PID 77"
=======================================
Other Failures:
[1]:
  time: 2025-06-26_06:20:31
  rank: 2 (local_rank: 2)
  exitcode: 1 (pid: 76)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
***************************************
"""
    told = {
        item.entity.rank: (item.fields["first"], item.fields["exit_code"])
        for item in by_symptom(data)["rank_failed"]
    }
    assert told == {3: ("true", "-9"), 2: ("false", "1")}


def test_an_oom_report_names_the_process_that_was_killed() -> None:
    data = """\
Jun 26 06:20:09 node-1 kernel: [812233.1] python invoked oom-killer: gfp_mask=0xcc0, order=0
Jun 26 06:20:09 node-1 systemd[1]: Started Session 631 of user user.
Jun 26 06:20:09 node-1 kernel: [812233.2] Call Trace:
Jun 26 06:20:09 node-1 kernel: [812233.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),\
task=python,pid=44120,uid=1
Jun 26 06:20:09 node-1 kernel: [812233.4] Memory cgroup out of memory: \
Killed process 44120 (python) total-vm:1kB
Jun 26 06:20:10 node-1 kernel: [812234.4] other
"""
    (item,) = by_symptom(data, "syslog")["host_oom"]
    assert (item.fields["pid"], item.fields["process"], item.fields["constraint"]) == (
        "44120", "python", "CONSTRAINT_MEMCG",
    )  # fmt: skip
    assert item.first.lines == 4


def test_an_oops_ends_at_its_end_mark() -> None:
    data = (
        "[ 10.100000] kernel BUG at mm/slub.c:1!\n[ 10.100001] Call Trace:\n"
        "[ 10.100002] ---[ end trace 0 ]---\n[ 10.200000] later\n"
    )
    (item,) = by_symptom(data, "syslog")["kernel_bug"]
    assert item.first.lines == 3


def test_a_multiline_block_ends_at_the_next_stamped_line() -> None:
    data = (
        "2025-06-26 06:00:00,000 custom failure notice\n  detail a\n  detail b\n"
        "2025-06-26 06:00:01,000 step\n"
    )
    (item,) = by_symptom(data)["notice"]
    assert item.first.lines == 3


def test_a_traceback_that_another_writers_line_cuts_off_is_flagged() -> None:
    for line in ("Killed", "srun: error: node-1: task 0: Killed", "WARNING: some", "NCCL: x"):
        data = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{line}\n'
        (item,) = by_symptom(data)["python_exception"]
        assert (item.flags, item.fields) == (("truncated",), {})


def test_exceptions_of_every_name_end_a_traceback() -> None:
    for name in ("KeyboardInterrupt", "socket.timeout: timed out", "struct.error: short",
                 "StopIteration", "hydra.errors.X: y", "MyOwn: broke", "SystemExit: 1"):  # fmt: skip  # noqa: E501
        data = f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{name}\n'
        (item,) = by_symptom(data)["python_exception"]
        assert item.fields["exception"] == name.split(":")[0]


def test_a_long_block_keeps_its_head_and_its_tail() -> None:
    frames = "".join(f'  File "m{n}.py", line 1, in f{n}\n' for n in range(150))
    (item,) = by_symptom(f"Traceback (most recent call last):\n{frames}RecursionError: too deep\n")[
        "python_exception"
    ]
    kept = item.first.text.split("\n")
    assert len(kept) == 64
    assert kept[0].startswith("Traceback")
    assert kept[-1] == "RecursionError: too deep"
    assert item.fields["frame_function"] == "f149"


def _json_error(function: str) -> str:
    return f"""\
Traceback (most recent call last):
  File "a.py", line 1, in {function}
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""


def test_a_signature_can_ask_for_a_line_of_its_block() -> None:
    assert sorted(by_symptom(_json_error("read_settings"))) == ["settings_broken"]
    assert sorted(by_symptom(_json_error("read_sample"))) == ["sample_broken"]


def test_a_line_outside_of_any_block_lacks_what_a_block_would_have() -> None:
    found = by_symptom("json.decoder.JSONDecodeError: Expecting value: line 1 column 1\n")
    assert sorted(found) == ["sample_broken"]


def test_a_broad_signature_gives_way_to_one_that_reads_the_same_line() -> None:
    data = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{}\n'
    assert sorted(by_symptom(data.format("RefusedError: host unknown"))) == ["host_unknown"]
    assert sorted(by_symptom(data.format("RefusedError: -3"))) == ["value_refused"]


def test_the_last_part_of_a_dotted_name_may_be_error_alone() -> None:
    data = (
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nwandb.errors.Error: no\n'
    )
    (item,) = by_symptom(data)["python_exception"]
    assert item.fields["exception"] == "wandb.errors.Error"
