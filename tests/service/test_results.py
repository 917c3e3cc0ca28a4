"""Results, corrections by people, other rulesets, and what a recovery controller is told."""

import json
from typing import Any

import pytest
from service_api import Api

from engine.model.envelope import Envelope
from engine.model.verdict import is_sealed, read_verdict

CORRECTION = {
    "expected_revision": 1, "domain": "network", "failure_class": "switch_rebooted",
    "title": "The leaf switch rebooted", "nodes": [{"node": "node-003", "role": "victim"}],
    "reason": "The switch's own log shows a restart at 21:34; the GPU errors came after it.",
}  # fmt: skip


@pytest.fixture(scope="module")
def result(api: Api) -> str:
    """A definitive GPU fault that the pipeline found."""
    return api.publish("team-a", "600")


def correct(api: Api, result: str, **changes: Any) -> Any:
    return api.ask("POST", f"/v1/results/{result}/corrections", {**CORRECTION, **changes})


def test_a_result_is_listed_and_fetched_as_it_was_published(api: Api, result: str) -> None:
    (row,) = [
        each for each in api.ask("GET", "/v1/results").body["results"]
        if each["result_id"] == result
    ]  # fmt: skip
    assert (row["failure_class"], row["culprits"]) == ("gpu_gsp_timeout", ["node-003"])
    told = api.ask("GET", f"/v1/results/{result}")
    envelope = Envelope.model_validate(told.body["envelope"])
    assert is_sealed(envelope.verdict)
    assert envelope.verdict.workload.tenant == "team-a"


def test_pages_follow_each_other_by_an_opaque_cursor(api: Api) -> None:
    jobs = {api.publish("team-b", str(number)) for number in (701, 702, 703)}
    seen: list[str] = []
    query = "limit=2"
    while True:
        page = api.ask("GET", "/v1/results", query=query, role="team-b").body
        seen += [each["result_id"] for each in page["results"]]
        if page["next"] is None:
            break
        query = f"limit=2&cursor={page['next']}"
    assert (len(seen), set(seen)) == (3, jobs)
    assert api.ask("GET", "/v1/results", query="cursor=bm90LW9uZQ").status == 422


def test_the_same_rules_say_the_same_of_stored_evidence(api: Api, result: str) -> None:
    told = api.ask("POST", f"/v1/results/{result}/attributions", {"ruleset": "release"})
    assert told.status == 200
    assert (told.body["mode"], told.body["changed"]) == ("reasoning", [])
    stored = api.ask("GET", f"/v1/results/{result}").body["envelope"]["verdict"]
    assert told.body["verdict"]["attribution_id"] == stored["attribution_id"]


def test_rules_with_other_signatures_judge_the_excerpts_that_were_kept(
    api: Api, result: str
) -> None:
    rule = (
        "id: site/fan_stopped\nkind: symptom\nversion: 1\nsources: ['our rack controller']\n"
        "symptom: site_fan_stopped\ntitle: A fan of the rack stopped\ndomain: host\nrole: root\n"
        "tier: 2\nentity: node\naccuses: false\nsignatures:\n  - sources: [syslog]\n"
        "    scan: 'rackctl: fan \\w{1,8} stopped'\n    samples: ['rackctl: fan F3 stopped']\n"
        "    near_misses: ['rackctl: fan F3 running']\n"
    )
    store = api.uploads.store
    store.put_once("rules/candidate/site/fan_stopped.yaml", rule.encode(), content_type="text/yaml")
    told = api.ask("POST", f"/v1/results/{result}/attributions", {"ruleset": "candidate"})
    assert (told.status, told.body["mode"]) == (200, "capsule")
    assert "other signatures; from excerpts: static" in told.body["reason"]
    # The bundle's logs are shorter than capsules, so nothing of them is missing.
    stored = api.ask("GET", f"/v1/results/{result}").body["envelope"]["verdict"]
    assert told.body["verdict"]["failure_class"] == stored["failure_class"]
    assert told.body["verdict"]["coverage"] == stored["coverage"]
    kept = [key for key, _ in store.list_objects("") if "/capsules/" in key]
    for key in kept:
        store.client.delete_object(Bucket=store.bucket, Key=key)
    told = api.ask("POST", f"/v1/results/{result}/attributions", {"ruleset": "candidate"})
    assert (told.status, told.body["mode"], told.body["verdict"]) == (200, "none", None)
    assert "other signatures; collect again" in told.body["reason"]
    # A session has its bytes still, so the new rule reads them.
    session = api.session()
    line = "2023-03-06T20:00:00Z node-003 rackctl: fan F3 stopped\n"
    api.chunk(session, "node-003.syslog", line, source="syslog", node=["node-003"])
    answer = api.verdict(session, query="ruleset=candidate")
    assert answer["ruleset"]["name"] == "candidate"
    assert "site_fan_stopped" in {each["symptom"] for each in answer["verdict"]["symptoms"]}
    assert "site_fan_stopped" not in str(api.verdict(session)["verdict"]["symptoms"])


def test_a_correction_is_a_revision_that_supports_no_automation(api: Api, result: str) -> None:
    api.stack.messages()
    told = correct(api, result)
    assert told.status == 201, told.body
    assert (told.body["revision"], told.body["supersedes"], told.body["status"]) == (
        2, 1, "correction",
    )  # fmt: skip
    envelope = api.ask("GET", f"/v1/results/{result}").body["envelope"]
    verdict = read_verdict(envelope["verdict"])
    assert is_sealed(verdict)
    assert envelope["corrected_by"] == "arn:aws:iam::111122223333:role/team-a"
    assert (verdict.domain, verdict.failure_class) == ("network", "switch_rebooted")
    assert {each.node: each.role for each in verdict.affected_nodes} == {"node-003": "victim"}
    assert "culprit" not in {each.role for each in verdict.affected_entities}
    known = {each.evidence_id for each in verdict.evidence}
    assert all(known.issuperset(cause.evidence) for cause in verdict.root_causes)
    assert not any(action.evidence_supports_automation for action in verdict.actions)
    (message,) = api.stack.messages()
    assert message["attributes"]["automation_supported"] == "false"
    assert message["attributes"]["status"] == "correction"
    assert message["body"]["revision"] == 2


def test_the_same_correction_again_is_the_same_revision(api: Api, result: str) -> None:
    again = correct(api, result)
    assert (again.status, again.body["revision"], again.body["is_new"]) == (200, 2, False)
    revisions = api.ask("GET", f"/v1/results/{result}/revisions").body["revisions"]
    assert [each["revision"] for each in revisions] == [2, 1]
    first = api.ask("GET", f"/v1/results/{result}", query="revision=1").body["envelope"]
    assert first["verdict"]["failure_class"] == "gpu_gsp_timeout"


def test_a_correction_of_an_older_revision_is_a_conflict(api: Api, result: str) -> None:
    told = correct(api, result, failure_class="another_thing")
    assert told.status == 409
    assert "revision 2" in told.body["detail"]


def test_a_late_pass_of_the_same_generation_leaves_a_correction_alone(
    api: Api, result: str
) -> None:
    item = api.stack.client("dynamodb").get_item(
        TableName=api.stack.resources.table,
        Key={"pk": {"S": "team-a/default/slurm/600/r0"}, "sk": {"S": "CURRENT"}},
    )["Item"]
    payload = {"attempt_key": "team-a/default/slurm/600/r0", "generation": 1, "collection": 2,
               "retry_count": 0, "workflow": {}}  # fmt: skip
    answer = api.stack.client("lambda").invoke(
        FunctionName=next(
            each["FunctionName"]
            for each in api.stack.client("lambda").list_functions()["Functions"]
            if each["Handler"] == "functions.attribute.handler.attribute"
        ),
        Payload=json.dumps(payload),
    )
    told = json.loads(answer["Payload"].read())
    assert (told["revision"], told["is_new"]) == (int(item["revision"]["N"]), False)


@pytest.mark.parametrize(
    "changes",
    [
        {"domain": "application", "nodes": [{"node": "node-003", "role": "culprit"}]},
        {"domain": "none"},
        {"evidence": ["ev-made-up"]},
    ],
)
def test_a_correction_may_not_say_what_no_verdict_may_say(
    api: Api, result: str, changes: dict[str, Any]
) -> None:
    told = correct(api, result, expected_revision=2, **changes)
    assert told.status == 422
    assert told.body["errors"]


def request(job: str, **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "0.1.0", "workload_id": job, "phase": "fast", "timeout_ms": 4000,
        "scope": {"nodes": ["node-003"], "ranks": []},
        "failure_context": {"detected_at": "2023-03-06T22:00:00Z", "detection_signal": "hang"},
        **changes,
    }  # fmt: skip


def test_the_fast_phase_answers_at_once_and_says_what_it_waits_for(api: Api) -> None:
    told = api.ask("POST", "/v1/attribution", request("800"))
    assert told.status == 200, told.body
    assert (told.body["answered_from"], told.body["is_final"]) == ("session", False)
    assert told.body["waiting_for"] == ["the collection"]
    assert (told.body["domain"], told.body["exclude_nodes"]) == ("unknown", [])
    api.stack.settle(60)
    more = request("800", continue_session=told.body["continue_session"])
    again = api.ask("POST", "/v1/attribution", more)
    assert again.body["continue_session"] == told.body["continue_session"]
    assert (again.body["answered_from"], again.body["is_final"]) == ("result", True)
    assert again.body["terminal_state"] in ("hung", "running")


def test_evidence_that_the_controller_sent_itself_is_in_its_answer(api: Api) -> None:
    first = api.ask("POST", "/v1/attribution", request("801")).body
    text = (
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 5, in <module>\n    main()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    api.chunk(first["continue_session"], "rank-0.log", text, rank=[0])
    told = api.ask(
        "POST", "/v1/attribution", request("801", continue_session=first["continue_session"])
    )
    assert told.body["failure_class"] == "cuda_oom"
    assert told.body["exclude_nodes"] == []


def test_nodes_proven_guilty_are_excluded_and_told_apart_from_those_out_of_scope(
    api: Api,
) -> None:
    api.publish("team-b", "900")
    for nodes, in_scope in ((["node-003"], True), (["node-001"], False)):
        asked = request(
            "900", phase="slow",
            scope={"nodes": nodes, "start_time": "2023-03-06T10:00:00Z",
                   "end_time": "2023-03-06T23:00:00Z"},
        )  # fmt: skip
        told = api.ask("POST", "/v1/attribution", asked, role="team-b").body
        assert told["answered_from"] == "result"
        assert told["exclude_nodes"] == ["node-003"]
        assert told["in_window"] is True
        (culprit,) = [each for each in told["nodes"] if each["role"] == "culprit"]
        assert culprit["in_scope"] is in_scope


def test_the_slow_phase_waits_no_longer_than_it_was_told(api: Api) -> None:
    told = api.ask("POST", "/v1/attribution", request("802", phase="slow", timeout_ms=1300))
    assert told.status == 200
    assert told.body["answered_from"] == "session"
    assert told.body["waiting_for"] == ["the collection"]
    api.stack.settle(60)
