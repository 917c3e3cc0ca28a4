"""The compiled book: the same bytes from any order, and digests that mean what they say."""

import random
from pathlib import Path

import pytest
from rule_texts import CAUSE, FAMILY, SYMPTOM, TIMEOUT, rule

from engine.rulebook.artifact import ArtifactError, decode_artifact, encode_artifact
from engine.rulebook.book import Rulebook
from engine.rulebook.compile import compile_rules
from engine.rulebook.problem import RulesError
from engine.rulebook.shipped import compile_folder, load_shipped, read_rulebook


def _book(*texts: str) -> Rulebook:
    return compile_rules([rule(text) for text in texts], version="1.0.0")


def _write(folder: Path, *texts: str) -> None:
    for text in texts:
        path = folder / (text.split("\n", 1)[0].removeprefix("id: ") + ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "VERSION").write_text("1.2.0\n")


def test_the_order_of_files_changes_no_byte() -> None:
    texts = [SYMPTOM, CAUSE, TIMEOUT, FAMILY]
    expected = encode_artifact(_book(*texts), "sha256:0")
    for seed in range(20):
        random.Random(seed).shuffle(texts)
        assert encode_artifact(_book(*texts), "sha256:0") == expected


def test_signatures_are_numbered_by_rule_and_name() -> None:
    book = _book(TIMEOUT, FAMILY, SYMPTOM)
    assert [(s.index, s.rule) for s in book.signatures] == [
        (0, "gpu/bus_loss"),
        (1, "gpu/xid"),
        (2, "net/watchdog"),
    ]


def test_an_artifact_reads_back_as_the_same_book() -> None:
    book = _book(SYMPTOM, CAUSE, TIMEOUT, FAMILY)
    artifact = decode_artifact(encode_artifact(book, "sha256:1"))
    assert artifact.book == book
    assert artifact.source_digest == "sha256:1"


@pytest.mark.parametrize("data", [b"", b"{}", b"[1", b'{"format":"rulebook/v1"}'])
def test_other_bytes_are_no_artifact(data: bytes) -> None:
    with pytest.raises(ArtifactError, match="compile the rules again"):
        decode_artifact(data)


def test_an_artifact_of_another_format_is_refused() -> None:
    data = encode_artifact(_book(SYMPTOM), "x").replace(b"rulebook/v1", b"rulebook/v9")
    with pytest.raises(ArtifactError, match="this release reads 'rulebook/v1'"):
        decode_artifact(data)


def test_extract_is_the_scan_as_written_where_none_is_given() -> None:
    [signature] = _book(SYMPTOM).signatures
    assert signature.scan == "GPU at PCI:(?:[0-9a-fA-F:.]+) has fallen off"
    assert signature.extract == "GPU at PCI:(?P<pci>[0-9a-fA-F:.]+) has fallen off"


def test_tags_become_the_symptoms_that_carry_them() -> None:
    [cause] = _book(SYMPTOM, CAUSE, TIMEOUT).causes
    assert cause.effects == ("collective_timeout",)


def test_a_familys_rows_and_default_define_symptoms() -> None:
    book = _book(FAMILY)
    assert sorted(book.symptoms) == ["xid_79", "xid_application", "xid_other"]
    [signature] = book.signatures
    assert (signature.family_key, signature.symptom) == ("code", "xid_other")
    assert [row.codes for row in signature.family] == [("79",), ("13", "31")]


def test_the_own_domain_among_the_rivals_is_left_out() -> None:
    book = _book(SYMPTOM.replace("tier: 1", "tier: 1\nrivals: [pcie, gpu, host]"))
    assert book.symptoms["gpu_lost"].rivals == ("host", "pcie")


def test_wording_moves_only_the_reasoning_digest() -> None:
    before, after = _book(SYMPTOM), _book(SYMPTOM.replace("The GPU left", "A GPU left"))
    assert before.extraction_digest == after.extraction_digest
    assert before.reasoning_digest != after.reasoning_digest


def test_an_expression_moves_only_the_extraction_digest() -> None:
    before, after = _book(SYMPTOM), _book(SYMPTOM.replace("fallen off'", "fallen off the'"))
    assert before.extraction_digest != after.extraction_digest
    assert before.reasoning_digest == after.reasoning_digest


def test_a_comment_moves_no_digest() -> None:
    assert _book(SYMPTOM) == _book(SYMPTOM + "# a comment\n")


def test_a_folder_is_compiled_in_memory_without_an_artifact(tmp_path: Path) -> None:
    _write(tmp_path, SYMPTOM, CAUSE, TIMEOUT)
    book = load_shipped(tmp_path)
    assert book.version == "1.2.0"
    assert len(book.signatures) == 2


def test_a_fresh_artifact_is_used_and_a_stale_one_is_not(tmp_path: Path) -> None:
    _write(tmp_path, SYMPTOM)
    artifact = compile_folder(tmp_path)
    marked = encode_artifact(_book(TIMEOUT), artifact.source_digest)
    (tmp_path / "compiled.json").write_bytes(marked)
    assert sorted(load_shipped(tmp_path).symptoms) == ["collective_timeout"]
    _write(tmp_path, SYMPTOM + "about: changed\n")
    assert sorted(load_shipped(tmp_path).symptoms) == ["gpu_lost"]


def test_without_yaml_the_artifact_alone_is_enough(tmp_path: Path) -> None:
    (tmp_path / "compiled.json").write_bytes(encode_artifact(_book(SYMPTOM), "sha256:0"))
    assert sorted(read_rulebook(tmp_path).symptoms) == ["gpu_lost"]


def test_neither_rules_nor_artifact_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="run `rootrank rules compile`"):
        load_shipped(tmp_path)


def test_a_rule_that_cannot_work_is_an_error_at_load(tmp_path: Path) -> None:
    _write(tmp_path, SYMPTOM.replace("(?P<pci>", "((?P<pci>"))
    with pytest.raises(RulesError, match="not a regular expression"):
        load_shipped(tmp_path)


def test_only_a_full_compile_tries_the_samples(tmp_path: Path) -> None:
    _write(tmp_path, SYMPTOM.replace("00 is back'", "00 has fallen off'"))
    assert load_shipped(tmp_path).symptoms
    with pytest.raises(RulesError, match="must not"):
        compile_folder(tmp_path)
