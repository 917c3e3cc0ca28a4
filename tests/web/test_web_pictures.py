"""Pictures: what stands where, and that nothing odd breaks them."""

import re
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_samples import bare, entity, full, huge, symptom

from engine.model.verdict import Verdict, seal
from functions.query.difference import compare
from functions.query.graph_picture import graph_picture
from functions.query.plain import clean, duration, short, size
from functions.query.time_axis import BREAK_PX, TimeAxis
from functions.query.timeline_picture import timeline_picture

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def with_symptoms(*symptoms: dict[str, Any], **more: Any) -> Verdict:
    fields = full().model_dump(mode="json") | {"symptoms": list(symptoms), "timeline": []}
    return seal(fields | more)


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=40, unique=True))
def test_later_is_further_right_and_everything_is_inside(seconds: list[int]) -> None:
    times = [NOON + timedelta(seconds=each) for each in sorted(seconds)]
    axis = TimeAxis(times, left=100, right=900)
    places = [axis.x(each) for each in times]
    assert places[0] == pytest.approx(100)
    assert places[-1] == pytest.approx(900)
    assert all(a < b for a, b in pairwise(places))
    assert len(axis.breaks) <= 3
    ticks = axis.ticks(100)
    assert all(b[0] - a[0] >= 100 for a, b in pairwise(ticks))


def test_a_long_empty_stretch_is_cut_out_and_told() -> None:
    times = [NOON, NOON + timedelta(days=2), NOON + timedelta(days=2, seconds=50)]
    axis = TimeAxis(times, left=0, right=1000)
    (cut,) = axis.breaks
    assert cut.lasted == timedelta(days=2)
    assert cut.right - cut.left == BREAK_PX
    assert axis.x(times[2]) - axis.x(times[1]) > 900


def test_a_stretch_is_not_cut_out_where_less_than_two_seconds_would_be_left() -> None:
    end = NOON + timedelta(hours=7, minutes=47)
    axis = TimeAxis([NOON, end, end + timedelta(microseconds=999_999)], left=172, right=1058)
    assert axis.breaks == []
    assert axis.x(end) > 1040


def texts(picture: str) -> list[tuple[str, float, float, float]]:
    """Each text of a picture with its left and right end and its height on the page."""
    found = []
    for each in ElementTree.fromstring(picture).iter("text"):
        told, x = (each.text or ""), float(each.get("x", "0"))
        width = len(told) * 6.0
        shift = {"end": width, "middle": width / 2}.get(each.get("text-anchor", ""), 0.0)
        found.append((told, x - shift, x - shift + width, float(each.get("y", "0"))))
    return found


@pytest.mark.parametrize(
    ("start", "end", "seen"),
    [
        ("2023-03-05T19:30:10Z", "2023-03-06T03:17:51Z", "2023-03-06T03:17:51.999999Z"),
        ("2023-03-05T19:30:10Z", "2023-03-06T03:17:51Z", "2023-03-06T03:27:51Z"),
        ("2023-03-06T03:17:49Z", "2023-03-06T03:17:51Z", "2023-03-01T00:00:00Z"),
        ("2023-03-06T03:17:51Z", "2023-03-06T03:17:51Z", "2023-03-01T00:00:00Z"),
        ("2023-03-06T03:17:51Z", "2023-03-06T03:17:53Z", "2023-03-09T00:00:00Z"),
        ("2023-03-05T19:30:10Z", None, "2023-03-06T03:17:51Z"),
    ],
)
def test_no_text_of_a_timeline_covers_another_wherever_the_job_starts_and_ends(
    start: str, end: str | None, seen: str
) -> None:
    job = full().workload.model_dump(mode="json") | {"start": start, "end": end}
    one = symptom(
        1, "gpu_fallen_off_bus", "root", of=entity("node", "node-003", "node-003"),
        first_seen=seen, last_seen=seen,
    )  # fmt: skip
    picture = str(timeline_picture(with_symptoms(one, workload=job, progress={})))
    for first, second in combinations(texts(picture), 2):
        is_apart = first[2] <= second[1] or second[2] <= first[1] or abs(first[3] - second[3]) > 10
        assert is_apart, (first, second)
    assert all(left >= 0 and right <= 1080 for _, left, right, _ in texts(picture))
    names = " ".join(told for told, *_ in texts(picture))
    assert "start" in names
    assert ("end: FAILED" in names) == (end is not None)


def test_each_role_has_a_shape_of_its_own() -> None:
    picture = str(timeline_picture(full()))
    shapes = {
        role: re.sub(r"[-\d. ]+", "", re.search(rf'mark {role}">.*?<path d="([^"]+)"', picture)[1])
        for role in ("root", "contributing", "downstream", "teardown")
    }  # type: ignore[index]
    assert len(set(shapes.values())) == 4


def test_nodes_beyond_a_dozen_share_a_row_that_counts_them() -> None:
    picture = str(timeline_picture(huge()))
    rows = re.findall(r'class="row(?: [^"]*)?">([^<]+)', picture)
    assert len(rows) == 13
    assert rows[0] == "job"
    assert rows[1] == "node-003"
    assert rows[-1] == "9997 more"
    assert len(picture) < 100_000


def test_a_symptom_that_is_known_no_better_than_a_stretch_is_drawn_as_one() -> None:
    loose = symptom(
        1, "gpu_fallen_off_bus", "root", of=entity("node", "node-003", "node-003"),
        first_seen="2026-01-30T02:00:00Z", last_seen="2026-01-31T12:00:00Z",
    )  # fmt: skip
    picture = str(timeline_picture(with_symptoms(loose)))
    assert 'class="unsure"' in picture
    assert "not before 2026-01-30 02:00:00" in picture


def test_without_any_time_there_is_no_timeline_and_without_a_chain_no_graph() -> None:
    assert timeline_picture(bare()) is None
    assert graph_picture(bare()) is None


def test_a_circle_of_symptoms_is_drawn_once() -> None:
    node = entity("node", "node-003", "node-003")
    picture = graph_picture(
        with_symptoms(
            symptom(1, "gpu_fallen_off_bus", "root", of=node),
            symptom(2, "one", "downstream", of=node, caused_by=["ep-1", "ep-3"]),
            symptom(3, "other", "downstream", of=node, caused_by=["ep-2"]),
        )
    )
    assert picture is not None
    root = ElementTree.fromstring(str(picture))
    boxes = [each for each in root.iter("g") if "box" in each.get("class", "")]
    assert len(boxes) == 3
    corners = {(box[0].get("x"), box[0].get("y")) for box in boxes}
    assert len(corners) == 3


def test_a_shortcut_is_left_out_where_a_longer_way_says_the_same() -> None:
    node = entity("node", "node-003", "node-003")
    picture = graph_picture(
        with_symptoms(
            symptom(1, "gpu_fallen_off_bus", "root", of=node),
            symptom(2, "one", "downstream", of=node, caused_by=["ep-1"]),
            symptom(3, "other", "downstream", of=node, caused_by=["ep-1", "ep-2"]),
        )
    )
    assert str(picture).count('class="link"') == 2


def test_a_description_tells_what_the_picture_shows() -> None:
    picture = ElementTree.fromstring(str(timeline_picture(full())))
    title, description = picture[0].text or "", picture[1].text or ""
    assert title == "Timeline of job 410050"
    assert "It began with A GPU has fallen off the bus on node-003" in description
    assert "It spread to 8 nodes" in description
    assert "no step was seen for 31 minutes" in description


@given(st.text(max_size=300))
def test_cleaned_text_holds_nothing_invisible_and_is_stable(text: str) -> None:
    shown = clean(text)
    assert all(char == "\n" or char.isprintable() or char.isspace() for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2068\u200b\u200e\u200f")
    assert clean(shown) == shown


def test_long_lines_and_texts_are_cut_and_say_so() -> None:
    assert clean("a" * 20_000, 5_000).endswith("… 15,000 more characters")
    assert "… 800 more characters in this line" in clean("b" * 2_000)
    assert short("one\ntwo\tthree", 9) == "one two…"
    assert clean("Z\u0301\u0302\u0303\u0304") == "Z\u0301\u0302"
    assert clean("مرحبا 你好") == "مرحبا 你好"


def test_durations_and_sizes_read_as_people_say_them() -> None:
    told = [duration(timedelta(seconds=each)) for each in (0.25, 7, 250, 3_600, 187_200)]
    assert told == ["0.250 s", "7 s", "4 min 10 s", "1 h", "2 d 4 h"]
    assert [size(each) for each in (0, 1_000, 1_572_864)] == ["0 B", "1000 B", "1.5 MiB"]


def test_a_difference_names_the_fields_and_cuts_what_is_endless() -> None:
    before, after = full(), full(summary="Something else.\n" * 400, domain="network")
    changes = {each.name: each for each in compare(before, after)}
    assert list(changes) == ["summary", "domain"]
    assert changes["domain"].lines == (("-", "gpu"), ("+", "network"))
    assert len(changes["summary"].lines) == 300
    assert changes["summary"].omitted == 101
    assert compare(before, before) == []
