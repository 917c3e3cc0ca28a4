"""Completion events, each twice and in any order, through the whole embedded pipeline.

    python scripts/soak.py [--events 500] [--seed 1] [--copies 2]

Every attempt must be claimed once, every failed one must have exactly one revision, announced at
least once, and nothing may be left in a dead-letter queue. Exit code 1 where one is not so.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from connectors.schedulers import parse_event
from engine.model.identity import attempt_key
from functions.scope.admission import is_success, merge
from rootrank.embedded.stack import Stack, open_stack

STATES = ("COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED")
BEGIN = datetime(2026, 1, 31, tzinfo=UTC)


@dataclass
class Outcome:
    """What a soak came to; `problems` is empty where all is well."""

    attempts: int
    failed: int
    seconds: float
    repeated: int = 0
    problems: list[str] = field(default_factory=list)


def make_event(number: int, chance: random.Random) -> dict[str, Any]:
    """Return the completion event of one attempt, of Slurm, Batch or SageMaker."""
    start = BEGIN + timedelta(minutes=number)
    end = start + timedelta(minutes=chance.randint(1, 600))
    state = chance.choice(STATES)
    kind = chance.randrange(4)
    if kind == 0:
        return _batch(number, state, start, end)
    if kind == 1:
        return _training(number, state, start, end)
    workload = {
        "scheduler": "slurm", "cluster": f"c{number % 3}", "job_id": str(1000 + number // 2),
        "state": state, "exit_code": "0:0" if state == "COMPLETED" else "1:0",
        "start": start.isoformat(), "end": end.isoformat(), "nodes": [f"n{number % 17}"],
    }  # fmt: skip
    detail = {"version": 1, "workload": workload}
    return {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}


def soak(stack: Stack, events: int, *, seed: int = 1, copies: int = 2) -> Outcome:
    """Send the events, shuffled, and look at what became of them."""
    began = time.monotonic()
    chance = random.Random(seed)
    made = [make_event(number, chance) for number in range(events)]
    scoped = {attempt_key(parse_event(_whole(each)).workload): each for each in made}
    failed = {
        key for key, each in scoped.items() if not is_success(merge([parse_event(_whole(each))]))
    }
    sent = made * copies
    chance.shuffle(sent)
    for each in sent:
        stack.put_event(each)
    stack.settle(3600)
    outcome = Outcome(len(scoped), len(failed), 0.0)
    if len(scoped) != events:
        outcome.problems.append(f"{events} events made {len(scoped)} different attempts")
    outcome.repeated = _look(stack, set(scoped), failed, outcome.problems)
    outcome.seconds = time.monotonic() - began
    return outcome


def _look(stack: Stack, attempts: set[str], failed: set[str], problems: list[str]) -> int:
    """Add what is wrong to `problems`; returns how many messages repeated one sent before."""
    rows: dict[str, list[str]] = {}
    pages = stack.client("dynamodb").get_paginator("scan")
    for page in pages.paginate(TableName=stack.resources.table):
        for item in page["Items"]:
            rows.setdefault(item["pk"]["S"], []).append(item["sk"]["S"])
    claimed = {key for key, names in rows.items() if "CLAIM" in names}
    _differ(problems, "claimed", claimed, attempts)
    judged = {key for key, names in rows.items() if "CURRENT" in names}
    _differ(problems, "judged", judged, failed)
    for key in sorted(judged):
        revisions = [name for name in rows[key] if name.startswith("REV#")]
        if len(revisions) != 1:
            problems.append(f"{key}: {len(revisions)} revisions")
    # Messages come at least once; what tells a second verdict is a second revision.
    messages = stack.messages()
    told = {(m["body"]["attempt_key"], m["body"]["revision"]) for m in messages}
    _differ(problems, "announced", {key for key, _ in told}, failed)
    if len(told) != len(failed):
        problems.append(f"{len(told)} revisions announced for {len(failed)} attempts")
    dead = stack.dead_letters()
    if dead:
        problems.append(f"{len(dead)} events in the dead-letter queue")
    problems += [f"execution {name} failed" for name in stack.failed]
    return len(messages) - len(told)


def _differ(problems: list[str], what: str, found: set[str], wanted: set[str]) -> None:
    if lost := sorted(wanted - found):
        problems.append(f"{len(lost)} attempts not {what}, such as {lost[0]}")
    if extra := sorted(found - wanted):
        problems.append(f"{len(extra)} attempts {what} that should not be, such as {extra[0]}")


def _used() -> str:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return f"CPU {used.ru_utime + used.ru_stime:.0f} s, memory at most {used.ru_maxrss // 1024} MiB"


def _whole(event: dict[str, Any]) -> dict[str, Any]:
    """Return the event as the bus hands it on."""
    return {"account": "123456789012", "region": "us-east-1", **event}


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _batch(number: int, state: str, start: datetime, end: datetime) -> dict[str, Any]:
    is_good = state == "COMPLETED"
    attempt = {
        "startedAt": _ms(start), "stoppedAt": _ms(end),
        "container": {"exitCode": 0 if is_good else 137, "reason": ""},
    }  # fmt: skip
    detail = {
        "jobId": f"b-{number}", "jobName": "sft", "status": "SUCCEEDED" if is_good else "FAILED",
        "attempts": [attempt],
    }  # fmt: skip
    return {"source": "aws.batch", "detail-type": "Batch Job State Change", "detail": detail}


def _training(number: int, state: str, start: datetime, end: datetime) -> dict[str, Any]:
    detail = {
        "TrainingJobName": f"tj-{number}",
        "TrainingJobStatus": "Completed" if state == "COMPLETED" else "Failed",
        "TrainingStartTime": _ms(start), "TrainingEndTime": _ms(end),
    }  # fmt: skip
    return {
        "source": "aws.sagemaker", "detail-type": "SageMaker Training Job State Change",
        "detail": detail,
    }  # fmt: skip


def main() -> int:
    """Run the soak and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--copies", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open_stack(Path(folder)) as stack:
        outcome = soak(stack, options.events, seed=options.seed, copies=options.copies)
    print(
        f"{options.events} events x {options.copies}, seed {options.seed}: {outcome.attempts} "
        f"attempts, {outcome.failed} verdicts, {outcome.repeated} messages repeated, "
        f"{outcome.seconds:.0f} s, {_used()}"
    )
    for problem in outcome.problems:
        print(f"PROBLEM {problem}")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
