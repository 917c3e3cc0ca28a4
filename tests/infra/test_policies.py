"""What each handler asks AWS for in a real run is what its role allows, and no more."""

import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.client import BaseClient
from cloudformation import resolved
from moto.awslambda.models import LambdaFunction
from policies import ACCOUNT, REGION, Need, is_allowed, needs, physical

from rootrank.embedded.emulator import LambdaContext
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
    tags: dict[str, str] = field(default_factory=dict)

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
    hand_over(stack, next(each["FunctionName"] for each in listed if "HandOver" in str(each)))


def hand_over(stack: Stack, function: str) -> None:
    """Give an item to a runner, and note for another that none answered."""
    s3, bucket = stack.client("s3"), stack.resources.bucket
    held = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    folder = next(key for key in held if key.endswith("/items.json")).removesuffix("items.json")
    items = json.loads(s3.get_object(Bucket=bucket, Key=f"{folder}items.json")["Body"].read())
    task = {
        "attempt_key": folder.split("/plans/")[0], "generation": 1, "collection": 1,
        "plan_key": f"{folder}plan.json", "task_token": "t",
    }  # fmt: skip
    failure = {"Error": "States.HeartbeatTimeout", "Cause": ""}
    for name, more in (("i-handed", {}), ("i-unanswered", {"failure": failure})):
        told = {**task, "item": {**items[0], "item_id": name}, **more}
        answer = stack.client("lambda").invoke(FunctionName=function, Payload=json.dumps(told))
        assert "FunctionError" not in answer, answer["Payload"].read()


def look(stack: Stack) -> None:
    """See every kind of page of the web view; the embedded stack has no address for it."""
    from functions.query.handler import query

    s3, bucket = stack.client("s3"), stack.resources.bucket
    held = [each["Key"] for each in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    attempt = next(key for key in held if "/verdicts/" in key).split("/verdicts/")[0]
    context = LambdaContext("query", 1024, "arn:aws:lambda:us-east-1:123456789012:function:query")

    def seen(path: str) -> str:
        event = {
            "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
            "headers": {}, "isBase64Encoded": False,
            "requestContext": {"stage": "$default", "requestId": "1", "accountId": ACCOUNT,
                               "http": {"method": "GET", "path": path}},
        }  # fmt: skip
        answer = query(event, context)
        assert answer["statusCode"] == 200, (path, answer["body"][:500])
        return str(answer["body"])

    page = seen(f"/attempts/{attempt}")
    evidence = re.search(rf'href="(/attempts/{attempt}/[^"]*evidence[^"]*)"', page)
    assert evidence, "the page links to no evidence"
    for path in ("/", "/nodes", "/trends", evidence[1].replace("&amp;", "&")):
        seen(path)


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
            at_work.function = "QueryFunction"
            done.asked["QueryFunction"] = set()
            look(stack)
        finally:
            at_work.function = None
            patch.undo()
        done.statements = _statements(_names(stack))
        s3, bucket = stack.client("s3"), stack.resources.bucket
        for each in s3.list_objects_v2(Bucket=bucket, Prefix="default/")["Contents"]:
            tags = s3.get_object_tagging(Bucket=bucket, Key=each["Key"])["TagSet"]
            done.tags[each["Key"]] = {tag["Key"]: tag["Value"] for tag in tags}.get("lifetime", "")
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
    for name, kind in kinds.items():
        if kind == "AWS::Logs::LogGroup":
            names[f"{name}.Arn"] = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:{name}:*"
    return names


def _statements(names: dict[str, str]) -> dict[str, list[dict[str, Any]]]:
    parameters = {name: value for name, value in names.items() if ":" not in name}
    template = resolved(translate(read_template(ROOT), {}), {"WebView": "iam"})
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
        "PublishFunction", "ForwardFunction", "HandOverFunction", "QueryFunction",
    }  # fmt: skip
    assert all(run.asked.values()), {name: len(asked) for name, asked in run.asked.items()}


def test_every_call_of_every_handler_is_allowed_by_its_role(run: Run) -> None:
    assert run.denied(run.statements) == []


@pytest.mark.parametrize(
    ("function", "sid"),
    [("ScopeAdmitFunction", "ClaimAttempts"), ("CollectFunction", "StoreObservations"),
     ("AttributeFunction", "MoveCurrent"), ("PublishFunction", "Announce"),
     ("ForwardFunction", "PutCompletions"), ("HandOverFunction", "HandOver"),
     ("QueryFunction", "ReadVerdictsAndTheLinesRoundTheirEvidence")],
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
    ("ScopeAdmitFunction", "ssm:GetParameter"),
    ("ScopePlanFunction", "ssm:GetParameter"),
    # Leases on a site's sources, where one is configured.
    ("CollectFunction", "dynamodb:GetItem"),
    ("CollectFunction", "dynamodb:PutItem"),
    ("CollectFunction", "ssm:GetParameter"),
    # A part that a later revision no longer names; a correction that finds CURRENT final.
    ("AttributeFunction", "dynamodb:DeleteItem"),
    ("AttributeFunction", "dynamodb:ConditionCheckItem"),
    ("AttributeFunction", "dynamodb:UpdateItem"),
    # Nobody lists: with it S3 tells "not there" from "not yours" (the template says so).
    ("AttributeFunction", "s3:ListBucket"),
    ("HandOverFunction", "ssm:GetParameter"),
    ("QueryFunction", "ssm:GetParameter"),
    ("HandOverFunction", "s3:ListBucket"),
    ("QueryFunction", "s3:ListBucket"),
    # Lambda itself sends there what failed, and takes from here what a function is called with.
    ("ForwardFunction", "sqs:SendMessage"),
    ("ScopeAdmitFunction", "sqs:ReceiveMessage"),
    ("ScopeAdmitFunction", "sqs:DeleteMessage"),
    ("ScopeAdmitFunction", "sqs:GetQueueAttributes"),
}
LOGGING = {"logs:CreateLogStream", "logs:PutLogEvents"}
"""What Lambda does in the function's name."""


def test_no_role_allows_an_action_that_nobody_uses(run: Run) -> None:
    unused = set()
    for function, asked in run.asked.items():
        used = {need.action for need in asked}
        for statement in run.statements[function]:
            actions = statement["Action"]
            for action in actions if isinstance(actions, list) else [actions]:
                if action not in used | LOGGING:
                    unused.add((function, action))
    assert unused - NOT_IN_THIS_RUN == set()


def test_every_alarm_on_our_own_metrics_watches_one_that_is_emitted(run: Run) -> None:
    template = resolved(translate(read_template(ROOT), {}), {})
    watched = {
        metric["MetricName"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::CloudWatch::Alarm"
        for metric in _metrics_of(each["Properties"])
        if metric["Namespace"] == "rootrank"
    }
    assert {"UnknownVerdicts", "ReportsLost", "RuleErrors", "CostMicroUsd"} <= watched
    assert watched <= set(_emitted(run))


def test_every_metric_of_ours_on_the_dashboards_is_emitted(run: Run) -> None:
    body = read_template(ROOT)["Resources"]["Dashboard"]["Properties"]["DashboardBody"]
    shown = set(re.findall(r'\["rootrank","(\w+)"', body["Fn::Sub"]))
    grafana = json.loads((ROOT / "infra/dashboards/grafana.json").read_text())
    targets = [target for panel in grafana["panels"] for target in panel["targets"]]
    ours = {each["metricName"] for each in targets if each.get("namespace") == "rootrank"}
    assert shown == ours
    # Of these the run has none: an event that is refused.
    assert shown - set(_emitted(run)) <= {"EventsRefused"}


def test_metrics_have_the_stack_as_their_only_dimension(run: Run) -> None:
    """Each further value of a dimension is a metric that costs."""
    for line in run.lines:
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
            assert directive["Dimensions"] == [["service"]], line
            assert line["service"] == "rootrank"


def test_logs_widgets_name_fields_that_are_logged(run: Run) -> None:
    attributed = [line for line in run.lines if line.get("message") == "attributed"]
    assert attributed
    assert all({"domain", "quality", "is_new"} <= set(line) for line in attributed)
    collected = [line for line in run.lines if line.get("message") == "collected"]
    assert collected
    assert all({"connector", "status"} <= set(line) for line in collected)


def test_every_object_of_an_attempt_goes_by_a_lifetime(run: Run) -> None:
    assert set(run.tags.values()) == {"evidence", "capsule", "result"}
    for key, tag in run.tags.items():
        folder, name = key.split("/")[5], key.rsplit("/", 1)[-1]
        expected = {"plans": "evidence", "collected": "evidence", "capsules": "capsule"}.get(
            "" if name == "plan.json" else folder, "result"
        )
        assert tag == expected, key


def _emitted(run: Run) -> list[str]:
    return [
        metric["Name"]
        for line in run.lines
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", ())
        for metric in directive["Metrics"]
    ]


def _metrics_of(alarm: dict[str, Any]) -> list[dict[str, Any]]:
    if "Metrics" not in alarm:
        return [alarm]
    return [each["MetricStat"]["Metric"] for each in alarm["Metrics"] if "MetricStat" in each]
