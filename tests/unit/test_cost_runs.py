"""The recorded runs of docs/cost.md against the bars, at the prices of the table."""

import importlib.util
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from functions.attribute import prices

ROOT = Path(__file__).parents[2]
RUNS = json.loads((ROOT / "docs/cost-runs.json").read_text(encoding="utf-8"))
SMALL, SMALL_BAR, LARGE_BAR = 64, Decimal("0.002"), Decimal("0.05")


def script() -> Any:
    spec = importlib.util.spec_from_file_location("cost_script", ROOT / "scripts/cost.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cost_script"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("run", RUNS["runs"], ids=lambda run: str(run["gpus"]))
def test_a_verdict_costs_less_than_its_bar(run: dict[str, Any]) -> None:
    bar = SMALL_BAR if run["gpus"] <= SMALL else LARGE_BAR
    assert 0 < script().cost_of(run)["total"] < bar
    assert run["verdict"].startswith("gpu_fallen_off_bus")


def test_the_page_has_the_recorded_figures_at_todays_prices() -> None:
    assert RUNS["priced_on"] == prices.PRICED_ON
    page = (ROOT / "docs/cost.md").read_text(encoding="utf-8")
    for run in RUNS["runs"]:
        total = script().cost_of(run)["total"]
        row = f"| {run['gpus']:,} | {run['items']} | {run['transitions']} |"
        assert row in page
        assert f"${total:.5f}" in page
