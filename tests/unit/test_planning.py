from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.evidence_request import EvidenceRequest
from engine.model.plan import MAX_ITEMS
from engine.model.workload import EvidenceSource, Workload
from functions.scope.planning import RuleDigests, make_plan, windows_of
from functions.scope.scoping import within_payload

DIGESTS = RuleDigests("1.0.0", "sha256:e", "sha256:r")
WORKLOAD = Workload.model_validate(
    {
        "scheduler": "slurm", "job_id": "7", "state": "FAILED", "attempt": 0,
        "start": "2025-01-01T00:00:00Z", "end": "2025-01-01T10:00:00Z",
    }
)  # fmt: skip


def entry(path, source="applog", **more):
    return EvidenceSource.model_validate({"path": path, "source": source, **more})


def plan(entries, **more):
    return make_plan(WORKLOAD, entries, digests=DIGESTS, **more)


def test_the_tail_reaches_back_beyond_the_longest_timer_and_past_the_end():
    windows = {window.name: (window.start, window.end) for window in windows_of(WORKLOAD)}
    assert windows == {
        "startup": ("2024-12-31T23:50:00Z", "2025-01-01T00:30:00Z"),
        "tail": ("2025-01-01T09:20:00Z", "2025-01-01T10:05:00Z"),
        "whole": ("2025-01-01T00:00:00Z", "2025-01-01T10:00:00Z"),
        "history": ("2024-12-31T00:00:00Z", "2024-12-31T23:50:00Z"),
    }


def test_a_lost_nodes_tail_waits_for_its_detection():
    lost = WORKLOAD.model_copy(update={"state": "NODE_FAIL"})
    tail = next(window for window in windows_of(lost) if window.name == "tail")
    assert tail.end == "2025-01-01T10:15:00Z"


def test_a_job_that_still_runs_has_open_windows():
    running = WORKLOAD.model_copy(update={"end": None})
    tail = next(window for window in windows_of(running) if window.name == "tail")
    assert (tail.start, tail.end) == (None, None)


def test_every_plan_reads_the_schedulers_own_words_first():
    assert [item.connector for item in plan([]).items] == ["workload"]


def test_sources_go_to_items_of_their_own():
    items = plan([entry("a"), entry("b", "syslog"), entry("c")]).items[1:]
    assert [(item.source, [each.path for each in item.evidence]) for item in items] == [
        ("applog", ["a", "c"]),
        ("syslog", ["b"]),
    ]


def test_ten_thousand_files_of_a_template_fit_into_the_ceiling():
    sizes = {f"rank-{rank}.log": 64 * 1024**2 for rank in range(10_000)}
    made = plan([entry("rank-{rank}.log")], sizes=sizes)
    assert 100 < len(made.items) <= MAX_ITEMS
    paths = [each.path for item in made.items for each in item.evidence]
    assert sorted(paths) == sorted(sizes)
    loads = [sum(sizes[each.path] for each in item.evidence) for item in made.items[1:]]
    assert max(loads) - min(loads) <= 64 * 1024**2


def test_small_files_share_one_item():
    made = plan([entry("*.log")], sizes={f"{at}.log": 1000 for at in range(300)})
    assert len(made.items) == 2


def test_what_matches_no_file_stays_in_the_plan_and_is_told():
    made = plan([entry("gone.log")], sizes={"a": 1})
    assert made.notes == ("gone.log: matches no file",)
    assert made.items[1].evidence[0].path == "gone.log"


def test_a_second_collection_reads_only_what_was_asked_for():
    request = EvidenceRequest(source="syslog", entities=("n2",), why="rule out a device fault")
    entries = [entry("a"), entry("n1", "syslog", node="n1"), entry("n2", "syslog", node="n2")]
    made = plan(entries, collection=2, requests=(request,))
    assert [[each.path for each in item.evidence] for item in made.items] == [["n2"]]
    assert made.items[0].request == request


def test_a_request_that_nothing_answers_is_noted():
    request = EvidenceRequest(source="metrics", entities=("n2",), why="x")
    assert plan([entry("a")], requests=(request,)).notes == ("no metrics evidence for n2",)


@settings(max_examples=50, deadline=None)
@given(st.permutations(["a", "b", "c", "d"]), st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_evidence_changes_no_byte(one, two):
    sizes = {"a": 5, "b": 500 * 1024**2, "c": 300 * 1024**2, "d": 7}
    first, second = (plan([entry(path) for path in paths], sizes=sizes) for paths in (one, two))
    assert first.model_dump_json() == second.model_dump_json()


def test_what_a_child_is_handed_fits_into_its_payload():
    entries = [entry(f"ranks/rank-{rank:05d}.log", rank=[rank]) for rank in range(10_000)]
    sizes = {each.path: 20_000 for each in entries}
    made = plan(entries, sizes=sizes)
    texts = [len(item.model_dump_json(exclude_unset=True)) for item in made.items]
    assert max(texts) < 240_000
    assert 8 <= len(texts) <= 40
    named = [each.path for item in made.items for each in item.evidence]
    assert sorted(named) == sorted(sizes)


def test_more_files_than_a_plan_can_name_are_left_out_and_told():
    files = tuple(entry(f"{number:05d}-{'x' * 900}.log") for number in range(300))
    item = plan([files[0]]).items[1].model_copy(update={"evidence": files})
    (cut,), (note,) = within_payload([item])
    assert len(cut.model_dump_json(exclude_unset=True)) <= 240_000
    assert 0 < len(cut.evidence) < 300
    assert (
        note == f"unread: {300 - len(cut.evidence)} applog files are beyond what one plan can name"
    )


def test_a_thousand_nodes_and_ten_days_are_one_plan_of_few_items():
    nodes = [f"node-{number:04d}" for number in range(1000)]
    long = WORKLOAD.model_copy(
        update={"nodes": tuple(nodes), "start": WORKLOAD.end - timedelta(days=10)}
    )
    entries = [entry(f"{node}/messages", source="syslog", node=[node]) for node in nodes]
    sizes = {each.path: 40 * 1024**2 for each in entries}
    made = make_plan(long, entries, digests=DIGESTS, sizes=sizes)
    assert len(made.items) <= 200
    busiest = max(sum(sizes[each.path] for each in item.evidence) for item in made.items)
    assert busiest <= 2 * 256 * 1024**2
    tail = next(window for window in made.windows if window.name == "tail")
    assert tail.start is not None
