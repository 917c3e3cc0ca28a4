"""A seeded part of `make soak`."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest


def load() -> Any:
    place = Path(__file__).parents[2] / "scripts/soak.py"
    spec = importlib.util.spec_from_file_location("soak_script", place)
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules["soak_script"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", [1])
def test_doubled_and_shuffled_events_make_one_verdict_each(shared_stack: Any, seed: int) -> None:
    outcome = load().soak(shared_stack, 16, seed=seed)
    assert outcome.problems == []
    assert outcome.attempts == 16
    assert 0 < outcome.failed < 16
