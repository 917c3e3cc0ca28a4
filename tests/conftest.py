"""Shared fixtures, and the rule about system packages: skipped by name here, a failure in CI."""

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAM_OF = {
    "ripgrep": "rg",
    "aws-sam-cli": "sam",
    "asl-validator": str(ROOT / "build/asl/node_modules/.bin/asl-validator"),
    "chromium": "chromium",
    "prometheus": "prometheus",
    "slurm": "slurmctld",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `system(package)` whose program is missing, unless CI demands them."""
    for item in items:
        for marker in item.iter_markers("system"):
            package = marker.args[0]
            if shutil.which(PROGRAM_OF[package]) is None and not os.environ.get(
                "ROOTRANK_REQUIRE_SYSTEM"
            ):
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT
