"""Compiled databases and rulebooks on disk."""

import os
from pathlib import Path

from engine.rulebook.shipped import read_rulebook
from functions.adapters.automata import MAX_KEPT, FolderShelf
from tests.unit.rule_texts import SYMPTOM


def test_what_was_put_is_taken_again(tmp_path: Path) -> None:
    FolderShelf(tmp_path / "new").put("a", b"bytes")
    assert FolderShelf(tmp_path / "new").take("a") == b"bytes"


def test_a_shipped_folder_is_read_and_never_written(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"shipped")
    shelf = FolderShelf(None, shipped=(tmp_path,))
    shelf.put("b", b"x")
    assert (shelf.take("a"), shelf.take("b")) == (b"shipped", None)
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_file_that_others_may_write_is_not_trusted(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    shelf.put("a", b"bytes")
    os.chmod(tmp_path / "a.bin", 0o666)
    assert shelf.take("a") is None


def test_the_oldest_files_go(tmp_path: Path) -> None:
    shelf = FolderShelf(tmp_path)
    for number in range(MAX_KEPT + 2):
        shelf.put(f"n{number}", b"x")
        os.utime(tmp_path / f"n{number}.bin", (number, number))
    shelf.put("last", b"x")
    assert len(list(tmp_path.iterdir())) == MAX_KEPT
    assert shelf.take("n0") is None
    assert shelf.take("last") == b"x"


def test_a_folder_that_cannot_be_made_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    shelf = FolderShelf(tmp_path / "file" / "below")
    shelf.put("a", b"x")
    assert shelf.take("a") is None


def test_a_rulebook_is_compiled_once_for_each_state_of_its_files(tmp_path: Path) -> None:
    rules, shelf = tmp_path / "rules", FolderShelf(tmp_path / "kept")
    (rules / "gpu").mkdir(parents=True)
    (rules / "VERSION").write_text("1.0.0\n")
    (rules / "gpu" / "bus_loss.yaml").write_text(SYMPTOM)
    first = read_rulebook(rules, shelf=shelf)
    assert read_rulebook(rules, shelf=shelf) == first == read_rulebook(rules)
    (rules / "VERSION").write_text("1.0.1\n")
    assert read_rulebook(rules, shelf=shelf).version == "1.0.1"
    assert len(list((tmp_path / "kept").iterdir())) == 2
