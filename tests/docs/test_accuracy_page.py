"""docs/accuracy.md promises no more than what the shipped rules come to."""

import re
from pathlib import Path

import pytest

from scripts.accuracy import HELD_OUT, ROOT, collect

PAGE = ROOT / "docs" / "accuracy.md"
COUNT = r"\| *(\d*) "


def promised(name: str) -> tuple[int, int, int]:
    """(bundles, right, falsely accused) of a set, as the page's table has them."""
    cells = re.search(
        rf"^\| {re.escape(name)} {COUNT * 5}\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert cells is not None, name
    bundles, right, _, _, accused = (int(cell or 0) for cell in cells.groups())
    return bundles, right, accused


@pytest.mark.parametrize("name", ["corpus", "blind", *HELD_OUT])
def test_a_set_is_judged_as_well_as_the_page_says(name: str) -> None:
    bundles, right, accused = promised(f"tests/{name}")
    outcomes = collect([Path(ROOT, "tests", name)], None)
    words = [outcome.word for outcome in outcomes]
    assert len(words) == bundles
    assert words.count("right") >= right
    assert words.count("falsely accused") <= accused
