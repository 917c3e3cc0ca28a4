"""JSON can name half a character; nothing that is stored can hold one."""

import json

from tests.unit.reading import facts, read

TRAINING = (
    r'{"TrainingJobName": "x", "TrainingJobStatus": "Failed",'
    r' "FailureReason": "AlgorithmError: \ud800 and \ud83d\ude00"}'
)


def test_half_a_character_becomes_a_mark_and_a_whole_one_stays() -> None:
    for text in (TRAINING, json.dumps(json.loads(TRAINING), indent=1)):
        found = read("scheduler", text, job_id="x", scheduler="sagemaker")
        told = " ".join(facts(found))
        assert "AlgorithmError: ? and \U0001f600" in told
        told.encode()
