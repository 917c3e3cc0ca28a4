"""Folding never hides a different fact, and merging has no order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.extract.fold import fold, merge
from engine.model.observation import Entity, Observation, Origin, Sample, When, encode
from tests.unit.extract_fixtures import extract, label


def one(when: int | None, text: str, place: int, extra: str = "") -> Observation:
    sample = Sample(
        Origin("u", place, place, 1), When(when, when, "stamp" if when else "none"), text
    )
    return Observation(
        kind="match", symptom="s", rule="r", source="applog", connector="c", trust="workload",
        stream="u", entity=Entity(node="n"), when=sample.when, count=1, first=sample, last=sample,
        samples=(sample,), fields={"code": "1", "note": extra}, identity=("code",),
    )  # fmt: skip


ITEMS = st.lists(
    st.builds(
        one, st.one_of(st.none(), st.integers(1, 5)), st.sampled_from("ab"), st.integers(1, 9),
        st.sampled_from("xy"),
    ),
    min_size=3, max_size=12,
)  # fmt: skip


@settings(deadline=None)
@given(ITEMS, st.randoms())
def test_folding_gives_the_same_in_any_order(items: list[Observation], random: object) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert encode(list(fold(items))) == encode(list(fold(shuffled)))


@settings(deadline=None)
@given(ITEMS)
def test_merging_is_associative(items: list[Observation]) -> None:
    a, b, c = items[:3]
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


def test_a_storm_of_one_code_never_hides_a_single_other() -> None:
    storm = b"[ 10.100000] NVRM: Xid (PCI:0000:3b:00): 13, pid=1, Graphics Exception\n" * 20_000
    lost = b"[ 11.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    found = extract(storm + lost + storm, label("syslog")).observations
    told = {(item.symptom, item.fields["code"]): item.count for item in found}
    assert told == {("xid_other", "13"): 40_000, ("gpu_lost", "79"): 1}


def test_a_unstamped_line_does_not_hide_when_the_fact_was_first_dated() -> None:
    data = (
        "socket refused by 10.0.0.1\n2025-06-26 06:00:00,000 socket refused by 10.0.0.1\n"
        "2025-06-26 06:10:00,000 x\n"
    )
    (item,) = extract(data).observations
    assert item.count == 2
    assert item.when.basis == "neighbour"
    assert item.when.latest_us == 1_750_917_600_000_999


def test_too_many_keys_are_counted_in_one_flagged_observation() -> None:
    data = "".join(
        f"[E1] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, "
        f"OpType=ALLREDUCE)\n"
        for n in range(5000)
    )
    found = extract(data).observations
    overflow = [item for item in found if "key_overflow" in item.flags]
    assert (len(found), len(overflow), overflow[0].count) == (4097, 1, 904)
    assert overflow[0].identity == ()


def test_evidence_from_an_untrusted_stream_is_flagged() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    (forged,) = extract(line).observations
    (kernel,) = extract(line, label("syslog")).observations
    assert (forged.flags, kernel.flags) == (("unproven",), ())
