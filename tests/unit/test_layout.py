"""The cut of the code: which way imports point, what is public, where AWS may appear."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = {"engine", "connectors", "functions", "rules", "rootrank"}
MAY_IMPORT = {
    "engine": {"engine"},
    "connectors": {"connectors", "engine"},
    "functions": OURS,
    "rootrank": OURS,
    "rules": {"engine"},
}
FILES = sorted(
    path
    for top in MAY_IMPORT
    for path in (ROOT / top).rglob("*.py")
    if "__pycache__" not in str(path)
)


def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_one_way(path: Path) -> None:
    top = path.relative_to(ROOT).parts[0]
    ours = {name for name in _imports(path) if name.split(".")[0] in OURS}
    assert {name for name in ours if name.split(".")[0] not in MAY_IMPORT[top]} == set()
    if top == "connectors":
        assert {
            n for n in ours if n.startswith("engine.") and not n.startswith("engine.model")
        } == set()
    if top == "rules":
        assert ours <= {"engine.api"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_aws_appears_only_in_adapters_and_powertools_only_in_functions(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    names = {name.split(".")[0] for name in _imports(path)}
    if not relative.startswith(("functions/adapters/", "rootrank/")):
        assert names.isdisjoint({"boto3", "botocore"})
    if not relative.startswith("functions/"):
        assert "aws_lambda_powertools" not in names
    if not relative.startswith("rootrank/"):
        assert "moto" not in names


def test_the_engine_knows_no_clock_environment_or_network() -> None:
    forbidden = {
        "time",
        "os",
        "socket",
        "random",
        "secrets",
        "uuid",
        "httpx",
        "urllib.request",
        "subprocess",
    }
    used = {
        (path.relative_to(ROOT).as_posix(), name)
        for path in FILES
        if path.is_relative_to(ROOT / "engine")
        for name in _imports(path)
        if name in forbidden
    }
    assert used == set()


def test_no_drawer_modules() -> None:
    drawers = {"utils", "helpers", "common", "manager", "base", "misc"}
    assert [path for path in FILES if path.stem in drawers] == []


def test_every_public_thing_says_what_it_is() -> None:
    silent = []
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not path.name.startswith("__") and ast.get_docstring(tree) is None:
            silent.append(str(path.relative_to(ROOT)))
    assert silent == []
