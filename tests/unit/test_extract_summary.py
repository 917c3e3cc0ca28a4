"""What the silence of a stream means."""

import pytest

from engine.model.observation import StreamSummary
from tests.unit.extract_fixtures import extract, label


def summaries(data: str, **more: object) -> dict[str, StreamSummary]:
    return {item.stream: item for item in extract(data, label(**more)).summaries}


def test_first_last_text_and_the_largest_gap_are_told() -> None:
    told = summaries(
        "2025-06-26 06:00:00,000 a\n2025-06-26 06:00:01,000 b\n2025-06-26 06:10:01,000 c\nlast\n\n"
    )["job.log"]
    assert (told.lines, told.last_text, told.largest_gap_us) == (5, "last", 600_000_000)
    assert told.first.earliest_us == 1_750_917_600_000_000
    assert told.last.earliest_us == 1_750_918_201_000_000
    assert told.flags == ()


def test_the_largest_gap_is_one_that_the_job_came_back_from() -> None:
    told = summaries(
        "2025-06-26 06:00:00 step 1\n2025-06-26 06:05:00 step 2\n2025-06-26 07:05:00 waiting\n"
    )["job.log"]
    assert told.largest_gap_us == 300_000_000


@pytest.mark.parametrize(
    ("lines", "first", "last"),
    [
        (["step 123 loss 1", "step 124 loss 1"], 123, 124),
        (["iteration:  2400/500000   0% | x", "iteration:  2425/500000   0% | x"], 2400, 2425),
        (["[epoch:  0, iter:     800, lr:1]", "[epoch:  0, iter:   1,", "x"], 800, 1),
        (["Epoch 10:  93%|###| 18540/20000 [5:41:00<25:59]"], 18540, 18540),
        (["epoch 12 step 20400 loss -4.0", "epoch 12 step 20401 loss"], 20400, 20401),
        (["global_step=7", "global_step=9"], 7, 9),
        (["Epoch [7][650/1487]\tlr: 1", "Epoch [7][700/1487]\tlr: 1"], 650, 700),
        (["slurmstepd: error: *** STEP 410036.0 ON n1 CANCELLED ***"], None, None),
        (["# step: 2(factor) warmup iters"], None, None),
    ],
)
def test_progress_is_read_in_every_form(
    lines: list[str], first: int | None, last: int | None
) -> None:
    told = summaries("\n".join(lines))["job.log"]
    assert (told.first_step, told.last_step) == (first, last)


def test_a_loss_line_is_progress_without_a_number() -> None:
    told = summaries("2025-06-26 06:00:00,000 x\n{'loss': 1.2, 'grad_norm': 0.1}\n")["job.log"]
    assert told.last_step is None
    assert told.last_step_when.earliest_us == 1_750_917_600_000_000


def test_each_rank_of_a_merged_log_has_its_own_summary() -> None:
    told = summaries("[rank0]: step 5\n[rank1]: step 4\n[rank0]: step 6\n", ranks=(0, 1))
    assert sorted(told) == ["job.log", "job.log#rank=0", "job.log#rank=1"]
    assert (told["job.log#rank=0"].last_step, told["job.log#rank=0"].lines) == (6, 2)
    assert (told["job.log#rank=1"].last_step, told["job.log"].ranks) == (4, (0, 1))


def test_a_stream_of_one_rank_has_one_summary() -> None:
    assert list(summaries("[rank3]: step 5\n", ranks=(3,))) == ["job.log"]


def test_the_last_line_of_a_rank_far_before_the_end_is_found() -> None:
    filler = "".join(f"[rank0]: step {n}\n" for n in range(6000))
    told = summaries("[rank1]: hello\n" + filler[:50_000] + "[rank1]: bye\n" + filler)
    assert told["job.log#rank=1"].last_text == "[rank1]: bye"


def test_a_stream_too_large_to_look_at_every_line_says_so() -> None:
    told = summaries("".join(f"step {n} {'x' * 80}\n" for n in range(9000)))["job.log"]
    assert told.flags == ("sampled",)
    assert (told.first_step, told.last_step, told.lines) == (0, 8999, 9000)


def test_the_first_steps_own_stamp_is_kept_apart_from_the_streams_first() -> None:
    data = (
        "2025-06-26 06:00:00 INFO starting\n"
        "2025-06-26 06:05:00 INFO step 1/100 loss 1.0\n"
        "2025-06-26 06:05:01 INFO step 2/100 loss 1.0\n"
    )
    told = summaries(data)["job.log"]
    assert told.first_step_when.earliest_us == 1_750_917_900_000_000
    assert told.first.earliest_us == 1_750_917_600_000_000


def test_the_place_of_the_last_step_is_told_where_no_later_one_can_have_been_missed():
    noise = b"x" * 99 + b"\n"
    short = b"step=1\n" + noise * 3 + b"step=2\n" + noise
    assert extract(short).summaries[0].last_step_offset == 7 + 300
    long = b"step=1\n" + noise * 20_000
    assert extract(long).summaries[0].last_step_offset is None
    ends = noise * 20_000 + b"step=2\n" + noise
    assert extract(ends).summaries[0].last_step_offset == 2_000_000
