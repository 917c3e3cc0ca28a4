"""The built artifact and the deployed stack, made once for all tests of this folder."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from deployed import (
    CLIENT,
    ROOT,
    SERVER,
    MiniStack,
    ended,
    ministack,
    outputs,
    put,
    sam,
    spec_of,
    until,
    upload,
    workload,
)  # fmt: skip
from measures import table

sys.path.insert(0, str(ROOT / "scripts"))

import artifact

BUILT = ROOT / "build/sam"
FUNCTIONS = (
    "ApiFunction", "AttributeFunction", "CollectFunction", "ForwardFunction", "HandOverFunction",
    "PublishFunction", "QueryFunction", "ScopeAdmitFunction", "ScopePlanFunction",
)  # fmt: skip
ACCESS = {
    "iam": [{"principal": "arn:aws:iam::000000000000:role/reader", "tenant": "default",
             "may": ["read"]}]
}  # fmt: skip
"""Who may ask the deployed service."""


def _need(path: Path | str | None, what: str) -> str:
    """Skip where something is missing, unless CI demands it."""
    if path is not None and Path(path).exists():
        return str(path)
    if os.environ.get("ROOTRANK_REQUIRE_SYSTEM"):
        pytest.fail(f"needs {what}; .ci/run installs it")
    pytest.skip(f"needs {what}: .ci/run shows how it is installed")


@pytest.fixture(scope="session")
def python() -> str:
    """An interpreter of the functions' version."""
    return _need(artifact.lambda_python(), "Python 3.13")


@pytest.fixture(scope="session")
def built() -> Path:
    """The folder that `sam build` made of this checkout."""
    if not os.environ.get("ROOTRANK_DEPLOY"):
        pytest.skip("builds and deploys, for some minutes: make deployment runs it")
    told = subprocess.run(
        ["sam", "build", "--build-dir", str(BUILT)], cwd=ROOT, capture_output=True, text=True,
        check=False, env={**os.environ, "SAM_CLI_TELEMETRY": "0"},
    )  # fmt: skip
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
    return BUILT


@dataclass(frozen=True)
class Deployed:
    """The stack on its server, and where everything is."""

    server: MiniStack
    outputs: dict[str, str]
    built: Path
    python: str

    @property
    def layer(self) -> Path:
        return self.built / "IntelLayer/python"


@pytest.fixture(scope="session")
def deployed(
    built: Path, python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    """The stack as `sam deploy` makes it; `sam delete` at the end."""
    _need(SERVER, "MiniStack in .venv-ministack")
    _need(CLIENT, "awslambdaric in build/ric313")
    folder = tmp_path_factory.mktemp("ministack")
    with ministack(built / "IntelLayer", folder, python) as server:
        environment = server.environment
        sam(
            "deploy", "--template-file", str(built / "template.yaml"), "--no-confirm-changeset",
            "--config-file", str(ROOT / "samconfig.toml"), "--region", "us-east-1",
            # MiniStack has no alarms on metric math; cfn-lint and test_template.py look at ours.
            "--parameter-overrides", "Architecture=x86_64", "GraceSeconds=0", "Monitoring=none",
            "WebView=iam", f"ServiceAccess='{json.dumps(ACCESS)}'",
            environment=environment,
        )  # fmt: skip
        deployed = Deployed(server, outputs(server), built, python)
        yield deployed
        if os.environ.get("ROOTRANK_BENCH"):
            specs = [spec_of(deployed, name) for name in FUNCTIONS]
            (ROOT / "build/functions.md").write_text(table(server.log, built, specs))
        told = sam(
            "delete",
            "--no-prompts",
            "--stack-name",
            "rootrank",
            "--region",
            "us-east-1",
            environment=environment,
        )
        assert "Deleted successfully" in told
        left = server.client("cloudformation").list_stacks(StackStatusFilter=["CREATE_COMPLETE"])
        names = {each["StackName"] for each in left["StackSummaries"]}
        assert "rootrank" not in names


@pytest.fixture(scope="session")
def verdict(deployed: Any) -> dict[str, Any]:
    """The verdict on one event, from the table of the deployed stack."""
    put(
        deployed.server,
        "Job Completed",
        {
            "version": 1,
            "workload": workload("410043"),
            "bundle_uri": upload(deployed, "043-node-failure-only"),
        },
    )
    until(lambda: ended(deployed), "no execution ended", 240)
    items = deployed.server.client("dynamodb").scan(TableName=deployed.outputs["TableName"])
    (current,) = [item for item in items["Items"] if item["sk"]["S"] == "CURRENT"]
    return dict(current)
