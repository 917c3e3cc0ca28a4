import re
from pathlib import Path
from typing import get_args

from engine.extract.formats.sheet import FAMILIES
from engine.rulebook.document import MetricRule

DOCS = Path(__file__).parents[2] / "docs"
ROW = re.compile(r"^\| `([a-z0-9]+\.[a-z]+)` \| ([a-z0-9_ ]+?)(?: \(.*)? \|$", re.MULTILINE)


def test_the_table_of_families_shows_every_family_with_its_keys_in_order():
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    shown = {match[1]: tuple(match[2].split()) for match in ROW.finditer(text)}
    assert shown == FAMILIES


def test_every_detector_is_described():
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    detectors = get_args(MetricRule.model_fields["detector"].annotation)
    assert [name for name in detectors if f"`{name}`" not in text] == []


def test_every_reader_is_named():
    folder = DOCS.parent / "engine" / "extract" / "formats"
    text = (DOCS / "formats.md").read_text(encoding="utf-8")
    inner = {"__init__.py", "sheet.py", "jsontext.py", "cluster.py", "slurm_jobs.py"}
    readers = {path.name for path in folder.glob("*.py")} - inner
    assert sorted(name for name in readers if f"`{name}`" not in text) == []
