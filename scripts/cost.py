"""What an attribution costs at several sizes, from what the embedded pipeline really does.

    python scripts/cost.py [--gpus 1 64 1024 10000] [--out docs/cost-runs.json]

For each size one failing job of so many GPUs, eight a node, runs through the whole pipeline: an
event, a bundle with a log a rank and a kernel log a node, one lost GPU. Recorded: every invocation
with its memory, its CPU time here and its AWS calls by operation, and every state of the workflow.
`cost_of` turns a record into dollars by the price table; docs/cost.md says what is assumed.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import boto3
from moto.awslambda.models import LambdaFunction
from moto.core.botocore_stubber import BotocoreStubber

from functions.attribute import prices
from functions.attribute.costing import calls_usd
from rootrank.embedded.stack import Stack, open_stack

GPUS_A_NODE: Final = 8
VCPU_MB: Final = 1769
"""Memory at which a function has one processor (docs.aws.amazon.com/lambda/latest/dg)."""
REQUEST_SECONDS: Final = Decimal("0.015")
"""Waiting for one answer of S3 or DynamoDB within a region; assumed, not measured here."""
START_SECONDS: Final = Decimal("1.0")
"""A cold start, billed; every invocation is taken to be one, which is the worst case."""
_STATES: Final = "stateEnteredEventDetails"
_LINES: Final = 40


@dataclass
class Record:
    """What one attribution did. `invocations` are (handler, MB, CPU seconds, calls)."""

    gpus: int
    log_bytes: int = 0
    invocations: list[tuple[str, int, float, int]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    transitions: int = 0
    items: int = 0
    verdict: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the record, invocations summed by handler."""
        by_handler: dict[str, dict[str, Any]] = {}
        for handler, memory, seconds, calls in self.invocations:
            held = by_handler.setdefault(
                handler, {"memory_mb": memory, "count": 0, "cpu_seconds": 0.0, "calls": 0}
            )
            held["count"] += 1
            held["cpu_seconds"] = round(held["cpu_seconds"] + seconds, 3)
            held["calls"] += calls
        return {
            "gpus": self.gpus, "log_bytes": self.log_bytes, "items": self.items,
            "verdict": self.verdict, "transitions": self.transitions,
            "invocations": dict(sorted(by_handler.items())),
            "calls": dict(sorted(self.calls.items())),
        }  # fmt: skip


def cost_of(record: dict[str, Any], architecture: str = "arm64") -> dict[str, Decimal]:
    """Return dollars by kind: compute, states, requests, and their total."""
    compute = Decimal(0)
    count = 0
    for each in record["invocations"].values():
        slower = Decimal(max(1.0, VCPU_MB / each["memory_mb"]))
        seconds = Decimal(str(each["cpu_seconds"])) * slower
        seconds += each["calls"] * REQUEST_SECONDS + each["count"] * START_SECONDS
        compute += seconds * each["memory_mb"] / 1024 * prices.GB_SECOND[architecture]
        count += each["count"]
    compute += prices.INVOCATION * count
    states = prices.TRANSITION * record["transitions"]
    requests = calls_usd(record["calls"])
    return {
        "compute": compute, "states": states, "requests": requests,
        "total": compute + states + requests,
    }  # fmt: skip


@contextmanager
def recorded(record: Record) -> Iterator[None]:
    """Record what handlers do while the body runs."""
    here = threading.local()
    invoke: Callable[..., Any] = LambdaFunction._invoke_lambda
    answer: Callable[..., Any] = BotocoreStubber.__call__

    def invoking(function: Any, event: Any = None) -> Any:
        here.calls = Counter()
        started = time.thread_time()
        try:
            return invoke(function, event)
        finally:
            seconds = time.thread_time() - started
            memory = int(function.memory_size or 128)
            calls: Counter[str] = here.calls
            record.invocations.append((function.handler, memory, seconds, calls.total()))
            record.calls.update(calls)
            here.calls = None

    def answering(stubber: Any, event_name: str, request: Any, **more: Any) -> Any:
        if getattr(here, "calls", None) is not None:
            here.calls[event_name.removeprefix("before-send.")] += 1
        return answer(stubber, event_name, request, **more)

    changes: list[tuple[Any, str, Any, Any]] = [
        (LambdaFunction, "_invoke_lambda", invoking, invoke),
        (BotocoreStubber, "__call__", answering, answer),
    ]
    for owner, name, change, _ in changes:
        setattr(owner, name, change)
    try:
        yield
    finally:
        for owner, name, _, original in changes:
            setattr(owner, name, original)


def upload(stack: Stack, gpus: int) -> tuple[str, int]:
    """Put the bundle of a job that lost a GPU; returns its URI and bytes."""
    nodes = -(-gpus // GPUS_A_NODE)
    steps = "".join(
        f"2025-01-01 00:{n:02d}:00,000 INFO step {n * 10} loss 2.1\n" for n in range(_LINES)
    )
    lost = (
        "[2400.000001] NVRM: Xid (PCI:0000:30:00): 79, pid='<unknown>', name=<unknown>, "
        "GPU has fallen off the bus.\n"
    )
    files = {f"rank-{rank:05d}.log": steps for rank in range(gpus)}
    files |= {
        f"node-{node:04d}/dmesg": "[10.000000] systemd[1]: Started.\n" + (lost if not node else "")
        for node in range(nodes)
    }
    evidence = [
        {"path": f"rank-{rank:05d}.log", "source": "applog", "rank": rank,
         "node": f"node-{rank // GPUS_A_NODE:04d}"}
        for rank in range(gpus)
    ] + [
        {"path": f"node-{node:04d}/dmesg", "source": "syslog", "node": f"node-{node:04d}",
         "boot_time": "2025-01-01T00:00:00Z"}
        for node in range(nodes)
    ]  # fmt: skip
    workload = {
        "scheduler": "slurm", "job_id": str(gpus), "state": "FAILED", "exit_code": "1:0",
        "start": "2025-01-01T00:00:00Z", "end": "2025-01-01T00:41:00Z", "world_size": gpus,
        "nodes": [f"node-{node:04d}" for node in range(nodes)],
    }  # fmt: skip
    # YAML reads JSON.
    files["workload.yaml"] = json.dumps({"workload": workload, "evidence": evidence})
    s3 = boto3.client("s3")
    prefix = f"bundles/gpus-{gpus}/"
    for name, text in files.items():
        s3.put_object(Bucket=stack.resources.bucket, Key=prefix + name, Body=text.encode())
    size = sum(len(text) for text in files.values())
    return f"s3://{stack.resources.bucket}/{prefix}", size


def measure(gpus: int) -> Record:
    """Run one job of so many GPUs and return what it took."""
    record = Record(gpus)
    with tempfile.TemporaryDirectory() as folder, open_stack(Path(folder)) as stack:
        uri, record.log_bytes = upload(stack, gpus)
        workload = {
            "scheduler": "slurm", "job_id": str(gpus), "state": "FAILED", "exit_code": "1:0",
            "start": "2025-01-01T00:00:00Z", "end": "2025-01-01T00:41:00Z",
        }  # fmt: skip
        detail = {"version": 1, "workload": workload, "bundle_uri": uri}
        with recorded(record):
            stack.put_event(
                {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}
            )
            stack.settle(7200)
        told = [message["body"] for message in stack.messages()]
        record.verdict = f"{told[-1]['failure_class']} ({told[-1]['quality']})" if told else "none"
        _count_states(stack, record)
    # What brings the event to the function, and the message on its way.
    record.calls.update(
        {"events.PutEvents": 1, "sqs.SendMessage": 1, "sqs.ReceiveMessage": 1,
         "sqs.DeleteMessage": 1}
    )  # fmt: skip
    return record


def _count_states(stack: Stack, record: Record) -> None:
    client = stack.client("stepfunctions")
    arn = stack.resources.machine_arn
    for execution in client.list_executions(stateMachineArn=arn)["executions"]:
        pages = client.get_paginator("get_execution_history").paginate(
            executionArn=execution["executionArn"]
        )
        entered = sum(_STATES in event for page in pages for event in page["events"])
        record.transitions += 1 + entered
    record.items = sum(handler.endswith("handler.collect") for handler, *_ in record.invocations)
    # A child's start and its two states are in the children's own histories.
    record.transitions += record.items * 3


def main() -> int:
    """Measure every size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 64, 1024, 10_000])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    records = []
    for gpus in options.gpus:
        record = measure(gpus).as_json()
        records.append(record)
        cost = cost_of(record)
        print(
            f"{gpus} GPUs: {record['items']} items, {record['transitions']} states, "
            f"{sum(record['calls'].values())} calls, ${cost['total']:.5f} "
            f"({record['verdict']})",
            flush=True,
        )
        if options.out is not None:
            told = {"priced_on": prices.PRICED_ON, "runs": records}
            options.out.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
