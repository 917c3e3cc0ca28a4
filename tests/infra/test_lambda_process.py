"""Functions as built under AWS's runtime client: time, memory, disk, and a process used again."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from deployed import KEY, collect_task, spec_of, stored, upload, workload

from rootrank.embedded.lambda_process import LambdaProcess

LINE = b"2023-03-06T03:00:%02dZ step %d loss 2.31 tokens/s 14021 all is well\n"


def receipt(deployed: Any, item_id: str) -> Any:
    return stored(deployed, f"{KEY}/collected/g0001-c1/{item_id}.report.json")


def queued(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {"messageId": f"m-{number}", "receiptHandle": "r", "body": body, "attributes": {},
             "messageAttributes": {}, "md5OfBody": "", "eventSource": "aws:sqs",
             "eventSourceARN": "arn:aws:sqs:us-east-1:1:q", "awsRegion": "us-east-1"}
            for number, body in enumerate(bodies)
        ]
    }  # fmt: skip


def test_a_process_starts_once_and_is_used_again(deployed: Any, verdict: Any) -> None:
    with LambdaProcess(spec_of(deployed, "CollectFunction")) as process:
        answers = [process.invoke(collect_task(deployed, f"i-warm-{n}")) for n in range(3)]
        assert [answer.value["status"] for answer in answers] == ["ok"] * 3
        assert [answer.is_cold for answer in answers] == [True, False, False]
        assert process.starts == 1


def test_what_a_warm_process_did_before_changes_nothing(deployed: Any, verdict: Any) -> None:
    other = {"base_uri": upload(deployed, "045-checkpoint-disk-full")}
    with LambdaProcess(spec_of(deployed, "CollectFunction")) as process:
        process.invoke(collect_task(deployed, "i-other", **other))
        process.invoke({"nonsense": True})
        process.invoke(collect_task(deployed, "i-after"))
    with LambdaProcess(spec_of(deployed, "CollectFunction")) as process:
        process.invoke(collect_task(deployed, "i-alone"))
    after, alone = receipt(deployed, "i-after"), receipt(deployed, "i-alone")
    assert after["observations"]["sha256"] == alone["observations"]["sha256"]
    ids = {"item_id": "same"}
    assert {**after["report"], **ids} == {**alone["report"], **ids}


def test_errors_have_the_names_that_the_workflow_matches(deployed: Any, verdict: Any) -> None:
    task = {**collect_task(deployed, "i-lost"), "plan_key": f"{KEY}/plans/none/plan.json"}
    with LambdaProcess(spec_of(deployed, "CollectFunction")) as process:
        answer = process.invoke(task)
    assert answer.error == "Unhandled"
    assert answer.value["errorType"] == "PlanMissingError"


def test_a_batch_as_large_as_sqs_gives_is_admitted(deployed: Any) -> None:
    """Ten messages of 100 KB; an event's own extras are dropped, not stored."""
    bodies = [
        json.dumps(
            {
                "source": "rootrank.scheduler", "detail-type": "Job Completed",
                "account": "000000000000", "region": "us-east-1",
                "detail": {"version": 1, "workload": {**workload(f"9{n}"), "state": "COMPLETED"},
                           "record": {"comment": "x" * 100_000}},
            }
        )
        for n in range(10)
    ]  # fmt: skip
    with LambdaProcess(spec_of(deployed, "ScopeAdmitFunction")) as process:
        answer = process.invoke(queued(*bodies))
    assert answer.value == {"batchItemFailures": []}


def test_out_of_time_a_collector_stores_what_it_has_and_says_where_to_go_on(
    deployed: Any, verdict: Any
) -> None:
    """A function keeps 20 s to store; with 21 s there is one for reading."""
    s3, bucket = deployed.server.client("s3"), deployed.outputs["BucketName"]
    names = [f"rank-{n:04d}.log" for n in range(400)]
    body = b"".join(LINE % (n % 60, n) for n in range(2000))
    for name in names:
        s3.put_object(Bucket=bucket, Key=f"bundles/many/{name}", Body=body)
    task = collect_task(
        deployed, "i-late", base_uri=f"s3://{bucket}/bundles/many/",
        evidence=[{"path": name, "source": "applog"} for name in names],
    )  # fmt: skip
    with LambdaProcess(spec_of(deployed, "CollectFunction", timeout_s=21.0)) as process:
        answer = process.invoke(task)
    assert answer.value == {"item_id": "i-late", "status": "partial"}
    report = receipt(deployed, "i-late")["report"]
    assert report["cursor"].startswith("rank-")
    assert report["reason"] == f"out of budget before {report['cursor']}"
    assert 0 < report["lines"] < 400 * 2000


def test_a_large_compressed_log_stays_far_below_the_functions_memory(
    deployed: Any, verdict: Any
) -> None:
    s3, bucket = deployed.server.client("s3"), deployed.outputs["BucketName"]
    text = b"".join(LINE % (n % 60, n) for n in range(400_000))
    s3.put_object(Bucket=bucket, Key="bundles/big/all.log.gz", Body=gzip.compress(text, 1))
    task = collect_task(
        deployed, "i-big", base_uri=f"s3://{bucket}/bundles/big/",
        evidence=[{"path": "all.log.gz", "source": "applog"}],
    )  # fmt: skip
    with LambdaProcess(spec_of(deployed, "CollectFunction", memory_mib=320)) as process:
        answer = process.invoke(task)
        assert answer.value["status"] == "ok", answer.value
        assert process.peak_mib < 320
    assert receipt(deployed, "i-big")["report"]["lines"] == 400_000


def test_a_process_beyond_its_memory_is_killed_and_the_next_call_has_a_new_one(
    deployed: Any, verdict: Any
) -> None:
    with LambdaProcess(spec_of(deployed, "CollectFunction", memory_mib=24)) as process:
        answer = process.invoke(collect_task(deployed, "i-killed"))
        assert answer.error == "Unhandled"
        assert answer.value["errorType"] == "Runtime.ExitError"
        again = process.invoke(collect_task(deployed, "i-killed"))
        assert again.is_cold
        assert process.starts == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace of its own")
def test_read_only_code_and_a_full_disk_change_nothing(
    deployed: Any, verdict: Any, tmp_path: Path
) -> None:
    code = deployed.built / "CollectFunction"
    script = (
        f'mount -t tmpfs -o size=16k none "{tmp_path}" && '
        f'{{ dd if=/dev/zero of="{tmp_path}/full" bs=4k count=99 2>/dev/null || true; }} && '
        f'mount --bind "{code}" "{code}" && mount -o remount,ro,bind "{code}" && exec "$@"'
    )
    spec = spec_of(
        deployed, "CollectFunction", environment={"TMPDIR": str(tmp_path)},
        launcher=["unshare", "-m", "sh", "-c", script, "sh"],
    )  # fmt: skip
    with LambdaProcess(spec) as process:
        answer = process.invoke(collect_task(deployed, "i-full"))
        assert answer.value == {"item_id": "i-full", "status": "ok"}, answer.log
    with LambdaProcess(spec_of(deployed, "CollectFunction")) as process:
        process.invoke(collect_task(deployed, "i-roomy"))
    full, roomy = receipt(deployed, "i-full"), receipt(deployed, "i-roomy")
    assert full["observations"]["sha256"] == roomy["observations"]["sha256"]


def test_answers_are_far_below_what_a_state_may_hold(deployed: Any, verdict: Any) -> None:
    """Step Functions takes 256 KiB between states (docs.aws.amazon.com, service quotas)."""
    with LambdaProcess(spec_of(deployed, "ScopePlanFunction")) as process:
        answer = process.invoke({"attempt_key": KEY, "generation": 1, "collection": 1})
    assert answer.error is None, answer.value
    assert len(answer.payload) < 4096
