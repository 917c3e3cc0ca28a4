"""The template as CloudFormation gets it: least privilege, dead letters, limits, retention."""

import copy
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cloudformation import resolved

from functions.adapters.keys import CAPSULE, EVIDENCE, RESULT
from rootrank.embedded.template import read_template, translate

ROOT = Path(__file__).parents[2]
WITHOUT_RESOURCES = {"logs", "xray"}
"""Services whose actions used here know no resource (reasons stand in the template)."""


KEY = "arn:aws:kms:us-east-1:123456789012:key/00000000-0000-0000-0000-000000000000"
EVERYTHING = {
    "KmsKeyArn": KEY, "SubnetIds": "subnet-1,subnet-2", "SecurityGroupIds": "sg-1",
    "SpokeAccounts": "111122223333", "EventBusName": "jobs", "Monitoring": "alarms-and-dashboard",
    "AlarmTopicArn": "arn:aws:sns:us-east-1:123456789012:alarms", "Architecture": "x86_64",
    "RunnerPrincipals": "arn:aws:iam::111122223333:role/login",
    "ServiceAccess": '{"version": 1}', "ServiceJwtIssuer": "https://id.example",
    "ServiceJwtAudience": "rootrank",
}  # fmt: skip
"""Parameters under which every condition but `IsArm` holds."""


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return translate(read_template(ROOT), {})


@pytest.fixture(scope="module", params=["as it comes", "with everything"])
def stack(template: dict[str, Any], request: pytest.FixtureRequest) -> dict[str, Any]:
    """The stack with the defaults of its parameters, and with all options taken."""
    return resolved(template, EVERYTHING if request.param == "with everything" else {})


@pytest.fixture(scope="module")
def plain(template: dict[str, Any]) -> dict[str, Any]:
    return resolved(template, {})


@pytest.fixture(scope="module")
def full(template: dict[str, Any]) -> dict[str, Any]:
    return resolved(template, EVERYTHING)


def of_type(stack: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    return {
        name: resource.get("Properties", {})
        for name, resource in stack["Resources"].items()
        if resource["Type"] == kind
    }


def statements(stack: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, role in of_type(stack, "AWS::IAM::Role").items():
        for policy in role.get("Policies", ()):
            for statement in policy["PolicyDocument"]["Statement"]:
                yield name, statement


def wildcards(stack: dict[str, Any]) -> list[str]:
    found = []
    for role, statement in statements(stack):
        actions = statement["Action"]
        actions = [actions] if isinstance(actions, str) else actions
        found += [f"{role}: action {action}" for action in actions if "*" in action]
        resources = statement["Resource"]
        resources = resources if isinstance(resources, list) else [resources]
        services = {action.split(":")[0] for action in actions}
        if "*" in resources and not services <= WITHOUT_RESOURCES:
            found.append(f"{role}: any resource for {sorted(services)}")
    return found


def test_no_policy_has_a_wildcard_without_a_reason(stack: dict[str, Any]) -> None:
    assert wildcards(stack) == []


def test_a_wildcard_would_be_noticed(stack: dict[str, Any]) -> None:
    broken = copy.deepcopy(stack)
    role = of_type(broken, "AWS::IAM::Role")["CollectFunctionRole"]
    role["Policies"][0]["PolicyDocument"]["Statement"][0] |= {"Action": "s3:*", "Resource": "*"}
    assert wildcards(broken) == [
        "CollectFunctionRole: action s3:*",
        "CollectFunctionRole: any resource for ['s3']",
    ]


def test_managed_policies_are_those_that_subnets_and_tracing_need(stack: dict[str, Any]) -> None:
    managed = {
        json.dumps(arn).split("policy/")[-1].strip('"}]')
        for role in of_type(stack, "AWS::IAM::Role").values()
        for arn in role.get("ManagedPolicyArns", ())
    }
    assert managed <= {
        "service-role/AWSLambdaVPCAccessExecutionRole",
        "AWSXrayWriteOnlyAccess",
    }


def test_a_function_writes_to_its_own_log_group_and_no_other(stack: dict[str, Any]) -> None:
    for name, function in of_type(stack, "AWS::Lambda::Function").items():
        (role,) = function["Role"]["Fn::GetAtt"][:1]
        (writes,) = _allowed(stack, role, "logs:PutLogEvents")
        group = function["LoggingConfig"]["LogGroup"]["Ref"]
        assert writes["Resource"] == {"Fn::GetAtt": [group, "Arn"]}, name
        assert writes["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"], name


def test_only_functions_in_subnets_may_make_network_interfaces(
    plain: dict[str, Any], full: dict[str, Any]
) -> None:
    def allowed(stack: dict[str, Any]) -> set[str]:
        return {
            name
            for name, role in of_type(stack, "AWS::IAM::Role").items()
            if "AWSLambdaVPCAccessExecutionRole" in json.dumps(role)
        }

    def placed(stack: dict[str, Any]) -> set[str]:
        functions = of_type(stack, "AWS::Lambda::Function")
        return {name for name, each in functions.items() if each.get("VpcConfig")}

    assert allowed(plain) == placed(plain) == set()
    assert placed(full) == {"ScopePlanFunction", "CollectFunction"}
    assert allowed(full) == {"ScopePlanFunctionRole", "CollectFunctionRole"}


def test_ones_own_key_is_used_by_everything_that_keeps_anything(
    plain: dict[str, Any], full: dict[str, Any]
) -> None:
    kept = ("AWS::S3::Bucket", "AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::SNS::Topic",
            "AWS::Logs::LogGroup")  # fmt: skip
    for kind in kept:
        assert all(KEY in json.dumps(each) for each in of_type(full, kind).values()), kind
        assert all(KEY not in json.dumps(each) for each in of_type(plain, kind).values()), kind
    assert all(each["SqsManagedSseEnabled"] for each in of_type(plain, "AWS::SQS::Queue").values())
    (policy,) = of_type(full, "AWS::IAM::Policy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    functions = of_type(full, "AWS::Lambda::Function").values()
    roles = {each["Role"]["Fn::GetAtt"][0] for each in functions}
    assert roles <= {each["Ref"] for each in policy["Roles"]}
    assert of_type(plain, "AWS::IAM::Policy") == {}


def test_spokes_may_put_job_events_on_our_bus_and_nothing_else(
    plain: dict[str, Any], full: dict[str, Any]
) -> None:
    assert of_type(plain, "AWS::Events::EventBusPolicy") == {}
    (policy,) = of_type(full, "AWS::Events::EventBusPolicy").values()
    statement = policy["Statement"]
    assert statement["Principal"] == {"AWS": ["111122223333"]}
    assert statement["Action"] == "events:PutEvents"
    assert "rootrank.scheduler" in statement["Condition"]["StringEquals"]["events:source"]
    assert len(of_type(plain, "AWS::Events::Rule")) + 3 == len(of_type(full, "AWS::Events::Rule"))


def test_every_rule_may_send_to_the_queue(stack: dict[str, Any]) -> None:
    (policy,) = [
        each for name, each in of_type(stack, "AWS::SQS::QueuePolicy").items()
        if name == "QueuePolicy"
    ]  # fmt: skip
    (sends,) = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    allowed = {each["Fn::GetAtt"][0] for each in sends["Condition"]["ArnEquals"]["aws:SourceArn"]}
    assert allowed == set(of_type(stack, "AWS::Events::Rule"))


def test_every_queue_refuses_what_is_not_tls(stack: dict[str, Any]) -> None:
    guarded = {
        queue["Ref"]
        for policy in of_type(stack, "AWS::SQS::QueuePolicy").values()
        if any(each["Effect"] == "Deny" and each["Action"] == "sqs:*"
               for each in policy["PolicyDocument"]["Statement"])
        for queue in policy["Queues"]
    }  # fmt: skip
    assert guarded == set(of_type(stack, "AWS::SQS::Queue"))


def test_what_is_called_without_waiting_has_an_age_limit_and_a_place_for_failures(
    stack: dict[str, Any],
) -> None:
    (config,) = of_type(stack, "AWS::Lambda::EventInvokeConfig").values()
    assert config["MaximumEventAgeInSeconds"] <= 21_600
    assert config["DestinationConfig"]["OnFailure"]["Destination"] == {
        "Fn::GetAtt": ["ForwardDeadLetterQueue", "Arn"]
    }


def test_the_workflow_names_versions_and_callers_name_aliases(stack: dict[str, Any]) -> None:
    (machine,) = of_type(stack, "AWS::StepFunctions::StateMachine").values()
    named = {key: each["Ref"] for key, each in machine["DefinitionSubstitutions"].items()
             if key.endswith("Function")}  # fmt: skip
    versions = set(of_type(stack, "AWS::Lambda::Version"))
    aliases = set(of_type(stack, "AWS::Lambda::Alias"))
    assert len(named) >= 5
    assert set(named.values()) <= versions
    for mapping in of_type(stack, "AWS::Lambda::EventSourceMapping").values():
        assert mapping["FunctionName"]["Ref"] in aliases
    for permission in of_type(stack, "AWS::Lambda::Permission").values():
        assert permission["FunctionName"]["Ref"] in aliases
    alias = {"Ref": "AttributionStateMachineAliaslive"}
    admit = of_type(stack, "AWS::Lambda::Function")["ScopeAdmitFunction"]
    assert admit["Environment"]["Variables"]["STATE_MACHINE_ARN"] == alias
    (held,) = of_type(stack, "AWS::StepFunctions::StateMachineAlias").values()
    version = stack["Resources"][held["DeploymentPreference"]["StateMachineVersionArn"]["Ref"]]
    assert version["Type"] == "AWS::StepFunctions::StateMachineVersion"
    assert version["Properties"]["StateMachineArn"] == {"Ref": "AttributionStateMachine"}
    invoke = [each for _, each in statements(stack) if each["Action"] == "lambda:InvokeFunction"]
    assert all(json.dumps(each["Resource"]).count(':*"') for each in invoke)


def test_a_published_version_outlives_the_deployment_that_replaces_it(
    stack: dict[str, Any],
) -> None:
    kinds = {"AWS::Lambda::Version", "AWS::StepFunctions::StateMachineVersion"}
    versions = [each for each in stack["Resources"].values() if each["Type"] in kinds]
    assert {each["Type"] for each in versions} == kinds
    assert all(each["DeletionPolicy"] == "Retain" for each in versions)


def test_every_parameter_is_constrained_and_explained(template: dict[str, Any]) -> None:
    lists = {"SubnetIds", "SecurityGroupIds", "SpokeAccounts", "RunnerPrincipals"}
    for name, each in template["Parameters"].items():
        assert each["Description"].endswith("."), name
        is_bounded = {"AllowedValues", "AllowedPattern", "MinValue"} & set(each)
        assert is_bounded or name in lists, name


def test_every_function_has_its_own_role_timeout_memory_and_log_group(
    stack: dict[str, Any],
) -> None:
    functions = of_type(stack, "AWS::Lambda::Function")
    groups = of_type(stack, "AWS::Logs::LogGroup")
    assert len(functions) == 7 + ("ApiFunction" in functions)
    roles = [json.dumps(each["Role"]) for each in functions.values()]
    logs = [each["LoggingConfig"]["LogGroup"]["Ref"] for each in functions.values()]
    assert len(set(roles)) == len(set(logs)) == len(functions)
    assert all(0 < each["Timeout"] <= 900 for each in functions.values())
    assert all(each["MemorySize"] >= 512 for each in functions.values())
    assert set(logs) <= set(groups)


def test_every_log_group_forgets(stack: dict[str, Any]) -> None:
    groups = of_type(stack, "AWS::Logs::LogGroup")
    assert groups
    assert all("RetentionInDays" in each for each in groups.values())


def test_every_rule_delivers_to_a_queue_with_a_dead_letter_queue_and_an_age_limit(
    stack: dict[str, Any],
) -> None:
    rules = of_type(stack, "AWS::Events::Rule")
    assert len(rules) >= 8
    for rule in rules.values():
        for target in rule["Targets"]:
            assert target["DeadLetterConfig"]["Arn"]
            assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] <= 86_400


def test_every_queue_that_a_function_reads_has_a_dead_letter_queue(stack: dict[str, Any]) -> None:
    queues = of_type(stack, "AWS::SQS::Queue")
    read = {
        mapping["EventSourceArn"]["Fn::GetAtt"][0]
        for mapping in of_type(stack, "AWS::Lambda::EventSourceMapping").values()
    }
    assert read == {"AdmissionQueue"}
    for name in read:
        assert queues[name]["RedrivePolicy"]["maxReceiveCount"] >= 3
    assert all(
        queue.get("SqsManagedSseEnabled") or queue.get("KmsMasterKeyId")
        for queue in queues.values()
    )
    assert all(queue["MessageRetentionPeriod"] <= 1_209_600 for queue in queues.values())


def test_the_queue_waits_longer_than_the_function_that_reads_it(stack: dict[str, Any]) -> None:
    timeout = of_type(stack, "AWS::Lambda::Function")["ScopeAdmitFunction"]["Timeout"]
    waits = of_type(stack, "AWS::SQS::Queue")["AdmissionQueue"]["VisibilityTimeout"]
    assert waits >= 6 * timeout


def test_partial_batch_failures_and_concurrency_are_bounded(stack: dict[str, Any]) -> None:
    (mapping,) = of_type(stack, "AWS::Lambda::EventSourceMapping").values()
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"]["MaximumConcurrency"] <= 50


@pytest.mark.parametrize(("days", "end"), [("90", "90"), ("0", "1")])
def test_every_lifetime_that_objects_are_tagged_with_has_its_end(
    template: dict[str, Any], days: str, end: str
) -> None:
    stack = resolved(template, {"CapsuleDays": days})
    rules = of_type(stack, "AWS::S3::Bucket")["Bucket"]["LifecycleConfiguration"]["Rules"]
    ends = {
        each["TagFilters"][0]["Value"]: str(each["ExpirationInDays"])
        for each in rules
        if "TagFilters" in each
    }
    assert ends == {EVIDENCE: "30", CAPSULE: end, RESULT: "400"}


def test_the_bucket_is_private_versioned_encrypted_and_tls_only(stack: dict[str, Any]) -> None:
    bucket = of_type(stack, "AWS::S3::Bucket")["Bucket"]
    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert encryption["ServerSideEncryptionByDefault"]["SSEAlgorithm"] in ("AES256", "aws:kms")
    assert bucket["LifecycleConfiguration"]["Rules"]
    (policy,) = of_type(stack, "AWS::S3::BucketPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_table_can_be_restored_and_forgets_by_itself(stack: dict[str, Any]) -> None:
    table = of_type(stack, "AWS::DynamoDB::Table")["Table"]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    indexes = {index["IndexName"] for index in table["GlobalSecondaryIndexes"]}
    assert indexes == {"by_job", "by_day", "by_class", "by_node"}


def test_what_holds_results_outlives_the_stack(stack: dict[str, Any]) -> None:
    for name in ("Bucket", "Table"):
        assert stack["Resources"][name]["DeletionPolicy"] == "Retain"


def test_the_functions_live_as_long_as_their_states_wait(stack: dict[str, Any]) -> None:
    functions = of_type(stack, "AWS::Lambda::Function")
    machine = json.loads((ROOT / "infra/statemachine/attribution.asl.json").read_text())["States"]
    waits = {
        "ScopePlanFunction": machine["Plan"],
        "CollectFunction": machine["Collect"]["ItemProcessor"]["States"]["CollectItem"],
        "AttributeFunction": machine["Attribute"],
        "PublishFunction": machine["Publish"],
    }
    for name, state in waits.items():
        assert functions[name]["Timeout"] < state["TimeoutSeconds"]


def _allowed(stack: dict[str, Any], role: str, action: str) -> list[dict[str, Any]]:
    return [
        statement
        for name, statement in statements(stack)
        if name == role
        and action in ([taken] if isinstance(taken := statement["Action"], str) else taken)
    ]


def test_site_rules_are_off_until_a_prefix_below_rules_is_named(stack: dict[str, Any]) -> None:
    parameter = stack["Parameters"]["SiteRulesPrefix"]
    assert parameter["Default"] == ""
    for value, fits in {
        "": True, "rules/": True, "rules/site-a/": True, "rules": False, "bundles/": False,
        "rules//": False, "rules/../": False, "/rules/": False,
    }.items():  # fmt: skip
        assert bool(re.fullmatch(parameter["AllowedPattern"], value)) is fits, value
    for name in ("ScopePlanFunction", "CollectFunction", "AttributeFunction"):
        variables = of_type(stack, "AWS::Lambda::Function")[name]["Environment"]["Variables"]
        assert variables["SITE_RULES"] == ""


@pytest.mark.parametrize("name", ["ScopePlan", "Collect", "Attribute"])
def test_who_works_with_rules_may_read_the_sites_own(stack: dict[str, Any], name: str) -> None:
    role = f"{name}FunctionRole"
    readable = json.dumps([each["Resource"] for each in _allowed(stack, role, "s3:GetObject")])
    assert "${Bucket.Arn}/rules/*" in readable or '"${Bucket.Arn}/*"' in readable
    (listing,) = _allowed(stack, role, "s3:ListBucket")
    if name == "Collect":
        assert listing["Condition"] == {"StringLike": {"s3:prefix": ["bundles/*", "rules/*"]}}


def test_nobody_else_reads_site_rules_and_nobody_writes_them(stack: dict[str, Any]) -> None:
    for role in of_type(stack, "AWS::IAM::Role"):
        written = json.dumps([each["Resource"] for each in _allowed(stack, role, "s3:PutObject")])
        assert "rules/" not in written, role
        assert '"${Bucket.Arn}/*"' not in written, role
    readers = {
        role
        for role in of_type(stack, "AWS::IAM::Role")
        if "/rules/*" in json.dumps([e["Resource"] for e in _allowed(stack, role, "s3:GetObject")])
    }
    # Whoever may ask the service for a verdict may name a ruleset (docs/rest.md).
    assert readers - {"ApiFunctionRole"} == {"ScopePlanFunctionRole", "CollectFunctionRole"}


def test_the_rest_service_exists_only_with_a_mapping_of_callers_and_is_never_open(
    plain: dict[str, Any], full: dict[str, Any], template: dict[str, Any]
) -> None:
    assert not [name for name in plain["Resources"] if name.startswith("Api")]
    signed = resolved(template, {"ServiceAccess": '{"version": 1}'})
    (route,) = of_type(signed, "AWS::ApiGatewayV2::Route").values()
    assert route["AuthorizationType"] == "AWS_IAM"
    (route,) = of_type(full, "AWS::ApiGatewayV2::Route").values()
    assert route["AuthorizationType"] == "JWT"
    assert route["AuthorizerId"] == {"Ref": "ApiAuthorizer"}
    (authorizer,) = of_type(full, "AWS::ApiGatewayV2::Authorizer").values()
    assert authorizer["JwtConfiguration"] == {
        "Issuer": "https://id.example", "Audience": ["rootrank"],
    }  # fmt: skip
    (stage,) = of_type(full, "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] <= 100
    assert stage["AccessLogSettings"]["DestinationArn"]
    timeout = of_type(full, "AWS::Lambda::Function")["ApiFunction"]["Timeout"]
    (integration,) = of_type(full, "AWS::ApiGatewayV2::Integration").values()
    assert timeout * 1000 < integration["TimeoutInMillis"] <= 30_000


def test_the_linter_has_nothing_to_say() -> None:
    told = subprocess.run(
        [str(Path(sys.executable).parent / "cfn-lint"), str(ROOT / "template.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (told.returncode, told.stdout) == (0, "")


@pytest.mark.system("aws-sam-cli")
def test_the_sam_command_line_accepts_the_template() -> None:
    told = subprocess.run(
        ["sam", "validate", "--lint", "--region", "us-east-1", "-t", str(ROOT / "template.yaml")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SAM_CLI_TELEMETRY": "0"},
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    "name", ["ScopeAdmit", "ScopePlan", "Collect", "Attribute", "Publish", "Api"]
)
def test_every_function_has_a_build_recipe_and_a_handler_that_exists(
    full: dict[str, Any], name: str
) -> None:
    handler = of_type(full, "AWS::Lambda::Function")[f"{name}Function"]["Handler"]
    module, function = handler.rsplit(".", 1)
    assert callable(getattr(importlib.import_module(module), function))
    assert f"{name}Function" in (ROOT / "infra/build.mk").read_text()


@pytest.mark.parametrize("name", ["ScopePlanFunctionRole", "AttributeFunctionRole"])
def test_who_asks_for_objects_that_may_be_absent_may_list_the_bucket(
    stack: dict[str, Any], name: str
) -> None:
    """S3 answers 403, not 404, to those who may not list."""
    unconditional = [
        statement
        for role, statement in statements(stack)
        if role == name and statement["Action"] == "s3:ListBucket" and "Condition" not in statement
    ]
    assert len(unconditional) == 1
