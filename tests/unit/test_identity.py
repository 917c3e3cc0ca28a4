from engine.model.identity import attempt_key
from engine.model.workload import Workload


def test_a_job_id_of_many_wide_characters_still_fits_a_key():
    first = attempt_key(Workload(scheduler="x", job_id="\u4e2d" * 256))
    second = attempt_key(Workload(scheduler="x", job_id="\u4e2d" * 255 + "a"))
    assert len(first) < 400
    assert first != second
