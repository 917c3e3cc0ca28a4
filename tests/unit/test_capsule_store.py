"""Capsules of an item: shared out, packed, written once, and never worth an item's failure."""

from typing import Any

import boto3
import pytest
from moto import mock_aws
from msgspec.structs import replace

from connectors.protocol import ConnectorError, TransientError
from engine.extract.capsule import CapsuleStream, KeptFact
from engine.extract.scanner import build_scanner
from engine.model.observation import Entity, Origin, StreamSummary, When
from engine.model.plan import PlanItem, Report
from engine.model.stream import StreamLabel
from engine.model.workload import EvidenceSource, Workload
from engine.rulebook.book import Rulebook
from functions.adapters.keys import capsules_key, lifetime_tag, plan_key
from functions.adapters.object_store import ObjectConflictError, ObjectStore
from functions.adapters.settings import read_settings
from functions.collect.capsules import (
    ATTEMPT_BYTES,
    ITEM_BYTES,
    CapsulePacker,
    item_bytes,
    kept_lines,
    read_capsules,
    store_capsules,
)
from functions.collect.handover import HandOverTask, make_hand_over
from functions.collect.running import CollectTask, Running
from functions.scope.planning import RuleDigests, make_plan

KIB = 1 << 10
REPORT = Report(
    item_id="i1", connector="static", shard="s", status="ok", lines=9, extraction_digest="d"
)


def stream(size: int, *, is_whole: bool = True) -> CapsuleStream:
    label = StreamLabel("a.log", "applog", "workload")
    return CapsuleStream(label, 9, 1, is_whole, runs=(((1, 0, size, "x" * (size - 24)),),))


class Store:
    """A bucket that fails as it is told."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.objects: dict[str, bytes] = {}

    def put_once(self, key: str, body: bytes, *, content_type: str) -> None:
        if self.error is not None:
            raise self.error
        self.objects[key] = body


def test_a_plan_of_any_size_keeps_no_more_than_an_attempt_may() -> None:
    assert item_bytes(1) == ITEM_BYTES
    assert item_bytes(200) * 200 <= ATTEMPT_BYTES


def test_streams_share_what_is_left_and_small_ones_leave_theirs_to_the_rest() -> None:
    packer = CapsulePacker(600 * KIB, 4)
    assert packer.share() == 150 * KIB
    packer.take(stream(30 * KIB))
    assert packer.share() == 190 * KIB
    packer.take(None)
    assert packer.share() == 256 * KIB
    packer.take(stream(256 * KIB))
    packer.take(stream(256 * KIB))
    assert packer.share() == 58 * KIB


def test_an_item_of_unknown_size_leaves_something_for_later_streams() -> None:
    packer = CapsulePacker(1024 * KIB, 0)
    for _ in range(50):
        packer.take(stream(packer.share()) if packer.share() > 24 else None)
    assert 0 <= packer.share() < 4 * KIB


def test_summaries_of_ranks_count_too_and_give_way_where_nothing_is_left() -> None:
    summary = StreamSummary("a.log", "applog", "c", "workload", "", (), 1, 1, When(), When())
    ranks = replace(stream(100), summaries=(summary,) * 1_000)
    packer = CapsulePacker(800 * KIB, 2)
    packer.take(ranks)
    packer.take(ranks)
    streams, _ = read_capsules(packer.body(REPORT))
    assert [len(each.summaries) for each in streams] == [1_000, 1]
    assert [each.is_whole for each in streams] == [True, False]


def test_what_is_packed_is_read_again_with_the_report() -> None:
    packer = CapsulePacker(ITEM_BYTES, 2)
    streams = [stream(100), stream(200, is_whole=False)]
    for each in streams:
        packer.take(each)
    assert read_capsules(packer.body(REPORT)) == (streams, REPORT)
    assert kept_lines(streams) == (1, 9)


def test_pieces_of_one_long_line_count_as_one() -> None:
    label = StreamLabel("a.log", "applog", "workload")
    runs = (((1, 0, 9, "x"), (1, 10, 9, "y"), (2, 20, 9, "z")),)
    assert kept_lines([CapsuleStream(label, 5, 900, False, runs=runs)]) == (2, 5)


def test_half_a_character_in_a_record_costs_that_character_and_nothing_else() -> None:
    fact = KeptFact(
        'slurm.job id=1 name="\ud800"', Origin("a", 1, 0, 9), '"\ud800"', When(), Entity()
    )
    packer = CapsulePacker(4096, 1)
    packer.take(CapsuleStream(StreamLabel("a", "scheduler", "platform"), 1, 9, True, facts=(fact,)))
    streams, _ = read_capsules(packer.body(REPORT))
    assert [each.text for each in streams[0].facts] == ['slurm.job id=1 name="?"']


def test_without_a_stream_there_is_nothing_to_store() -> None:
    packer = CapsulePacker(ITEM_BYTES, 1)
    packer.take(None)
    assert packer.body(REPORT) == b""


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_damaged_object_is_told_and_nothing_else(cut: int) -> None:
    packer = CapsulePacker(ITEM_BYTES, 1)
    packer.take(stream(100))
    body = packer.body(REPORT)
    with pytest.raises(ValueError):
        read_capsules(body[:cut])
    with pytest.raises(ValueError):
        read_capsules(b"garbage" + body)


def test_the_first_writer_stands() -> None:
    store: Any = Store(ObjectConflictError("other bytes"))
    assert store_capsules(store, "k", b"late", is_patient=True) is None


def test_trouble_is_told_where_nothing_is_tried_again() -> None:
    busy: Any = Store(TransientError("busy"))
    with pytest.raises(TransientError):
        store_capsules(busy, "k", b"x", is_patient=True)
    assert store_capsules(busy, "k", b"x", is_patient=False) == "no capsules were stored: busy"
    refused: Any = Store(ConnectorError("no right"))
    assert "no right" in (store_capsules(refused, "k", b"x", is_patient=True) or "")
    fine: Any = Store()
    assert store_capsules(fine, "k", b"x", is_patient=True) is None
    assert fine.objects == {"k": b"x"}


def test_a_stack_that_keeps_no_capsules_stores_and_asks_for_none() -> None:
    item = PlanItem(
        item_id="i-1", connector="static", shard="s", source="applog",
        base_uri="s3://our-bucket/bundles/x/",
        evidence=(EvidenceSource(path="a.log", source="applog"),),
    )  # fmt: skip
    workload = Workload(scheduler="slurm", job_id="1")
    book = Rulebook("1", "sha256:e", "sha256:r", (), {}, (), ())
    stored = {}
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="our-bucket")
        client.put_object(Bucket="our-bucket", Key="bundles/x/a.log", Body=b"one\ntwo\n")
        store = ObjectStore(client, "our-bucket")
        plan = make_plan(workload, (), digests=RuleDigests.of(book))
        store.put_once("p", plan.model_dump_json().encode(), content_type="application/json")
        for generation, keeps in ((1, False), (2, True)):
            task = CollectTask(
                attempt_key="a/b/c/d/r0", generation=generation, collection=1, plan_key="p",
                item=item,
            )  # fmt: skip
            sizes: list[int] = []
            running = Running(
                store, book, build_scanner(book), lambda: 0.0, keeps_capsules=keeps,
                on_capsules=sizes.append,
            )  # fmt: skip
            assert running.run(task, seconds=9).report.lines == 2
            keys = [key for key, _ in store.list_objects("a/b/c/d/r0/capsules/")]
            stored[keeps] = (keys, sum(sizes) > 0)
        handed = HandOverTask(**task.model_dump())
        assert make_hand_over(handed, store, keeps_capsules=False).capsules is None
        target = make_hand_over(handed, store).capsules
    assert stored == {
        False: ([], False),
        True: (["a/b/c/d/r0/capsules/g0002-c1/i-1.jsonl.zst"], True),
    }
    assert target is not None
    assert target.key == "a/b/c/d/r0/capsules/g0002-c1/i-1.jsonl.zst"


def test_capsules_live_by_their_own_tag_and_plans_as_long_as_results() -> None:
    key = capsules_key("a/b/c/d/r0", 1, 2, "i-1")
    assert lifetime_tag(key) == "lifetime=capsule"
    assert lifetime_tag(plan_key("a/b/c/d/r0", 1, 2)) == "lifetime=result"
    assert lifetime_tag("a/b/c/d/r0/plans/g0001-c2/items.json") == "lifetime=evidence"
    # A tenant may have any name, also that of a folder.
    assert lifetime_tag("capsules/b/c/d/r0/verdicts/x.json") == "lifetime=result"


def test_the_number_of_days_decides_whether_capsules_are_kept() -> None:
    names = {"BUCKET_NAME": "b", "TABLE_NAME": "t", "TOPIC_ARN": "a"}
    assert read_settings(names).capsule_days == 90
    assert read_settings({**names, "CAPSULE_DAYS": "0"}).capsule_days == 0
