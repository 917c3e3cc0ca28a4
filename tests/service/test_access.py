"""Who is let in, and that nothing of another tenant exists: every operation of the document."""

import json
import re
from typing import Any

import pytest
from service_api import Api

from functions.adapters.keys import RESERVED
from functions.service.access import (
    AccessMap,
    AccessMapError,
    CallerUnknownError,
    caller_of,
    read_access_map,
)
from functions.service.openapi import document
from functions.service.problems import ProblemError
from functions.service.results import RESULT_ID, attempt_of, result_id

OPERATIONS = [
    (method.upper(), path)
    for path, operations in sorted(document()["paths"].items())
    for method in sorted(operations)
]
BODIES: dict[str, Any] = {
    "/v1/sessions/{session_id}/statements": {"state": "FAILED"},
    "/v1/sessions/{session_id}/chunks": {
        "stream": {"path": "a.log", "source": "applog"}, "text": "x\n",
    },
    "/v1/sessions/{session_id}/uploads": {
        "stream": {"path": "a.log", "source": "applog"}, "bytes": 1, "sha256": "0" * 64,
    },
    "/v1/sessions/{session_id}/observations": {
        "observations": [{
            "symptom": "cuda_oom", "rule": "x", "source": "applog", "stream": "a",
            "first": {"origin": {"uri": "a", "line": 1, "byte_offset": 0, "byte_length": 1},
                      "text": "x"},
        }],
    },
    "/v1/results/{result_id}/attributions": {"ruleset": "release"},
    "/v1/results/{result_id}/corrections": {
        "expected_revision": 1, "domain": "network", "failure_class": "x", "title": "t",
        "reason": "r",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def of_team_a(api: Api) -> dict[str, str]:
    """What tenant A has: a session with content, and a published result."""
    session = api.session()
    api.chunk(session, "train.log", "secret of team A\n")
    return {"session_id": session, "result_id": api.publish("team-a", "500")}


@pytest.mark.parametrize(("method", "path"), [o for o in OPERATIONS if "{" in o[1]])
def test_what_is_of_one_tenant_does_not_exist_for_another(
    api: Api, of_team_a: dict[str, str], method: str, path: str
) -> None:
    place = path.format(**of_team_a)
    body = BODIES.get(path) if method == "POST" else None
    assert method == "GET" or body is not None, f"{path}: give this test a body"
    told = api.ask(method, place, body, role="team-b")
    assert told.status == 404, told.body
    assert told.headers["Content-Type"] == "application/problem+json"
    never = api.ask(
        method, path.format(session_id=f"ses_{'0' * 32}", result_id="r_ZGVmYXVsdC9zbHVybS8xL3Iw"),
        body, role="team-b",
    )  # fmt: skip
    assert never.status == 404
    # Not even the words differ between what is another's and what is not there.
    words = [re.sub(r"(ses|r)_[A-Za-z0-9_-]+", "ID", each.body["detail"]) for each in (told, never)]
    assert words[0] == words[1]


def test_the_operations_without_ids_show_only_ones_own(api: Api, of_team_a: dict[str, str]) -> None:
    assert [o for o in OPERATIONS if "{" not in o[1]] == [
        ("POST", "/v1/attribution"), ("GET", "/v1/results"), ("POST", "/v1/sessions"),
    ]  # fmt: skip
    assert of_team_a["result_id"] in str(api.ask("GET", "/v1/results").body)
    assert api.ask("GET", "/v1/results", role="team-b").body == {"next": None, "results": []}
    for query in ("cluster=default", "node=node-003", "failure_class=gpu_gsp_timeout"):
        found = api.ask("GET", "/v1/results", role="team-b", query=query)
        assert found.body["results"] == []
    request = {
        "workload_id": "30911", "phase": "fast", "timeout_ms": 1000,
        "failure_context": {"detection_signal": "crash"},
        "continue_session": of_team_a["session_id"],
    }  # fmt: skip
    assert api.ask("POST", "/v1/attribution", request, role="team-b").status == 404


def test_a_reader_may_read_and_nothing_else(api: Api, of_team_a: dict[str, str]) -> None:
    for method, path in OPERATIONS:
        body: Any = BODIES.get(path)
        if path == "/v1/sessions":
            body = {"workload": {"scheduler": "slurm", "job_id": "1"}}
        if path == "/v1/attribution":
            body = {"workload_id": "1", "phase": "fast", "timeout_ms": 1,
                    "failure_context": {"detection_signal": "crash"}}  # fmt: skip
        told = api.ask(method, path.format(**of_team_a), body, role="viewer")
        may = method == "GET" or path.endswith("/attributions")
        assert (told.status == 403) is not may, (method, path, told.body)


def test_whom_the_mapping_leaves_out_is_refused(api: Api) -> None:
    told = api.ask("GET", "/v1/results", role="stranger")
    assert told.status == 403
    assert "stranger" in told.body["detail"]


def iam(arn: str) -> dict[str, Any]:
    return {"requestContext": {"authorizer": {"iam": {"userArn": arn}}}}


def test_a_role_is_known_by_its_sessions_whatever_its_path() -> None:
    access = AccessMap.model_validate(
        {"iam": [{"principal": "arn:aws:iam::111122223333:role/ml/trainer", "tenant": "team-a"}]}
    )
    session = "arn:aws:sts::111122223333:assumed-role/trainer/i-0abc"
    assert caller_of(iam(session), access).tenant == "team-a"
    for strange in (
        "arn:aws:sts::999922223333:assumed-role/trainer/i-0abc",
        "arn:aws:sts::111122223333:assumed-role/trainer2/i-0abc",
        "arn:aws:iam::111122223333:user/trainer",
        "",
    ):
        with pytest.raises(CallerUnknownError):
            caller_of(iam(strange), access)


def test_a_token_gives_a_tenant_by_its_claim_and_rights_by_its_scopes() -> None:
    access = AccessMap.model_validate(
        {
            "tenant_claim": "custom:team",
            "jwt": [{"value": "A", "tenant": "team-a", "may": ["read", "write"]}],
            "scopes": {"rootrank/read": "read", "rootrank/correct": "correct"},
        }
    )

    def with_claims(**claims: str) -> dict[str, Any]:
        return {"requestContext": {"authorizer": {"jwt": {"claims": claims, "scopes": None}}}}

    found = caller_of(
        with_claims(
            **{"custom:team": "A", "sub": "u-1", "scope": "rootrank/read rootrank/correct"}
        ),
        access,
    )
    assert (found.tenant, found.name, found.may) == ("team-a", "u-1", frozenset({"read"}))
    for claims in ({"custom:team": "B"}, {"team": "A"}, {}):
        with pytest.raises(CallerUnknownError):
            caller_of(with_claims(**claims), access)


def test_without_a_mapping_or_an_authorizer_nobody_is_let_in() -> None:
    with pytest.raises(CallerUnknownError):
        caller_of(iam("arn:aws:iam::111122223333:role/team-a"), read_access_map(""))
    for event in ({}, {"requestContext": {}}, {"requestContext": {"authorizer": {"lambda": {}}}}):
        with pytest.raises(CallerUnknownError):
            caller_of(event, AccessMap())


def mapping(tenant: str) -> str:
    entry = {"principal": "arn:aws:iam::111122223333:role/x", "tenant": tenant}
    return json.dumps({"iam": [entry]})


@pytest.mark.parametrize(
    "text",
    [
        '{"iam": [{"principal": "role/x", "tenant": "a"}]}',
        "[]",
        "{",
        '{"users": []}',
        *(mapping(name) for name in ("a/b", "", *sorted(RESERVED))),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(AccessMapError, match="SERVICE_ACCESS"):
        read_access_map(text)


def test_ids_of_results_name_no_tenant_and_lead_out_of_none() -> None:
    name = result_id("team-a/default/slurm/77/r0")
    assert re.fullmatch(RESULT_ID, name)
    assert attempt_of("team-b", name) == "team-b/default/slurm/77/r0"
    for strange in ("../x/y/z", "a/b/c", "a/b/c/d/e", "a/b/c/\x00", "/b/c/d"):
        with pytest.raises(ProblemError):
            attempt_of("team-a", result_id(f"team-a/{strange}"))
