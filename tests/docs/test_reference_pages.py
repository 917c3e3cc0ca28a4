"""docs/reference is what the rules say."""

import re
from pathlib import Path

import pytest

from engine.rulebook.load import load_rules
from engine.rulebook.reference import reference_pages
from engine.rulebook.shipped import load_shipped

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages(load_rules(ROOT / "rules"), load_shipped(ROOT / "rules"))


def test_the_pages_are_fresh(pages: dict[str, str]) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    stale = sorted(n for n in {*pages, *written} if pages.get(n) != written.get(n))
    assert stale == [], "run `rootrank rules docs -o docs/reference`"


def test_every_symptom_has_one_entry(pages: dict[str, str]) -> None:
    book = load_shipped(ROOT / "rules")
    entries = re.findall(r"^## (\w+)$", "\n".join(pages.values()), re.MULTILINE)
    assert sorted(entries) == sorted(book.symptoms)


def test_every_link_leads_to_an_entry(pages: dict[str, str]) -> None:
    links = re.findall(r"\]\((\w+)\.md#(\w+)\)", "\n".join(pages.values()))
    assert links
    assert [f"{p}#{s}" for p, s in links if f"\n## {s}\n" not in pages[f"{p}.md"]] == []
