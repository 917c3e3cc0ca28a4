"""`sam build` and `sam deploy`, an event, a verdict: the stack as a first user has it."""

import json
from typing import Any

from deployed import ROOT, collect_task, ended

PCS = ROOT / "events/pcs-subscription.json"


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


def call(deployed: Any, name: str, event: dict[str, Any]) -> Any:
    """Call a deployed function and return its answer."""
    client = deployed.server.client("lambda")
    functions = client.list_functions()["Functions"]
    (function,) = [n for each in functions if f"-{name}-" in (n := each["FunctionName"])]
    answer = client.invoke(FunctionName=function, Payload=json.dumps(event))
    body = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, body
    return body


def http(path: str) -> dict[str, Any]:
    """Return a request as API Gateway and function addresses put it, payload 2.0."""
    arn = "arn:aws:sts::000000000000:assumed-role/reader/session"
    return {
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
        "headers": {}, "isBase64Encoded": False,
        "requestContext": {
            "stage": "$default", "requestId": "1", "accountId": "000000000000",
            "http": {"method": "GET", "path": path}, "authorizer": {"iam": {"userArn": arn}},
        },
    }  # fmt: skip


def test_forward_puts_a_completion_on_the_bus(deployed: Any) -> None:
    told = call(deployed, "ForwardFunction", json.loads(PCS.read_text()))
    assert told == {"forwarded": 1, "skipped": 1}


def test_an_item_for_a_runner_outside_lies_in_its_queue(
    deployed: Any, verdict: dict[str, Any]
) -> None:
    assert verdict
    task = {**collect_task(deployed, "i-outside"), "task_token": "t-1"}
    assert call(deployed, "HandOverFunction", task) == {
        "item_id": "i-outside", "status": "handed over",
    }  # fmt: skip
    sqs = deployed.server.client("sqs")
    (message,) = sqs.receive_message(QueueUrl=deployed.outputs["RunnerQueueUrl"])["Messages"]
    assert json.loads(message["Body"])["item_id"] == "i-outside"


def test_the_service_lists_the_result_to_who_may_read_and_to_nobody_else(
    deployed: Any, verdict: dict[str, Any]
) -> None:
    told = call(deployed, "ApiFunction", http("/v1/results"))
    assert told["statusCode"] == 200, told
    jobs = {each["job_id"] for each in json.loads(told["body"])["results"]}
    assert verdict["job_key"]["S"] in jobs
    stranger = http("/v1/results")
    stranger["requestContext"]["authorizer"]["iam"]["userArn"] = "arn:aws:iam::1:user/nobody"
    assert call(deployed, "ApiFunction", stranger)["statusCode"] == 403


def test_the_web_view_shows_the_verdict(deployed: Any, verdict: dict[str, Any]) -> None:
    told = call(deployed, "QueryFunction", http(f"/attempts/{verdict['pk']['S']}"))
    assert told["statusCode"] == 200, told
    assert "node-037" in told["body"]
