"""What `sam build` makes: nothing but what functions need, the same bytes from the same commit."""

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import artifact
import pytest

from rootrank.embedded.template import read_template

ROOT = Path(__file__).parents[2]
TEMPLATE = read_template(ROOT)
HANDLERS = {
    name: resource["Properties"]["Handler"]
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::Serverless::Function"
}
FORBIDDEN = re.compile(
    r"(^|/)(tests?|docs|rootrank|infra|scripts|events|\.git|\.venv|__pycache__|moto|pandas|numpy)(/|$)"
    r"|\.(yaml|md|lock|toml|sh|ipynb|pem|key)$|(^|/)\.env"
)
MIB = 1024 * 1024
CODE_BAR = 1_000_000
"""Bytes of the zipped code; decimal, so that it holds by whichever measure."""


def test_every_function_and_layer_has_a_build_recipe() -> None:
    text = (ROOT / "infra/build.mk").read_text()
    made = [
        name
        for name, resource in TEMPLATE["Resources"].items()
        if resource.get("Metadata", {}).get("BuildMethod") == "makefile"
    ]
    assert set(HANDLERS) <= set(made)
    for name in made:
        assert re.search(rf"\b(build-)?{name}\b", text), name


def test_the_layer_holds_what_functions_need_and_nothing_of_the_command_line() -> None:
    lines = artifact.requirements((ROOT / "requirements.lock").read_text())
    pinned = {line.split("==")[0].lower() for line in lines if "==" in line}
    assert {"pydantic", "pydantic-core", "boto3", "botocore", "hyperscan", "httpx"} <= pinned
    assert not pinned & {"click", "moto", "pandas", "numpy", "pytest", "mypy"}
    assert all("--hash=sha256:" in line or "==" in line for line in lines)


def test_a_package_comes_with_those_that_it_asks_for_and_no_others() -> None:
    lock = """
boto3==1.0 \\
    --hash=sha256:aa
    # via rootrank (pyproject.toml)
botocore==1.0 \\
    --hash=sha256:bb
    # via
    #   boto3
    #   moto
jmespath==1.0 \\
    --hash=sha256:cc
    # via botocore
moto==5.0 \\
    --hash=sha256:dd
    # via rootrank (pyproject.toml)
"""
    lines = artifact.requirements(lock)
    assert [line.split("==")[0] for line in lines if "==" in line] == [
        "boto3", "botocore", "jmespath",
    ]  # fmt: skip
    assert lines[1] == "    --hash=sha256:aa"


def test_every_service_that_a_function_calls_is_described_in_the_layer() -> None:
    called = set()
    for path in (ROOT / "functions").rglob("*.py"):
        text = path.read_text()
        called |= set(re.findall(r"\bclient\(\s*\"([a-z0-9-]+)\"", text))
        if "get_parameter(" in text:
            called.add("ssm")
        if "get_secret(" in text:
            called.add("secretsmanager")
    assert called
    assert called <= set(artifact.AWS_SERVICES)


def imported(path: Path) -> set[str]:
    """Return every module that a file imports anywhere, with what may be a module below it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


def test_what_is_left_out_is_there_and_no_function_can_come_to_import_it() -> None:
    left = {name.removesuffix(".py").replace("/", ".") for name in artifact.NOT_SHIPPED}
    assert all((ROOT / name).is_file() for name in artifact.NOT_SHIPPED)
    spoke = ["functions.collect.serve_handler"]
    waiting, seen = [each.rsplit(".", 1)[0] for each in HANDLERS.values()] + spoke, set[str]()
    while waiting:
        name = waiting.pop()
        path = ROOT / f"{name.replace('.', '/')}.py"
        if name not in seen and path.is_file():
            seen.add(name)
            waiting += imported(path)
    assert len(seen) > 200
    assert seen & left == set()


def test_comments_and_docstrings_are_left_out_and_every_statement_keeps_its_line() -> None:
    source = '''"""What it is.

Why.
"""
LIMIT = "# no comment"  # rows
"""Of a ü page."""


class Lost(Exception):
    """Says so."""


def area(side: int) -> int:
    """Return it."""  # squared
    return side * side
'''
    made = artifact.without_words(source).splitlines()
    assert made == [
        '""', "", "", "", 'LIMIT = "# no comment"', '""', "", "", "class Lost(Exception):",
        '    ""', "", "", "def area(side: int) -> int:", '    ""', "    return side * side",
    ]  # fmt: skip


def test_a_string_whose_words_would_change_is_not_touched_but_told() -> None:
    with pytest.raises(ValueError, match="cannot be left out"):
        artifact.without_words('TEXT = """ends in a blank \nhere"""\n')


def test_functions_share_one_artifact_and_it_holds_only_what_they_need(built: Path) -> None:
    digests = {artifact.digest_of(built / name) for name in HANDLERS}
    assert len(digests) == 1
    code = built / "CollectFunction"
    names = [path.relative_to(code).as_posix() for path in code.rglob("*") if path.is_file()]
    assert [name for name in names if FORBIDDEN.search(name)] == []
    assert {name.split("/")[0] for name in names} == {"engine", "connectors", "functions", "rules"}
    assert "rules/compiled.json" in names
    assert any(name.startswith("rules/automata/") for name in names)


@pytest.mark.parametrize("name", ["ArmLayer", "IntelLayer"])
def test_a_layer_holds_no_tests_no_sources_of_ours_and_no_numpy(built: Path, name: str) -> None:
    packages = {path.name for path in (built / name / "python").iterdir()}
    assert not packages & {"engine", "functions", "numpy", "pandas", "moto", "pytest", "bin"}
    other = {"ArmLayer": "x86_64", "IntelLayer": "aarch64"}[name]
    machines = [path.name for path in (built / name).rglob("*.so") if other in path.name]
    assert machines == []


def test_sizes_are_within_the_bars(built: Path, tmp_path: Path) -> None:
    code = shutil.make_archive(str(tmp_path / "code"), "zip", built / "CollectFunction")
    assert Path(code).stat().st_size < CODE_BAR
    for name in ("ArmLayer", "IntelLayer"):
        size = sum(path.stat().st_size for path in (built / name).rglob("*") if path.is_file())
        assert size < 90 * MIB, f"{name}: {size / MIB:.1f} MiB"


def snapshot(folder: Path) -> None:
    """Copy what is tracked, with times of its own."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        if name.split("/")[0] not in ("tests", "docs") and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)


def made_in(folder: Path) -> str:
    """Compile the rules and copy the code of a checkout; returns the artifact's digest."""
    program = Path(sys.executable).parent / "rootrank"
    compile_rules = [program, "rules", "compile", "-o", folder / "build/compiled.json"]
    subprocess.run([*compile_rules, "--rules", folder / "rules"], check=True, capture_output=True)
    script = folder / "scripts/artifact.py"
    subprocess.run([sys.executable, script, "code", folder / "made"], check=True)
    return artifact.digest_of(folder / "made")


def test_the_same_commit_gives_the_same_code_wherever_and_whenever_it_is_built(
    built: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "elsewhere/second"
    snapshot(first)
    shutil.copytree(first, second)
    assert made_in(first) == made_in(second)
    changed = subprocess.run(
        ["git", "status", "--porcelain", *artifact.CODE], cwd=ROOT, capture_output=True, check=True
    )
    if not changed.stdout:
        assert artifact.digest_of(first / "made") == artifact.digest_of(built / "CollectFunction")


def test_the_same_lock_gives_the_same_layer(built: Path, python: str, tmp_path: Path) -> None:
    artifact.install_layer(tmp_path / "again", "x86_64")
    assert artifact.digest_of(tmp_path / "again") == artifact.digest_of(built / "IntelLayer")


IMPORT = """
import importlib, json, sys
module, name = sys.argv[1].rsplit(".", 1)
handler = getattr(importlib.import_module(module), name)
print(json.dumps([callable(handler), [m for m in ("pandas", "numpy", "moto") if m in sys.modules]]))
"""


@pytest.mark.parametrize("name", sorted(HANDLERS))
def test_every_handler_imports_from_the_artifact_with_only_the_layer(
    built: Path, python: str, name: str, tmp_path: Path
) -> None:
    path = f"{built / name}:{built / 'IntelLayer/python'}"
    told = subprocess.run(
        [python, "-S", "-c", IMPORT, HANDLERS[name]], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1",
                          "AWS_DEFAULT_REGION": "us-east-1"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout.splitlines()[-1]) == [True, []]


def test_what_sam_uploads_is_an_archive_that_lambda_accepts(built: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "code"), "zip", built / "CollectFunction")
    with zipfile.ZipFile(archive) as opened:
        modes = {entry.external_attr >> 16 & 0o777 for entry in opened.infolist()}
        times = {entry.date_time[0] for entry in opened.infolist()}
    assert all(mode & 0o444 == 0o444 for mode in modes), [oct(mode) for mode in modes]
    assert times == {2020}
