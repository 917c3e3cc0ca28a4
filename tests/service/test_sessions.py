"""Sessions: any order, any number of times, exactly what is covered, and nothing believed."""

import hashlib
import random
from typing import Any

from service_api import CORPUS, WORKLOAD, Api
from service_fakes import memory_service

from engine.model.canonical import canonical_json
from functions.service.present import bytes_of, verdict_answer
from functions.service.requests import (
    ChunkRequest,
    ObservationsRequest,
    SessionRequest,
    StatementRequest,
    StreamBody,
)

BUNDLE = CORPUS / "007-xid119-gsp-timeout"
OBSERVATION = {
    "symptom": "cuda_oom", "rule": "application/cuda_oom", "source": "applog",
    "stream": "rank-3.log", "entity": {"node": "node-003", "rank": 3},
    "first": {
        "origin": {"uri": "rank-3.log", "line": 7, "byte_offset": 310, "byte_length": 42},
        "text": "torch.OutOfMemoryError: CUDA out of memory.",
    },
}  # fmt: skip


def parts() -> list[tuple[str, dict[str, Any]]]:
    """Two files in pieces that overlap, later statements and an observation: (resource, body)."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, source in (("train.log", "applog"), ("node-003.dmesg", "syslog")):
        data = (BUNDLE / name).read_text()
        stream = {"path": name, "source": source, "node": ["node-003"]}
        for start in range(0, len(data), 400):
            text = data[start : start + 450]
            found.append(("chunks", {"stream": stream, "offset": start, "text": text}))
    found.append(("statements", {"detection_signal": "hang"}))
    found.append(("statements", {"state": "NODE_FAIL", "end": "2023-03-06T22:05:20Z"}))
    found.append(("observations", {"observations": [OBSERVATION]}))
    return found


def shuffled(seed: int) -> list[tuple[str, dict[str, Any]]]:
    """Every part, three of them twice, in the order of a seed."""
    chance = random.Random(seed)
    sent = parts()
    sent += chance.sample(sent, 3)
    chance.shuffle(sent)
    return sent


def test_fifty_random_orders_with_repetitions_give_the_same_bytes() -> None:
    sessions, judgement, book = memory_service()
    seen = set()
    for seed in range(50):
        name = sessions.create("team-a", SessionRequest.model_validate({"workload": WORKLOAD}))
        for resource, body in shuffled(seed):
            if resource == "chunks":
                chunk = ChunkRequest.model_validate(body)
                sessions.add_chunk(
                    "team-a", name, chunk.stream, offset=chunk.offset, data=bytes_of(chunk)
                )
            elif resource == "statements":
                sessions.state("team-a", name, StatementRequest.model_validate(body))
            else:
                sent = ObservationsRequest.model_validate(body)
                sessions.add_observations("team-a", name, sent.observations)
        session = sessions.read("team-a", name)
        answer = verdict_answer(session, book, judgement.judge(session, book))
        seen.add(canonical_json(answer.model_dump(mode="json", exclude={"session_id"})))
    assert len(seen) == 1


def test_the_order_in_which_requests_come_changes_no_byte(api: Api) -> None:
    seen = set()
    for seed in range(3):
        session = api.session()
        for resource, body in shuffled(seed):
            told = api.ask("POST", f"/v1/sessions/{session}/{resource}", body)
            assert told.status in (200, 201), told.body
        answer = api.verdict(session)
        seen.add((canonical_json(answer["verdict"]), canonical_json(answer["covers"])))
    assert len(seen) == 1


def test_little_time_covers_the_smallest_streams_and_says_what_is_left() -> None:
    sessions, judgement, book = memory_service()
    name = sessions.create("team-a", SessionRequest.model_validate({"workload": WORKLOAD}))
    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    for path, text in (("big.log", "step 1\n" * 200_000), ("small.log", oom)):
        stream = StreamBody(path=path, source="applog")
        sessions.add_chunk("team-a", name, stream, offset=0, data=text.encode())
    asked = iter(range(1_000_000))
    session = sessions.read("team-a", name)
    hasty = judgement.judge(session, book, is_out_of_time=lambda: next(asked) > 6)
    answer = verdict_answer(session, book, hasty)
    assert not answer.covers.is_complete
    assert {each.uri: each.status for each in answer.covers.streams} == {
        "big.log": "partial", "small.log": "ok",
    }  # fmt: skip
    assert "out of time" in (answer.covers.streams[0].reason or "")
    assert "evidence_lost" in answer.verdict.quality.reasons
    assert answer.verdict.failure_class == "cuda_oom"
    whole = verdict_answer(session, book, judgement.judge(session, book))
    assert whole.covers.is_complete


def test_a_job_of_ten_thousand_ranks_can_be_described(api: Api) -> None:
    ranks = [{"rank": n, "node": f"node-{n // 8:05d}", "gpu": n % 8} for n in range(10_000)]
    session = api.session({**WORKLOAD, "ranks": ranks})
    assert api.ask("GET", f"/v1/sessions/{session}").status == 200
    names = [f"{n:05d}-{hashlib.sha256(b'%d' % n).hexdigest() * 3}" for n in range(10_000)]
    told = api.ask("POST", "/v1/sessions", {"workload": {**WORKLOAD, "nodes": names}})
    assert told.status == 413
    assert "leave out" in told.body["todo"]


def test_a_session_says_what_the_bundle_says_and_accuses_no_node(api: Api) -> None:
    session = api.session()
    for resource, body in parts():
        if resource == "chunks":
            api.ask("POST", f"/v1/sessions/{session}/{resource}", body)
    answer = api.verdict(session)
    verdict = answer["verdict"]
    assert answer["covers"]["is_complete"]
    assert {each["trust"] for each in verdict["evidence"]} == {"caller"}
    assert not any(each["evidence_supports_automation"] for each in verdict["actions"])
    assert [each for each in verdict["affected_nodes"] if each["role"] == "culprit"] == []


def test_a_read_covers_everything_that_was_accepted_before_it(api: Api) -> None:
    session = api.session()
    digests = set()
    for number in range(4):
        added = api.chunk(session, f"rank-{number}.log", f"step {number}\n")
        covers = api.verdict(session)["covers"]
        assert added.body["ids"][0] in covers["chunks"]
        assert len(covers["chunks"]) == number + 1
        digests.add(covers["digest"])
    assert len(digests) == 4


def test_a_start_after_the_end_that_was_stated_is_refused(api: Api) -> None:
    session = api.session()
    end, after = {"end": "2023-03-06T22:05:20Z"}, {"start": "2023-03-06T22:06:00Z"}
    before = {"start": "2023-03-06T21:00:00Z"}
    where = f"/v1/sessions/{session}/statements"
    assert api.ask("POST", where, end).status == 201
    refused = api.ask("POST", where, after)
    assert refused.status == 409
    assert "cannot start at 2023-03-06T22:06:00Z and end at" in str(refused.body)
    told = [api.ask("POST", where, each).status for each in (before, before, end)]
    assert told == [201, 200, 200]


def test_the_same_chunk_again_is_no_news(api: Api) -> None:
    session = api.session()
    first = api.chunk(session, "train.log", "step 1\n")
    again = api.chunk(session, "train.log", "step 1\n")
    assert (first.status, again.status) == (201, 200)
    assert first.body["ids"] == again.body["ids"]
    assert again.body["is_new"] is False
    assert api.ask("GET", f"/v1/sessions/{session}").body["chunks"] == 1


def test_a_chunk_that_comes_late_changes_the_next_verdict(api: Api) -> None:
    session = api.session()
    api.chunk(session, "train.log", "step 1\nstep 2\n")
    before = api.verdict(session)
    assert before["verdict"]["failure_class"] == "unexplained_failure"
    late = (
        "Traceback (most recent call last):\n"
        '  File "/app/train.py", line 5, in <module>\n    main()\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    api.chunk(session, "train.log", late, offset=14)
    after = api.verdict(session)
    assert after["verdict"]["failure_class"] == "cuda_oom"
    assert after["covers"]["digest"] != before["covers"]["digest"]


def test_a_gap_is_told_and_lowers_what_the_verdict_covers(api: Api) -> None:
    session = api.session()
    api.chunk(session, "train.log", "step 1\n")
    api.chunk(session, "train.log", "step 9\n", offset=1000)
    covers = api.verdict(session)["covers"]
    assert not covers["is_complete"]
    assert [(each["uri"], each["start"], each["end"]) for each in covers["streams"]] == [
        ("train.log", 0, 7), ("train.log#bytes=1000-", 1000, 1007),
    ]  # fmt: skip
    assert covers["streams"][1]["reason"] == "993 bytes before byte 1000 did not come"


def test_a_chunk_that_contradicts_another_is_set_aside_whichever_came_first(api: Api) -> None:
    texts = ["step 1\nloss 0.5\n", "step 1\nloss 0.7\n"]
    answers = []
    for order in (texts, texts[::-1]):
        session = api.session()
        for text in order:
            assert api.chunk(session, "train.log", text).status == 201
        answer = api.verdict(session)
        answers.append(canonical_json([answer["covers"], answer["verdict"]]))
        (aside,) = answer["covers"]["set_aside"]
        assert aside["reason"] == "contradicts what another chunk says of bytes 0 and after"
        assert not answer["covers"]["is_complete"]
        assert "evidence_lost" in answer["verdict"]["quality"]["reasons"]
    assert answers[0] == answers[1]


def test_one_path_described_in_two_ways_is_two_streams(api: Api) -> None:
    session = api.session()
    api.chunk(session, "out.log", "step 1\n", rank=[0])
    api.chunk(session, "out.log", "step 2\n", rank=[1])
    streams = api.verdict(session)["covers"]["streams"]
    assert len({each["uri"] for each in streams}) == 2
    assert all(each["uri"].startswith("out.log~") for each in streams)


def test_an_upload_is_covered_when_its_bytes_are_there_and_told_as_pending_before(api: Api) -> None:
    session = api.session()
    data = b"step 1\n" * 1000
    sha256 = hashlib.sha256(data).hexdigest()
    body = {
        "stream": {"path": "big.log", "source": "applog"}, "bytes": len(data), "sha256": sha256,
    }  # fmt: skip
    told = api.ask("POST", f"/v1/sessions/{session}/uploads", body)
    assert told.status == 201
    assert told.body["headers"]["Content-Length"] == "7000"
    covers = api.verdict(session)["covers"]
    assert covers["pending"] == [
        {"chunk_id": told.body["chunk_id"], "path": "big.log", "bytes": 7000}
    ]
    assert (covers["chunks"], covers["is_complete"]) == ([], False)
    grant = api.uploads.grant(told.body["url"].removeprefix(api.uploads.address))
    api.uploads.put(grant, len(data), lambda write: write(data))
    covers = api.verdict(session)["covers"]
    assert (covers["pending"], covers["is_complete"]) == ([], True)
    assert covers["chunks"] == [told.body["chunk_id"]]


def test_a_large_stream_is_extracted_once_and_says_the_same_again(api: Api) -> None:
    session = api.session()
    line = "[rank3] step {} loss 1.5\n"
    text = "".join(line.format(number) for number in range(60_000))
    api.chunk(session, "train.log", text)
    first, second = api.verdict(session), api.verdict(session)
    assert canonical_json(first) == canonical_json(second)
    keys = [key for key, _ in api.uploads.store.list_objects("sessions/team-a/")]
    assert any(f"{session}/extracted-" in key for key in keys)


def test_a_chunk_beyond_the_limit_is_sent_to_uploads(api: Api) -> None:
    session = api.session()
    told = api.chunk(session, "big.log", "é" * (2 * 1024**2 + 1))
    assert told.status == 413
    assert "/uploads" in told.body["todo"]


def test_observations_of_other_rules_are_dropped_and_told(api: Api) -> None:
    session = api.session()
    strange = {**OBSERVATION, "extraction_digest": f"sha256:{'0' * 64}"}
    unknown = {**OBSERVATION, "symptom": "made_up_symptom"}
    body = {"observations": [strange, unknown]}
    told = api.ask("POST", f"/v1/sessions/{session}/observations", body)
    assert told.status == 201
    answer = api.verdict(session)
    assert sorted(answer["covers"]["observations"]) == sorted(told.body["ids"])
    assert "evidence_lost" in answer["verdict"]["quality"]["reasons"]
    assert answer["verdict"]["failure_class"] == "unexplained_failure"


def test_secrets_in_what_callers_send_reach_no_verdict(api: Api) -> None:
    session = api.session()
    secret = "hf_" + "A" * 34
    first = {**OBSERVATION["first"], "text": f"CUDA out of memory token={secret}"}  # type: ignore[dict-item]
    body = {"observations": [{**OBSERVATION, "first": first}]}
    api.ask("POST", f"/v1/sessions/{session}/observations", body)
    assert secret not in str(api.verdict(session))


def test_an_idempotency_key_opens_one_session(api: Api) -> None:
    def open_with(key: str, job: str, role: str = "team-a") -> Any:
        workload = {"scheduler": "slurm", "job_id": job}
        return api.ask(
            "POST", "/v1/sessions", {"workload": workload}, role=role,
            headers={"idempotency-key": key},
        )  # fmt: skip

    first, again = open_with("key-00001", "1"), open_with("key-00001", "1")
    assert (first.status, again.status) == (201, 201)
    assert first.body["session_id"] == again.body["session_id"]
    assert open_with("key-00002", "1").body["session_id"] != first.body["session_id"]
    assert open_with("key-00001", "2").status == 422
    other = open_with("key-00001", "1", role="team-b")
    assert other.body["session_id"] != first.body["session_id"]


def test_another_ruleset_is_named_or_refused(api: Api) -> None:
    session = api.session()
    assert api.verdict(session)["ruleset"]["name"] == "site"
    released = api.verdict(session, query="ruleset=release")
    assert released["ruleset"]["name"] == "release"
    told = api.ask("GET", f"/v1/sessions/{session}/verdict", query="ruleset=candidate")
    assert told.status == 422
    assert "rules/candidate/" in told.body["todo"]
