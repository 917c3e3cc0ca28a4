"""The lab's pages against the code."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.lab.catalogue import KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lab.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^python scripts/lab\.py ([^#\n]+)", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def lab():
    spec = importlib.util.spec_from_file_location("lab", ROOT / "scripts" / "lab.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["lab"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_page_is_accepted(lab, command):
    options = lab.build_parser().parse_args(command.split())
    assert options.command in ("run", "kinds", "relabel")
    assert set(getattr(options, "kind", None) or ()) <= set(KINDS)


def test_the_page_shows_commands():
    assert len(COMMANDS) >= 4


def test_every_python_package_and_program_that_a_kind_needs_is_on_the_page():
    needs = {need.removeprefix("python:") for kind in KINDS.values() for need in kind.needs}
    known = {"root", "memory cgroup", "kernel log", "setpriv", "sbatch", "mariadbd", "munged"}
    missing = [need for need in sorted(needs - known) if need not in PAGE]
    assert missing == []


def test_every_kind_says_what_it_is():
    assert [kind.name for kind in KINDS.values() if len(kind.about) < 15] == []


def test_an_unknown_kind_is_refused_by_name(lab):
    options = lab.build_parser().parse_args(["run", "--kind", "no_such_kind"])
    with pytest.raises(SystemExit, match="no_such_kind"):
        lab.chosen(options)
