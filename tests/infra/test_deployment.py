"""`sam build` and `sam deploy`, an event, a verdict: the stack as a first user has it."""

import json
from pathlib import Path
from typing import Any

import pytest
from deployed import put, until

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"


def upload(deployed: Any, name: str) -> str:
    """Put a corpus bundle where the template says that bundles go; returns its URI."""
    bucket = deployed.outputs["BucketName"]
    for path in sorted((CORPUS / name).rglob("*")):
        if path.is_file():
            key = f"bundles/{name}/{path.relative_to(CORPUS / name).as_posix()}"
            deployed.server.client("s3").put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    return f"s3://{bucket}/bundles/{name}/"


def workload(job_id: str) -> dict[str, str]:
    return {
        "scheduler": "slurm", "job_id": job_id, "state": "NODE_FAIL", "exit_code": "0:0",
        "start": "2023-03-05T19:30:10Z", "end": "2023-03-06T03:17:51Z",
    }  # fmt: skip


def ended(deployed: Any) -> list[dict[str, Any]]:
    listed = deployed.server.client("stepfunctions").list_executions(
        stateMachineArn=deployed.outputs["StateMachineArn"]
    )["executions"]
    return [each for each in listed if each["status"] != "RUNNING"]


@pytest.fixture(scope="module")
def verdict(deployed: Any) -> dict[str, Any]:
    """The verdict on one event, from the table of the deployed stack."""
    put(
        deployed.server,
        "Job Completed",
        {
            "version": 1,
            "workload": workload("410043"),
            "bundle_uri": upload(deployed, "043-node-failure-only"),
        },
    )
    until(lambda: ended(deployed), "no execution ended", 240)
    items = deployed.server.client("dynamodb").scan(TableName=deployed.outputs["TableName"])
    (current,) = [item for item in items["Items"] if item["sk"]["S"] == "CURRENT"]
    return dict(current)


def test_an_event_on_the_bus_becomes_a_verdict_in_the_table(verdict: dict[str, Any]) -> None:
    assert verdict["terminal_state"]["S"] == "node_fail"
    assert verdict["domain"]["S"] == "host"
    assert "node-037" in verdict["summary"]["S"]


def test_the_workflow_succeeds_and_publishes(deployed: Any, verdict: dict[str, Any]) -> None:
    assert verdict
    assert {each["status"] for each in ended(deployed)} == {"SUCCEEDED"}
    log = deployed.server.log.read_text()
    assert '"message":"published"' in log


def test_the_document_that_the_table_names_is_in_the_bucket(
    deployed: Any, verdict: dict[str, Any]
) -> None:
    body = deployed.server.client("s3").get_object(
        Bucket=deployed.outputs["BucketName"], Key=verdict["verdict_key"]["S"]
    )["Body"]
    document = json.loads(body.read())
    assert document["attribution_id"] == verdict["attribution_id"]["S"]
    assert document["evidence"]


def test_the_workflow_names_published_versions(deployed: Any) -> None:
    machine = deployed.server.client("stepfunctions").describe_state_machine(
        stateMachineArn=deployed.outputs["StateMachineArn"]
    )
    states = json.loads(machine["definition"])["States"]
    arn = states["Plan"]["Parameters"]["FunctionName"]
    assert arn.split(":function:")[1].split(":")[1].isdigit()
