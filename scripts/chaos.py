"""Attempts through the embedded pipeline while everything round them fails, one run a seed.

    python scripts/chaos.py [--seeds 1000] [--first 1] [--out docs/chaos-runs.csv]

A run is one attempt: its events come twice or more, contradicting ones among them, in any order,
some after the verdict was final. Of the functions' requests to S3, DynamoDB, SNS and Step Functions
20 % fail (half of them after the work was done); invocations are killed in the middle or given up
on and finish late. At its end every attempt must have exactly one CURRENT verdict, nothing lost,
nothing overwritten, and messages that can be told apart. Exit code 1 where one has not.
"""

import argparse
import csv
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.model.identity import attempt_key
from engine.model.verdict import Verdict, is_sealed
from engine.model.workload import Workload
from functions.adapters.results_table import from_wire
from rootrank.embedded.faults import Faults, Rates
from rootrank.embedded.stack import Stack, open_stack

CORPUS = Path(__file__).resolve().parents[1] / "tests/corpus"
BUNDLES = ("043-node-failure-only", "002-ecc-app-only-rich", "004-gpu-lost-at-probe-no-xid")
STATES = ("NODE_FAIL", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED by 0")
MAX_ROUNDS = 6
"""So often the runbook's steps are taken: put again what failed, before it counts as lost."""
RUNS_A_STACK = 50
COLUMNS = (
    "seed", "bundle", "events", "sent", "revisions", "messages", "repeated", "resumed",
    "refused", "lost", "killed", "late", "losses", "problems",
)  # fmt: skip


@dataclass
class Run:
    """What one seed came to; `problems` is empty where all is well."""

    seed: int
    bundle: str
    events: int
    sent: int
    counts: Counter[str]
    revisions: int = 0
    messages: int = 0
    repeated: int = 0
    resumed: int = 0
    losses: int = 0
    problems: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """Return the run as a row of the results."""
        by_kind: Counter[str] = Counter()
        for name, count in self.counts.items():
            by_kind[name.split(" ", 1)[0]] += count
        return {
            "seed": self.seed, "bundle": self.bundle, "events": self.events, "sent": self.sent,
            "revisions": self.revisions, "messages": self.messages, "repeated": self.repeated,
            "resumed": self.resumed, "refused": by_kind["refused"], "lost": by_kind["lost"],
            "killed": by_kind["killed"], "late": by_kind["finished"], "losses": self.losses,
            "problems": "; ".join(self.problems),
        }  # fmt: skip


def run_seed(stack: Stack, seed: int, bundles: dict[str, str], rates: Rates | None = None) -> Run:
    """Run one attempt under the faults of a seed and look at what became of it."""
    chance = random.Random(seed)
    bundle = chance.choice(sorted(bundles))
    events = [
        _event(seed, state, bundles[bundle])
        for state in chance.sample(STATES, chance.randint(1, 3))
    ]
    sent = [each for each in events for _ in range(chance.randint(1, 3))]
    chance.shuffle(sent)
    faults = Faults(seed, rates or Rates())
    run = Run(seed, bundle, len(events), len(sent), faults.counts)
    del stack.failed[:], stack.invocations[:]
    with faults.at_work():
        for each in sent:
            stack.put_event(each)
            if chance.random() < 0.5:
                stack.settle(300)
        stack.settle(300)
        _resume(stack, events, run)
    faults.finish_late()
    stack.settle(300)
    _look(stack, run)
    return run


def _event(seed: int, state: str, bundle_uri: str | None) -> dict[str, Any]:
    detail: dict[str, Any] = {"version": 1, "workload": _workload(seed, state)}
    if bundle_uri is not None:
        detail["bundle_uri"] = bundle_uri
    return {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}


def _workload(seed: int, state: str) -> dict[str, Any]:
    return {
        "scheduler": "slurm", "cluster": f"c{seed}", "job_id": str(1_000_000 + seed),
        "state": state, "exit_code": "1:0",
        "start": "2023-03-06T03:00:10Z", "end": "2023-03-06T03:17:51Z",
    }  # fmt: skip


def _resume(stack: Stack, events: list[dict[str, Any]], run: Run) -> None:
    """Do what the runbook says of failed executions and dead letters: put the events again."""
    for _ in range(MAX_ROUNDS):
        dead = [letter["body"] for letter in stack.dead_letters()]
        failed, stack.failed[:] = list(stack.failed), []
        if not dead and not failed:
            return
        run.resumed += 1
        for each in dead:
            event = {name: each[name] for name in ("source", "detail-type", "detail")}
            stack.put_event(event)
        for each in events if failed else ():
            stack.put_event(each)
        stack.settle(300)
    run.problems.append(f"still failing after {MAX_ROUNDS} rounds")


def _look(stack: Stack, run: Run) -> None:
    key = attempt_key(Workload.model_validate(_workload(run.seed, "FAILED")))
    client = stack.client("dynamodb")
    answer = client.query(
        TableName=stack.resources.table,
        KeyConditionExpression="pk = :k",
        ExpressionAttributeValues={":k": {"S": key}},
    )
    items = {item["sk"]["S"]: from_wire(item) for item in answer["Items"]}
    current = items.get("CURRENT")
    revisions = sorted(name for name in items if name.startswith("REV#"))
    run.revisions = len(revisions)
    told = [m["body"] for m in stack.messages() if m["body"]["attempt_key"] == key]
    run.messages = len(told)
    if current is None:
        run.problems.append("no CURRENT verdict")
        return
    if current["revision"] != len(revisions) or revisions != [
        f"REV#{number:06d}" for number in range(1, len(revisions) + 1)
    ]:
        run.problems.append(f"CURRENT is revision {current['revision']} of {revisions}")
    _look_at_messages(told, len(revisions), run)
    _look_at_objects(stack, key, current, run)


def _look_at_messages(told: list[dict[str, Any]], revisions: int, run: Run) -> None:
    by_revision: dict[int, set[str]] = {}
    for each in told:
        by_revision.setdefault(each["revision"], set()).add(json.dumps(each, sort_keys=True))
    run.repeated = len(told) - len(by_revision)
    if sorted(by_revision) != list(range(1, revisions + 1)):
        run.problems.append(f"{revisions} revisions, announced {sorted(by_revision)}")
    if any(len(bodies) > 1 for bodies in by_revision.values()):
        run.problems.append("two messages of one revision differ")
    acted = Counter(
        action["deduplication_id"]
        for bodies in by_revision.values()
        for action in json.loads(min(bodies))["automation"]
    )
    if any(count > 1 for count in acted.values()):
        run.problems.append("an action for automation was announced by two revisions")


def _look_at_objects(stack: Stack, key: str, current: dict[str, Any], run: Run) -> None:
    s3, bucket = stack.client("s3"), stack.resources.bucket
    versions: Counter[str] = Counter()
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key):
        versions.update(each["Key"] for each in page.get("Versions", ()))
    if twice := sorted(name for name, count in versions.items() if count > 1):
        run.problems.append(f"written twice: {twice[0]}")
    for item in (current["verdict_key"], current["envelope_key"]):
        if item not in versions:
            run.problems.append(f"not stored: {item}")
            return
    body = s3.get_object(Bucket=bucket, Key=current["verdict_key"])["Body"].read()
    verdict = Verdict.model_validate_json(body)
    if not is_sealed(verdict) or verdict.attribution_id != current["attribution_id"]:
        run.problems.append("the verdict is not the one that CURRENT names")
    run.losses = sum(each.status in ("error", "partial") for each in verdict.connector_reports)
    if current["status"] == "provisional":
        run.problems.append("the verdict stayed provisional")


def run_all(seeds: list[int], told: Any = None) -> list[Run]:
    """Run every seed, some on one stack, and tell each as it ends."""
    runs = []
    for start in range(0, len(seeds), RUNS_A_STACK):
        with tempfile.TemporaryDirectory() as folder, open_stack(Path(folder)) as stack:
            bundles = {name: stack.upload_bundle(CORPUS / name, name) for name in BUNDLES}
            for seed in seeds[start : start + RUNS_A_STACK]:
                run = run_seed(stack, seed, bundles)
                runs.append(run)
                if told is not None:
                    told(run)
    return runs


def summary(runs: list[Run], seconds: float) -> str:
    """Return what all runs came to, in one sentence each."""
    rows = [run.row() for run in runs]
    total = {name: sum(int(row[name]) for row in rows) for name in COLUMNS[2:13]}
    bad = [run for run in runs if run.problems]
    return (
        f"{len(runs)} runs, seeds {runs[0].seed} to {runs[-1].seed}, {seconds:.0f} s: "
        f"{total['events']} events sent {total['sent']} times; {total['refused']} requests "
        f"refused, {total['lost']} answers lost, {total['killed']} invocations killed, "
        f"{total['late']} finished late; {total['revisions']} revisions, {total['messages']} "
        f"messages ({total['repeated']} repeated), {total['resumed']} times resumed; "
        f"{len(bad)} with problems"
    )


def main() -> int:
    """Run the seeds and write one row each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    began = time.monotonic()
    # The stack sends what the handlers print to a file; this is for the person who waits.
    screen = sys.stdout

    def tell(run: Run) -> None:
        if run.problems or run.seed % 25 == 0:
            print(f"seed {run.seed}: {run.problems or 'sound'}", file=screen, flush=True)

    seeds = list(range(options.first, options.first + options.seeds))
    if options.out is None:
        runs = run_all(seeds, tell)
    else:
        with options.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()

            def keep(run: Run) -> None:
                writer.writerow(run.row())
                file.flush()
                tell(run)

            runs = run_all(seeds, keep)
    print(summary(runs, time.monotonic() - began))
    return 1 if any(run.problems for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
