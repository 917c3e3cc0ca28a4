"""What the shipped software rules see in job output, and what they leave alone."""

import io
from functools import cache

from engine.extract.redact import Redactor
from engine.extract.scanner import build_scanner
from engine.extract.session import ExtractContext, extract_stream
from engine.model.stream import StreamLabel
from engine.model.workload import Workload
from rootrank.local_case import load_book

CANDIDATES = ("root", "lean_root", "ambiguous")


@cache
def _context() -> ExtractContext:
    book = load_book()
    workload = Workload(scheduler="none", job_id="1", nodes=("node-1",))
    return ExtractContext(
        book, build_scanner(book), workload, "static", "sha256:e", Redactor(), None
    )


def _candidates(text: str) -> list[str]:
    """The symptoms in `text` that may become a cause."""
    label = StreamLabel(uri="job.log", source="applog", trust="workload", nodes=("node-1",))
    context = _context()
    found = extract_stream(io.BytesIO(text.encode()).read, label, context).observations
    symptoms = context.book.symptoms
    return sorted({o.symptom for o in found if symptoms[o.symptom].role in CANDIDATES})


def test_an_exception_line_without_its_traceback_counts() -> None:
    assert _candidates("[rank2]: FrobnicateError: cannot frob\n") == ["python_exception"]


def test_an_exception_line_that_a_rule_knows_is_not_counted_twice() -> None:
    line = "RuntimeError: CUDA error: device-side assert triggered\n"
    assert _candidates(line) == ["device_side_assert"]


def test_an_unknown_exception_behind_a_traceback_is_counted_once_with_its_frames() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 3, in main\n'
        "    step()\n"
        "FrobnicateError: cannot frob\n"
    )
    assert _candidates(text) == ["python_exception"]


def test_a_lost_peer_behind_a_traceback_names_no_cause() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 3, in main\n'
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1347, remote process exited or "
        "there was a network error, NCCL version 2.18.5\n"
    )
    assert _candidates(text) == []


def test_an_exception_that_python_ignored_is_no_cause() -> None:
    text = (
        "Exception ignored in: <function Loader.__del__ at 0x7f00>\n"
        "Traceback (most recent call last):\n"
        '  File "/home/user/train.py", line 3, in __del__\n'
        "TypeError: 'NoneType' object is not callable\n"
    )
    assert _candidates(text) == []


def test_warnings_of_a_healthy_start_are_no_cause() -> None:
    text = (
        "slurm_script: line 3: module: command not found\n"
        "UserWarning: Failed to load image Python extension: image.so: undefined symbol: _ZN5x\n"
        "[W ProcessGroupGloo.cpp:684] Warning: Unable to resolve hostname to a (local) address. "
        "Using the loopback address as fallback.\n"
        "[W socket.cpp:464] [c10d] The IPv6 network addresses of (node-1, 29500) cannot be "
        "retrieved (gai error: -2 - Name or service not known).\n"
        "WARNING: ModuleNotFoundError: No module named 'apex'\n"
        "node-1:1:1 [0] misc/ibvwrap.cu:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
    )
    assert _candidates(text) == []


def test_a_ray_task_error_is_read_down_to_what_the_task_raised() -> None:
    text = (
        "Traceback (most recent call last):\n"
        '  File "main.py", line 2, in <module>\n'
        "    ray.get(refs)\n"
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::W.update() (pid=81, ip=10.0.0.4)\n"
        '  File "w.py", line 1, in update\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.5 GiB\n"
    )
    assert _candidates(text) == ["cuda_oom"]


TABLE = """\
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-01-01_10:00:01
  host      : node-1
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 102)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 102
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-01-01_10:00:00
  host      : node-1
  rank      : 0 (local_rank: 0)
  exitcode  : -9 (pid: 101)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 101
============================================================
"""


def test_a_row_of_the_failure_table_tells_of_its_own_rank_only() -> None:
    label = StreamLabel(uri="job.log", source="applog", trust="workload", nodes=("node-1",))
    found = extract_stream(io.BytesIO(TABLE.encode()).read, label, _context()).observations
    exits = {o.symptom: set() for o in found}
    for o in found:
        exits[o.symptom].add(o.entity.rank)
    assert exits["worker_sigkilled"] == {0}
    assert exits["worker_sigterm"] == {1}


def test_an_exception_that_the_interpreter_dropped_is_no_evidence() -> None:
    text = "Exception ignored in: <function F.__del__ at 0x7d2b>\nAttributeError: no close\n"
    assert _candidates(text) == []
    assert _candidates("AttributeError: no close\n") != []
