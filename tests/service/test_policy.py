"""What the service asks of AWS is what its role allows: recorded calls against the template."""

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from service_api import ROOT, WORKLOAD, Api

from rootrank.embedded.template import read_template, translate

Call = tuple[str, str]
"""An action and what it is about: an S3 key, a partition key, or nothing in particular."""
_TRANSACTIONS = {"Put": "dynamodb:PutItem", "Delete": "dynamodb:DeleteItem",
                 "Update": "dynamodb:UpdateItem"}  # fmt: skip


def actions_of(service: str, operation: str, params: dict[str, Any]) -> list[Call]:
    if operation == "TransactWriteItems":
        return [
            (_TRANSACTIONS[kind], (each[kind].get("Item") or each[kind]["Key"])["pk"]["S"])
            for each in params["TransactItems"] for kind in each
        ]  # fmt: skip
    if service == "s3":
        action = "ListBucket" if operation == "ListObjectsV2" else operation
        tagging = ["PutObjectTagging"] if params.get("Tagging") else []
        return [(f"s3:{each}", params.get("Key", "")) for each in (action, *tagging)]
    if service == "dynamodb":
        key = (params.get("Item") or params.get("Key") or {}).get("pk", {}).get("S", "")
        return [(f"dynamodb:{operation}", key)]
    return [(f"{service}:{operation}", "")]


def allowed(call: Call, statements: list[dict[str, Any]]) -> bool:
    action, about = call
    for statement in statements:
        actions = statement["Action"]
        if action not in ([actions] if isinstance(actions, str) else actions):
            continue
        keys = statement.get("Condition", {}).get("ForAllValues:StringLike", {})
        leading = keys.get("dynamodb:LeadingKeys")
        if leading is not None and not any(fnmatchcase(about, each) for each in leading):
            continue
        if action.startswith("s3:") and action != "s3:ListBucket":
            resources = [each["Fn::Sub"].removeprefix("${Bucket.Arn}/")
                         for each in statement["Resource"]]  # fmt: skip
            if not any(fnmatchcase(about, each) for each in resources):
                continue
        return True
    return False


@pytest.fixture(scope="module")
def statements() -> list[dict[str, Any]]:
    resources = translate(read_template(ROOT), {})["Resources"]
    (policy,) = resources["ApiFunctionRole"]["Properties"]["Policies"]
    found: list[dict[str, Any]] = policy["PolicyDocument"]["Statement"]
    return found


@pytest.fixture(scope="module")
def calls(api: Api) -> set[Call]:
    """Every AWS call of one use of every operation."""
    result = api.publish("team-a", "1000")
    seen: set[Call] = set()

    def note(params: Any, model: Any, **_: Any) -> None:
        name = model.service_model.signing_name
        seen.update(actions_of(name, model.name, json.loads(json.dumps(params, default=str))))

    service = api.front._service
    clients = [
        api.uploads.store.client, service.sessions.table.client,
        service.corrections.notifier.client, service.idempotency.client,  # type: ignore[attr-defined]
    ]  # fmt: skip
    for client in clients:
        client.meta.events.register("provide-client-params", note)
    try:
        use_everything(api, result)
    finally:
        for client in clients:
            client.meta.events.unregister("provide-client-params", note)
    return seen


def use_everything(api: Api, result: str) -> None:
    told = api.ask("POST", "/v1/sessions", {"workload": WORKLOAD},
                   headers={"idempotency-key": "policy-01"})  # fmt: skip
    session = told.body["session_id"]
    api.chunk(session, "train.log", "[rank3] step 1 loss 1.5\n" * 50_000)
    first = {"origin": {"uri": "a", "line": 1, "byte_offset": 0, "byte_length": 1}, "text": "x"}
    observation = {"symptom": "cuda_oom", "rule": "x", "source": "applog", "stream": "a",
                   "first": first}  # fmt: skip
    for resource, body in {
        "observations": {"observations": [observation]},
        "statements": {"state": "NODE_FAIL"},
        "uploads": {"stream": {"path": "b", "source": "applog"}, "bytes": 1, "sha256": "0" * 64},
    }.items():
        assert api.ask("POST", f"/v1/sessions/{session}/{resource}", body).status == 201
    api.verdict(session)
    api.verdict(session, query="ruleset=release")
    api.ask("GET", f"/v1/sessions/{session}/verdict", query="ruleset=none-such")
    for path in ("", f"/{result}", f"/{result}/revisions"):
        assert api.ask("GET", f"/v1/results{path}").status == 200
    assert api.ask("GET", "/v1/results", query="node=node-003").status == 200
    place = f"/v1/results/{result}"
    assert api.ask("POST", f"{place}/attributions", {"ruleset": "release"}).status == 200
    correction = {"expected_revision": 1, "domain": "network", "failure_class": "x",
                  "title": "t", "reason": "r"}  # fmt: skip
    assert api.ask("POST", f"{place}/corrections", correction).status == 201
    asked = {"workload_id": "1000", "phase": "fast", "timeout_ms": 500,
             "failure_context": {"detection_signal": "hang"}}  # fmt: skip
    assert api.ask("POST", "/v1/attribution", asked).status == 200


def test_the_role_allows_every_call(calls: set[Call], statements: list[dict[str, Any]]) -> None:
    assert len(calls) > 15
    assert sorted(call for call in calls if not allowed(call, statements)) == []


def test_the_role_allows_no_action_that_nothing_uses(
    calls: set[Call], statements: list[dict[str, Any]]
) -> None:
    granted = {
        action
        for statement in statements
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    } - {"logs:CreateLogStream", "logs:PutLogEvents"}  # Lambda does, in the function's name
    used = {action for action, _ in calls} | {"events:PutEvents"}
    # A transaction's delete and Powertools' clean-up happen only when something went wrong before.
    assert granted - used <= {"dynamodb:DeleteItem"}


def test_a_call_that_the_role_lacks_would_be_noticed(statements: list[dict[str, Any]]) -> None:
    assert not allowed(("s3:PutObject", "rules/x/y.yaml"), statements)
    assert not allowed(("s3:GetObject", "bundles/x/y"), statements)
    assert not allowed(("dynamodb:Scan", "team-a/default/slurm/1/r0"), statements)
    assert not allowed(("s3:DeleteObject", "sessions/x"), statements)
