"""Shared fixtures, and the rule about system packages: skipped by name here, a failure in CI."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]

# A gate has to say the same of the same commit; new examples are looked for on people's machines.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "explore")
PROGRAM_OF = {
    "ripgrep": "rg",
    "aws-sam-cli": "sam",
    "curl": "curl",
    "asl-validator": str(ROOT / "build/asl/node_modules/.bin/asl-validator"),
    "chromium": "chromium",
    "axe-core": str(ROOT / "build/web/node_modules/axe-core/axe.min.js"),
    "prometheus": "prometheus",
    "slurm": "slurmctld",
    "lezer-logql": str(ROOT / "build/logql/node_modules/@grafana/lezer-logql/index.es.js"),
    "kubectl": "kubectl",
    "kubernetes-client": str(ROOT / ".venv-k8s/bin/python"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `system(package)` whose program is missing, unless CI demands them."""
    for item in items:
        for marker in item.iter_markers("system"):
            package = marker.args[0]
            program = PROGRAM_OF[package]
            is_there = shutil.which(program) is not None or Path(program).is_file()
            if not is_there and not os.environ.get("ROOTRANK_REQUIRE_SYSTEM"):
                item.add_marker(pytest.mark.skip(reason=f"needs {package}"))


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT
