"""`sam build` and `sam deploy`, an event, a verdict: the stack as a first user has it."""

import json
from typing import Any

from deployed import ended


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


def test_admission_starts_the_alias_and_the_alias_names_a_version(
    deployed: Any, verdict: dict[str, Any]
) -> None:
    assert verdict
    alias = deployed.outputs["StateMachineAliasArn"]
    functions = deployed.server.client("lambda").list_functions()["Functions"]
    (admit,) = [each for each in functions if "-ScopeAdmitFunction" in each["FunctionName"]]
    assert admit["Environment"]["Variables"]["STATE_MACHINE_ARN"] == alias
    routing = deployed.server.client("stepfunctions").describe_state_machine_alias(
        stateMachineAliasArn=alias
    )["routingConfiguration"]
    assert [each["weight"] for each in routing] == [100]
    assert routing[0]["stateMachineVersionArn"] == deployed.outputs["StateMachineArn"] + ":1"
