"""The entry points: text, structured sources, facts, conditions of signatures."""

from engine.extract.fact import Fact, fact_line
from engine.extract.recognise import SignatureReader
from engine.extract.session import extract_facts
from engine.model.observation import Entity, Origin, When
from engine.rulebook.book import FamilyCase
from tests.unit.extract_fixtures import context, extract, label, signature


def test_values_of_a_fact_line_are_quoted_only_where_needed() -> None:
    line = fact_line("slurm.job", id="7", state="FAILED", reason='say "x"', user=None, name="a=b")
    assert line == 'slurm.job id=7 state=FAILED reason="say \\"x\\"" name="a=b"'


def test_a_fact_line_never_holds_a_newline() -> None:
    assert "\n" not in fact_line("k8s.event", message="a\nb\u2028c")


def test_a_fact_keeps_its_origin_excerpt_time_and_entity() -> None:
    origin = Origin("sacct.txt", 2, 40, 30)
    fact = Fact(
        fact_line("slurm.job", id="7", state="NODE_FAIL"), origin, "7|NODE_FAIL|token=hunter2x",
        When(5, 5, "record", "scheduler"), Entity(node="node-9"),
    )  # fmt: skip
    (item,) = extract_facts([fact], label("scheduler"), context())
    assert (item.kind, item.symptom, item.fields) == (
        "record", "node_failed", {"state": "NODE_FAIL"},
    )  # fmt: skip
    assert item.first.origin == origin
    assert item.first.text == "7|NODE_FAIL|token=[redacted]"
    assert (item.when, item.entity.node) == (When(5, 5, "record", "scheduler"), "node-9")


def test_many_facts_each_find_their_own_line() -> None:
    facts = [
        Fact(
            fact_line("slurm.job", id=str(n), state="NODE_FAIL" if n % 2 else "FAILED"),
            Origin("sacct.txt", n, n, 1), str(n), When(n, n, "record"), Entity(),
        )
        for n in range(10)
    ]  # fmt: skip
    (item,) = extract_facts(facts, label("scheduler"), context())
    assert (item.count, item.first.origin.line, item.last.origin.line) == (5, 1, 9)


def test_lines_that_no_reader_knows_are_scanned_as_text() -> None:
    found = extract("slurm.job id=7 state=NODE_FAIL\n", label("scheduler"))
    assert [item.symptom for item in found.observations] == ["node_failed"]


def test_a_stream_without_a_byte_is_summarised_as_empty() -> None:
    found = extract(b"")
    (summary,) = found.summaries
    assert (found.observations, summary.lines, summary.bytes, summary.first) == ([], 0, 0, When())


def read(text: str, **more: object) -> tuple[str, dict[str, str]] | None:
    reading = SignatureReader(
        signature(0, "a/b", r"code (?P<code>\d+) on (?P<pci>\S+)", "other", **more)
    ).read(text)
    return (reading.symptom, reading.fields) if reading else None


def test_captured_values_must_be_among_those_of_when() -> None:
    assert read("code 7 on a", when={"code": ("8",)}) is None
    assert read("code 8 on a", when={"code": ("8",)}) == ("other", {"code": "8", "pci": "a"})


def test_a_line_that_unless_describes_is_left_alone() -> None:
    assert read("code 7 on a (test)", unless=(r"\(test\)",)) is None


def test_the_first_row_of_a_family_that_fits_names_the_symptom() -> None:
    rows = (
        FamilyCase(("7",), {}, None, "simulated", "seven"),
        FamilyCase(("7", "8"), {"pci": ("b",)}, None, None, "on_b"),
        FamilyCase(("8",), {}, "on c", None, "on_c"),
    )

    def symptom(text: str) -> str | None:
        told = read(text, family_key="code", family=rows)
        return told[0] if told else None

    assert symptom("code 7 on a") == "seven"
    assert symptom("code 7 on b simulated") == "on_b"
    assert symptom("code 8 on c") == "on_c"
    assert symptom("code 9 on a") == "other"


def test_constants_of_a_signature_are_fields() -> None:
    assert read("code 7 on a", set={"process": "x"}) == (
        "other", {"code": "7", "pci": "a", "process": "x"},
    )  # fmt: skip


def test_a_match_far_into_a_long_line_is_confirmed_and_kept_round_the_match() -> None:
    (item,) = extract("x" * 100_000 + " socket refused by 10.0.0.1 " + "y" * 5000).observations
    assert "socket refused by 10.0.0.1" in item.first.text
    assert len(item.first.text) <= 2000
    assert item.first.origin.byte_length == 105_028
