"""The contract documents: schemas, canonical bytes, digests, tolerant and strict reading."""

from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model.canonical import canonical_json, digest, short_id
from engine.model.contract import UnknownMajorVersionError
from engine.model.envelope import Envelope, read_envelope
from engine.model.identity import attempt_key, execution_name
from engine.model.moment import UnknownTimezoneError, parse_rfc3339, rfc3339, to_us, zone
from engine.model.observation import (
    Entity,
    Observation,
    Origin,
    Sample,
    Sharing,
    StreamSummary,
    When,
    decode,
    encode,
)
from engine.model.schemas import DOCUMENTS, schema_of, schema_text
from engine.model.verdict import Verdict, is_sealed, read_verdict, seal
from engine.model.workload import Bundle, Workload, parse_time_limit

SCHEMAS = Path(__file__).parents[2] / "events" / "schemas"

CLEAN = {
    "workload": {"scheduler": "slurm", "cluster": "c", "tenant": "t", "job_id": "1"},
    "terminal_state": "completed",
    "manifestation": "none",
    "domain": "none",
    "failure_class": "no_failure",
    "quality": {"level": "definitive"},
    "summary": "The job finished.",
    "rules": {"version": "1.0.0", "extraction_digest": "a", "reasoning_digest": "b"},
}


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_committed_schema_equals_the_model(name: str) -> None:
    committed = (SCHEMAS / f"{name}.json").read_text(encoding="utf-8")
    assert committed == schema_text(name), "run `make schemas` and commit the result"


def test_no_schema_file_is_left_over() -> None:
    assert sorted(path.stem for path in SCHEMAS.glob("*.json")) == sorted(DOCUMENTS)


def test_a_sealed_verdict_validates_against_the_published_schema() -> None:
    verdict = seal(CLEAN).model_dump(mode="json")
    jsonschema.validate(verdict, schema_of("verdict-v1"))
    verdict["a_field_of_tomorrow"] = 1
    jsonschema.validate(verdict, schema_of("verdict-v1"))


def test_attribution_id_covers_everything_else() -> None:
    verdict = seal(CLEAN)
    assert is_sealed(verdict)
    assert not is_sealed(verdict.model_copy(update={"summary": "Something else."}))


def test_readers_ignore_unknown_keys_and_refuse_an_unknown_major() -> None:
    document = seal(CLEAN).model_dump(mode="json")
    assert read_verdict({**document, "new": 1}) == Verdict.model_validate(document)
    with pytest.raises(UnknownMajorVersionError, match=r"reads 1\.x"):
        read_verdict({**document, "schema_version": "2.0"})


def test_an_envelope_of_another_major_is_refused() -> None:
    envelope = Envelope(
        attempt_key="k",
        revision=1,
        status="final",
        published_at="2026-01-01T00:00:00Z",
        manifest_digest="d",
        verdict=seal(CLEAN),
    ).model_dump(mode="json")
    assert read_envelope(envelope).revision == 1
    with pytest.raises(UnknownMajorVersionError):
        read_envelope({**envelope, "schema_version": "attribution/v2"})


def test_canonical_json_sorts_keys_and_refuses_floats() -> None:
    assert canonical_json({"b": [1, None], "a": "é"}) == '{"a":"é","b":[1,null]}'.encode()
    with pytest.raises(TypeError, match=r"\$\.x\[1\]"):
        canonical_json({"x": [1, 0.5]})


@given(st.dictionaries(st.text(), st.integers(-(2**50), 2**50)))
def test_digest_does_not_depend_on_key_order(value: dict[str, int]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))


def test_short_id_separates_its_parts() -> None:
    assert short_id("e", "ab", "c") != short_id("e", "a", "bc")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2-00:00:00", 172800), ("04:30:00", 16200), ("30:00", 1800), ("3600", 3600),
        ("1-12", 129600), ("UNLIMITED", None), (None, None),
    ],
)  # fmt: skip
def test_time_limits_are_read_in_slurm_notation_or_seconds(
    text: str | None, seconds: int | None
) -> None:
    assert parse_time_limit(text) == seconds


def test_a_bad_time_limit_names_itself() -> None:
    with pytest.raises(ValueError, match="tomorrow"):
        Workload(scheduler="slurm", job_id="1", time_limit="tomorrow")


def test_times_without_offset_are_read_in_the_given_zone() -> None:
    workload = Workload.model_validate(
        {
            "scheduler": "slurm",
            "job_id": "1",
            "timezone": "Europe/Paris",
            "start": "2025-07-08T15:00:00",
            "end": "2025-07-08T15:00:00Z",
        }
    )
    assert workload.start is not None
    assert workload.end is not None
    assert rfc3339(to_us(workload.start)) == "2025-07-08T13:00:00Z"
    assert rfc3339(to_us(workload.end)) == "2025-07-08T15:00:00Z"


def test_an_unknown_zone_is_an_error_with_a_remedy() -> None:
    with pytest.raises(UnknownTimezoneError, match="IANA name"):
        zone("Mars/Olympus")


def test_microseconds_survive_the_text_form() -> None:
    assert rfc3339(to_us(parse_rfc3339("2025-01-01T00:00:00.120001Z"))) == (
        "2025-01-01T00:00:00.120001Z"
    )


def test_a_bundle_ignores_keys_of_tomorrow_and_lists_single_nodes() -> None:
    bundle = Bundle.model_validate(
        {
            "workload": {"scheduler": "slurm", "job_id": 7, "nodes": "n1", "later": "x"},
            "evidence": [{"path": "a.log", "source": "applog", "rank": "3"}],
        }
    )
    assert bundle.workload.job_id == "7"
    assert bundle.workload.nodes == ("n1",)
    assert bundle.evidence[0].rank == (3,)


def test_the_state_is_no_part_of_an_attempt_key() -> None:
    failed = Workload(scheduler="slurm", job_id="77_3", attempt=1, state="FAILED")
    lost = Workload(scheduler="slurm", job_id="77_3", attempt=1, state="NODE_FAIL")
    assert attempt_key(failed) == attempt_key(lost) == "default/default/slurm/77_3/r1"


def test_without_a_restart_count_the_start_time_tells_attempts_apart() -> None:
    first = Workload.model_validate(
        {"scheduler": "slurm", "job_id": "7", "start": "2025-01-01T00:00:00Z"}
    )
    assert attempt_key(first).endswith("/t1735689600")


@given(st.text(min_size=1, max_size=30), st.text(min_size=1, max_size=30))
def test_an_attempt_key_has_five_parts_whatever_the_job_is_called(tenant: str, job: str) -> None:
    key = attempt_key(Workload(scheduler="s", tenant=tenant, job_id=job, attempt=0))
    assert key.count("/") == 4
    assert ".." not in key.split("/")


def test_execution_names_fit_step_functions() -> None:
    assert len(execution_name("x" * 1000, 12)) <= 80


def _observation(text: str) -> Observation:
    sample = Sample(Origin("a.log", 1, 0, len(text)), When(1, 2, "stamp", "n1"), text)
    return Observation(
        "match", "s", "r/s", "applog", "static", "workload", "a.log", Entity(node="n1"),
        When(1, 2, "stamp", "n1"), 1, sample, sample, (sample,), {"code": "79"}, ("code",),
    )  # fmt: skip


def test_observations_and_summaries_travel_as_json_lines() -> None:
    summary = StreamSummary(
        "a.log", "applog", "static", "workload", "n1", (0,), 1, 2, When(), When()
    )
    data = encode([_observation("x"), summary])
    assert decode(data) == ([_observation("x")], [summary], [])


def test_shards_read_with_one_sharing_hold_equal_parts_once() -> None:
    fields = {"code": "79", "name": "x"}
    first = replace(_observation("x"), fields=fields, entity=Entity(node="node-1", rank=3))
    second = replace(first, symptom="y", count=2, samples=(first.first,))
    sharing = Sharing()
    (one,), _, _ = decode(encode([first]), sharing)
    (other,), _, _ = decode(encode([second]), sharing)
    assert [one, other] == [first, second]
    assert one.entity is other.entity
    assert one.fields is other.fields
    assert other.samples[0] is other.first is other.last


def test_a_poisoned_line_loses_only_itself() -> None:
    data = encode([_observation("x")]) + b'{"kind":"match","count":"many"}\n\xff\n'
    observations, _, errors = decode(data + encode([_observation("y")]))
    assert [item.first.text for item in observations] == ["x", "y"]
    assert [error.split(":")[0] for error in errors] == ["line 2", "line 3"]
