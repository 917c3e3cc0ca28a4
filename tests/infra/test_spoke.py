"""The template for other accounts: three parts, none of which is there unless it is asked for."""

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber
from cloudformation import resolved
from samtranslator.yaml_helper import yaml_parse

from connectors.protocol import SourceRefusedError
from connectors.registry import build_connectors
from connectors.site import read_site
from connectors.telemetry.settings import SpokeRole
from functions.adapters import cloudwatch_logs
from functions.adapters.site_sources import aws_outside
from rootrank.embedded.template import read_template, translate

ROOT = Path(__file__).parents[2]
HUB = {"HubAccount": "123456789012"}
ALL = {
    **HUB, "HubBusArn": "arn:aws:events:us-east-1:123456789012:event-bus/jobs",
    "ExternalId": "0123456789abcdef", "HubCollectRole": "rootrank-Collect", "Collect": "yes",
    "LogGroupArns": "arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/job:*",
    "HubRoleArn": "arn:aws:iam::123456789012:role/runner", "Sources": "ssm:/rootrank/site",
    "SourcesPolicyArn": "arn:aws:iam::111122223333:policy/sources",
}  # fmt: skip
ROLE = SpokeRole(arn="arn:aws:iam::111122223333:role/rootrank-spoke-read", external_id="0123456789")
SITE = b"""
version: 1
clusters:
  - name: batch-b
    cloudwatch:
      region: us-east-1
      role:
        arn: arn:aws:iam::111122223333:role/rootrank-spoke-read
        external_id: "0123456789abcdef"
      groups: [{name: jobs, group: /aws/batch/job, streams: ['*']}]
"""


def spoke(parameters: dict[str, str]) -> dict[str, Any]:
    template = yaml_parse((ROOT / "infra/spoke/template.yaml").read_text())
    for each in template["Resources"].values():
        for place in ("CodeUri", "ContentUri"):
            if place in each.get("Properties", {}):
                each["Properties"][place] = "s3://code/artifact.zip"
    return resolved(translate(template, {}), parameters)["Resources"]


def of_type(resources: dict[str, Any], kind: str) -> dict[str, Any]:
    return {name: each["Properties"] for name, each in resources.items() if each["Type"] == kind}


def test_without_a_wish_nothing_is_made() -> None:
    assert spoke(HUB) == {}


def test_each_part_is_there_alone() -> None:
    forwards = spoke({**HUB, "HubBusArn": ALL["HubBusArn"]})
    assert set(forwards) == {
        "JobRule", "MachineRule", "ForwardRole", "UnforwardedQueue", "UnforwardedQueuePolicy",
    }  # fmt: skip
    reads = spoke({**HUB, "ExternalId": ALL["ExternalId"], "LogGroupArns": ALL["LogGroupArns"]})
    assert set(reads) == {"ReadRole"}


def test_the_role_for_reading_asks_for_the_external_id_and_reads_chosen_groups_only() -> None:
    role = of_type(spoke(ALL), "AWS::IAM::Role")["ReadRole"]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Condition"]["StringEquals"] == {"sts:ExternalId": "0123456789abcdef"}
    assert "ArnLike" in trust["Condition"]
    (statement,) = role["Policies"][0]["PolicyDocument"]["Statement"]
    assert statement["Resource"] == [ALL["LogGroupArns"]]
    assert all(
        action.split(":")[1].startswith(("Describe", "Get", "Filter"))
        for action in statement["Action"]
    )


def test_the_hub_may_take_the_role_by_the_name_that_the_spoke_gives_it() -> None:
    hub = resolved(translate(read_template(ROOT), {}), {"SpokeAccounts": "111122223333"})
    role = hub["Resources"]["CollectFunctionRole"]["Properties"]
    taken = [
        statement["Resource"]
        for policy in role["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "sts:AssumeRole"
    ]
    assert json.dumps(taken).count(":role/${AWS::StackName}-spoke-read") == 1
    name = of_type(spoke(ALL), "AWS::IAM::Role")["ReadRole"]["RoleName"]["Fn::Sub"]
    assert name == "${HubStackName}-spoke-read"


def test_no_statement_has_a_wildcard() -> None:
    for name, role in of_type(spoke(ALL), "AWS::IAM::Role").items():
        for policy in role.get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                assert statement["Resource"] != "*", name
                assert "*" not in json.dumps(statement["Action"]), name


def test_what_cannot_be_forwarded_or_collected_waits_in_a_queue() -> None:
    resources = spoke(ALL)
    for rule in of_type(resources, "AWS::Events::Rule").values():
        (target,) = rule["Targets"]
        assert target["DeadLetterConfig"]["Arn"]["Fn::GetAtt"][0] == "UnforwardedQueue"
        assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] <= 86_400
    queues = of_type(resources, "AWS::SQS::Queue")
    assert queues["Queue"]["RedrivePolicy"]["maxReceiveCount"] >= 3
    assert all(queue["SqsManagedSseEnabled"] for queue in queues.values())


def test_the_rules_forward_what_the_hub_has_rules_for() -> None:
    hub = resolved(translate(read_template(ROOT), {}), {})["Resources"]
    wanted = {
        source
        for rule in of_type(hub, "AWS::Events::Rule").values()
        for source in rule["EventPattern"]["source"]
    }
    sent = {
        source
        for rule in of_type(spoke(ALL), "AWS::Events::Rule").values()
        for each in rule["EventPattern"]["$or"]
        for source in each["source"]
    }
    assert sent == wanted


def test_a_site_file_may_name_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "functions.adapters.cloudwatch_logs.open_logs_as",
        lambda region, role: asked.append((region, role.arn)),
    )
    build_connectors(read_site(SITE, shown="sources.yaml"), aws_outside())
    assert asked == [("us-east-1", "arn:aws:iam::111122223333:role/rootrank-spoke-read")]


class Accounts:
    """boto3 with a security token service that answers as told."""

    def __init__(self, code: str | None) -> None:
        import boto3

        self.made: list[dict[str, Any]] = []
        keys = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
        self.sts = boto3.client("sts", region_name="us-east-1", **keys)
        self.stub = Stubber(self.sts)
        told = {
            "RoleArn": ROLE.arn, "RoleSessionName": "rootrank", "ExternalId": ROLE.external_id,
        }  # fmt: skip
        if code:
            self.stub.add_client_error("assume_role", code, expected_params=told)
        else:
            given = {
                "AccessKeyId": "A" * 16, "SecretAccessKey": "s", "SessionToken": "t",
                "Expiration": "2030-01-01T00:00:00Z",
            }  # fmt: skip
            self.stub.add_response("assume_role", {"Credentials": given}, told)
        self.stub.activate()

    def client(self, service: str, **more: Any) -> Any:
        self.made.append({"service": service, **more})
        return self.sts if service == "sts" else object()


def test_logs_of_a_spoke_are_read_with_what_the_role_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accounts = Accounts(None)
    monkeypatch.setattr(cloudwatch_logs, "boto3", accounts)
    cloudwatch_logs.open_logs_as("eu-west-1", ROLE)
    logs = accounts.made[-1]
    assert (logs["service"], logs["region_name"]) == ("logs", "eu-west-1")
    assert (logs["aws_access_key_id"], logs["aws_session_token"]) == ("A" * 16, "t")


def test_a_role_that_cannot_be_taken_is_told_with_what_to_look_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cloudwatch_logs, "boto3", Accounts("AccessDenied"))
    with pytest.raises(SourceRefusedError, match="check its trust and external id"):
        cloudwatch_logs.open_logs_as("eu-west-1", ROLE)
