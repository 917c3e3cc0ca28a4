"""What each handler asks AWS for in a real run is what its role allows, and no more."""

import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from cloudformation import resolved
from moto.awslambda.models import LambdaFunction
from policies import ACCOUNT, REGION, Need, is_allowed, needs, physical

from rootrank.embedded.stack import Stack, open_stack
from rootrank.embedded.template import read_template, translate

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
CORPUS = ROOT / "tests/corpus"


@dataclass
class Run:
    """What was asked, by function, and the statements that each one's role has."""

    asked: dict[str, set[Need]] = field(default_factory=dict)
    statements: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def denied(self, statements: dict[str, list[dict[str, Any]]]) -> list[str]:
        return sorted(
            f"{function}: {need}"
            for function, asked in self.asked.items()
            for need in asked
            if not is_allowed(need, statements[function])
        )


def exercise(stack: Stack) -> None:
    """A failed job with evidence, the same again, one that is well, machines, PCS."""
    uri = stack.upload_bundle(CORPUS / "043-node-failure-only", "043")
    workload = {
        "scheduler": "slurm", "job_id": "410043", "state": "NODE_FAIL", "exit_code": "0:0",
        "start": "2023-03-05T19:30:10Z", "end": "2023-03-06T03:17:51Z",
    }  # fmt: skip
    failed = {"version": 1, "workload": workload, "bundle_uri": uri}
    later = {"version": 1, "workload": {**workload, "exit_code": "1:0"}, "bundle_uri": uri}
    well = {"version": 1, "workload": {**workload, "job_id": "7", "state": "COMPLETED"}}
    for detail in (failed, failed, later, well):
        stack.put_event(
            {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}
        )
        stack.settle(120)
    for path in sorted(EVENTS.glob("context-*.json")):
        stack.put_event(json.loads(path.read_text()))
    stack.settle(120)
    listed = stack.client("lambda").list_functions()["Functions"]
    (forward,) = [each["FunctionName"] for each in listed if "Forward" in each["FunctionName"]]
    payload = (EVENTS / "pcs-subscription.json").read_text()
    answer = stack.client("lambda").invoke(FunctionName=forward, Payload=payload)
    assert "FunctionError" not in answer, answer["Payload"].read()
    stack.settle(120)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    patch = pytest.MonkeyPatch()
    at_work = threading.local()
    done = Run()
    invoke, call = LambdaFunction._invoke_lambda, BaseClient._make_api_call

    def noted(self: Any, name: str, told: Any) -> Any:
        function = getattr(at_work, "function", None)
        if function is not None:
            service = self.meta.service_model.service_name
            done.asked[function] |= set(needs(service, name, told))
        return call(self, name, told)

    folder = tmp_path_factory.mktemp("state")
    with open_stack(folder) as stack:
        in_process = LambdaFunction._invoke_lambda

        def invoked(self: Any, event: Any = None) -> Any:
            at_work.function = self.function_name.split("-")[1]
            done.asked.setdefault(at_work.function, set())
            try:
                return in_process(self, event)
            finally:
                at_work.function = None

        patch.setattr(LambdaFunction, "_invoke_lambda", invoked)
        patch.setattr(BaseClient, "_make_api_call", noted)
        try:
            exercise(stack)
        finally:
            patch.undo()
        done.statements = _statements(_names(stack))
    assert LambdaFunction._invoke_lambda is invoke
    text = (folder / "functions.jsonl").read_text()
    done.lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return done


def _names(stack: Stack) -> dict[str, str]:
    """Return what the template's names stand for on the embedded stack."""
    described = stack.client("cloudformation").describe_stacks(StackName="rootrank")["Stacks"][0]
    names = {
        "AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT,
        "AWS::StackName": "rootrank", "EventBusName": "default",
    }  # fmt: skip
    kinds = {name: each["Type"] for name, each in read_template(ROOT)["Resources"].items()}
    for each in described["Outputs"]:
        name, own = each["OutputKey"], each["OutputValue"]
        names[name] = own
        names[f"{name}.Arn"] = {
            "AWS::S3::Bucket": f"arn:aws:s3:::{own}",
            "AWS::DynamoDB::Table": f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{own}",
            "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{own.rsplit('/', 1)[-1]}",
            "AWS::Serverless::Function": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{own}",
        }.get(kinds.get(name, ""), own)
        names[f"{name}.Name"] = own.rsplit(":", 1)[-1]
    return names


def _statements(names: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    parameters = {name: value for name, value in names.items() if ":" not in name}
    template = resolved(translate(read_template(ROOT), {}), {})
    found = {}
    for name, each in template["Resources"].items():
        if each["Type"] != "AWS::Lambda::Function":
            continue
        role = template["Resources"][each["Properties"]["Role"]["Fn::GetAtt"][0]]
        policies = role["Properties"].get("Policies", ())
        found[name] = [
            physical(statement, {**names, **parameters})
            for policy in policies
            for statement in policy["PolicyDocument"]["Statement"]
        ]
    return found


def test_the_run_has_called_every_function_of_the_workflow(run: Run) -> None:
    assert set(run.asked) >= {
        "ScopeAdmitFunction", "ScopePlanFunction", "CollectFunction", "AttributeFunction",
        "PublishFunction", "ForwardFunction",
    }  # fmt: skip
    assert all(run.asked.values()), {name: len(asked) for name, asked in run.asked.items()}


def test_every_call_of_every_handler_is_allowed_by_its_role(run: Run) -> None:
    assert run.denied(run.statements) == []


@pytest.mark.parametrize(
    ("function", "sid"),
    [("ScopeAdmitFunction", "ClaimAttempts"), ("CollectFunction", "StoreObservations"),
     ("AttributeFunction", "MoveCurrent"), ("PublishFunction", "Announce"),
     ("ForwardFunction", "PutCompletions")],
)  # fmt: skip
def test_a_statement_that_is_missing_would_be_noticed(run: Run, function: str, sid: str) -> None:
    fewer = {
        name: [each for each in statements if (name, each.get("Sid")) != (function, sid)]
        for name, statements in run.statements.items()
    }
    assert run.denied(fewer)
    assert all(each.startswith(function) for each in run.denied(fewer))


NOT_IN_THIS_RUN = {
    # Only after a failed execution: tests/unit and tests/integration/test_state.py.
    ("ScopeAdmitFunction", "states:RedriveExecution"),
    # Where `Sources` names a parameter: tests/telemetry.
    ("ScopePlanFunction", "ssm:GetParameter"),
    ("CollectFunction", "ssm:GetParameter"),
    # A part that a later revision no longer names; a correction that finds CURRENT final.
    ("AttributeFunction", "dynamodb:DeleteItem"),
    ("AttributeFunction", "dynamodb:ConditionCheckItem"),
    ("AttributeFunction", "dynamodb:UpdateItem"),
    # Nobody lists: with it S3 tells "not there" from "not yours" (the template says so).
    ("AttributeFunction", "s3:ListBucket"),
    # Lambda itself sends there what failed.
    ("ForwardFunction", "sqs:SendMessage"),
}


def test_no_role_allows_an_action_that_nobody_uses(run: Run) -> None:
    unused = set()
    for function, asked in run.asked.items():
        used = {need.action for need in asked}
        for statement in run.statements[function]:
            actions = statement["Action"]
            for action in actions if isinstance(actions, list) else [actions]:
                if action not in used:
                    unused.add((function, action))
    assert unused - NOT_IN_THIS_RUN == set()
