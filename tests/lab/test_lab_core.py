"""The core of the fault lab, run for real: each kind once, made, read and judged in this test."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import yaml

from engine.extract.scanner import build_scanner
from rootrank.commands.attribute import attribute_path
from rootrank.local_case import load_book
from tests.lab.bundle import write_bundle
from tests.lab.catalogue import KINDS
from tests.lab.machine import missing_needs
from tests.lab.run import PYTHON, Run

CORE = sorted(kind.name for kind in KINDS.values() if kind.is_core)
NEEDS = ("root", "ip", "unshare", "nft", "memory cgroup")


def _script(name):
    path = Path(__file__).parents[2] / "scripts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def book():
    return load_book(None)


@pytest.fixture(scope="module")
def scanner(book):
    return build_scanner(book)


@pytest.fixture(scope="module", autouse=True)
def lab():
    """Skip by name on a machine without the lab; fail where CI demands it."""
    missing = [] if PYTHON.exists() else [".venv-lab with PyTorch for CPU"]
    missing += missing_needs(NEEDS) if os.name == "posix" else ["Linux"]
    if missing and not os.environ.get("ROOTRANK_REQUIRE_SYSTEM"):
        pytest.skip(f"needs the fault lab: {', '.join(missing)}")
    assert not missing


def test_the_core_has_at_least_twelve_kinds_and_clean_ones_among_them():
    assert len(CORE) >= 12
    assert any(KINDS[name].is_clean for name in CORE)


@pytest.mark.parametrize("name", CORE)
def test_a_real_run_of_the_kind_is_judged_without_false_accusation(name, tmp_path, book, scanner):
    kind, script = KINDS[name], _script("lab")
    if missing := missing_needs(kind.needs):
        assert not os.environ.get("ROOTRANK_REQUIRE_SYSTEM"), missing
        pytest.skip(f"needs {', '.join(missing)}")
    with Run(name, int(os.environ.get("ROOTRANK_LAB_SEED", "11")), 0) as run:
        kind.make(run)
        assert script.unexpected_end(kind, run) == ""
        write_bundle(run, kind, tmp_path / name)
    verdict = attribute_path(tmp_path / name, book=book, scanner=scanner)
    score = _script("score").score_bundle(tmp_path / name, verdict)
    assert score.falsely_accused == []
    assert _script("accuracy").judge(score) in ("right", "hedged"), score
    assert yaml.safe_load((tmp_path / name / "truth.yaml").read_text())["kind"] == name
