"""What `sam build` ships: the code by an allow-list, and one layer from the lock.

    python scripts/artifact.py code DIR              copy what a function needs
    python scripts/artifact.py layer DIR ARCH        install the layer's packages (arm64 or x86_64)
    python scripts/artifact.py digest DIR            print the digest of a built folder

The same commit gives the same bytes: files in a fixed order, with fixed times and modes.
Standard library only, so that it runs before anything is installed.
"""

import argparse
import ast
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ("engine", "connectors", "functions", "rules")
"""The folders that are shipped; of them only what `SHIPPED` names."""
SHIPPED = (".py", "rules/VERSION", ".html", ".css", ".svg")
NOT_SHIPPED = frozenset(
    {
        "connectors/schedulers/kubernetes_placement.py",
        "engine/model/schemas.py",
        "engine/rulebook/cases.py",
        "engine/rulebook/diff.py",
        "engine/rulebook/lock.py",
        "engine/rulebook/propose.py",
        "engine/rulebook/reference.py",
        "engine/rulebook/schema.py",
        "functions/adapters/erasure.py",
    }
)
"""What only the command line imports."""
COMPILED = {"build/compiled.json": "rules/compiled.json", "build/automata": "rules/automata"}
COMMAND_LINE_ONLY = frozenset({"click"})
"""Dependencies that nothing below `functions` imports."""
LAYER_PYTHON = "3.13"
PLATFORMS = {"arm64": "aarch64", "x86_64": "x86_64"}
GLIBC = ("2_28", "2_27", "2_24", "2_17")
"""manylinux tags that Amazon Linux 2023 (glibc 2.34) runs, newest first."""
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==\S+")
_PARENT = re.compile(r"^\s+#\s+(?:via\s+)?([A-Za-z0-9._-]+)")
_EPOCH = 1577836800
"""2020-01-01: zip files know no time before 1980, and the build time must not be in them."""
AWS_SERVICES = (
    "dynamodb", "events", "logs", "s3", "secretsmanager",
    "sns", "sqs", "ssm", "stepfunctions", "sts",
)  # fmt: skip
"""What the functions call: botocore's descriptions of four hundred others are 25 MB."""
_PRUNED = ("bin", "share", "dateparser_cli", "dateparser_scripts")
_PRUNED_RECORDS = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


def copy_code(target: Path) -> None:
    """Copy the allow-list, the compiled rules and their databases."""
    for folder in CODE:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if name in NOT_SHIPPED or "__pycache__" in path.parts or not path.is_file():
                continue
            if name.endswith(SHIPPED):
                _copy(path, target / name)
    for source, name in COMPILED.items():
        path = ROOT / source
        if not path.exists():
            sys.exit(f"{source} is missing: make {source}")
        for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
            _copy(each, target / name / each.relative_to(path))
    for path in target.rglob("*.py"):
        if not path.is_relative_to(target / "rules"):  # the book holds their digests
            path.write_text(without_words(path.read_text(encoding="utf-8")), encoding="utf-8")
    settle(target)


def without_words(source: str) -> str:
    """Return Python without comments and docstrings, and every statement on its own line still.

    They are a third of the artifact. Raises `ValueError` where anything but them would change.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    spans = [(*token.start, *token.end, "") for token in _comments(source)]
    spans += [
        (*place, '""' + "\n" * (place[2] - place[0])) for place in _strings_alone(tree, lines)
    ]
    for line, column, end_line, end_column, put in sorted(spans, reverse=True):
        kept = lines[line - 1][:column] + put.split("\n")[0]
        rest = lines[end_line - 1][end_column:]
        lines[line - 1 : end_line] = [kept + rest, *["\n"] * put.count("\n")]
    made = "".join(each.rstrip() + "\n" for each in lines)
    if _meaning(ast.parse(made)) != _meaning(tree):
        raise ValueError(f"comments and docstrings cannot be left out of {source[:80]!r}")
    return made


def _comments(source: str) -> Iterator[tokenize.TokenInfo]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token


def _strings_alone(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where strings stand as statements: docstrings, and those below constants."""
    for node in _lone_strings(tree):
        # ast counts bytes of UTF-8, slices count characters.
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        first, last = lines[node.lineno - 1].encode(), lines[end_line - 1].encode()
        column = len(first[: node.col_offset].decode())
        yield node.lineno, column, end_line, len(last[:end_column].decode())


def _lone_strings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as constant):
                yield constant


def _meaning(tree: ast.Module) -> str:
    """Return all of a module but the words of strings that stand alone, with lines."""
    for node in _lone_strings(tree):
        node.value = ""
    told = [f"{type(node).__name__} {getattr(node, 'lineno', 0)}" for node in ast.walk(tree)]
    return ast.dump(tree) + " ".join(told)


def install_layer(target: Path, architecture: str) -> None:
    """Install the pinned wheels of the layer, checked against the lock's hashes."""
    platforms = [f"manylinux_{glibc}_{PLATFORMS[architecture]}" for glibc in GLIBC]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as pinned:
        pinned.write("\n".join(requirements((ROOT / "requirements.lock").read_text())))
        pinned.flush()
        subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                "--no-deps", "--no-compile", "--only-binary", ":all:", "--require-hashes",
                "--python-version", LAYER_PYTHON, "--target", str(target / "python"),
                *(word for each in platforms for word in ("--platform", each)),
                "--platform", f"manylinux2014_{PLATFORMS[architecture]}", "-r", pinned.name,
            ],
            check=True,
        )  # fmt: skip
    _prune(target / "python")
    _compile(target / "python")
    settle(target)


def _prune(packages: Path) -> None:
    for name in _PRUNED:
        shutil.rmtree(packages / name, ignore_errors=True)
    for name in _PRUNED_RECORDS:
        for path in packages.glob(f"*.dist-info/{name}"):
            path.unlink()
    for path in (packages / "botocore/data").iterdir():
        if path.is_dir() and path.name not in AWS_SERVICES:
            shutil.rmtree(path)


def _compile(packages: Path) -> None:
    """Add bytecode: /opt is read-only, so a function would compile its packages at every start.

    Our own code has none: it is 1.3 MB zipped, more than the artifact may have, and would spare
    admission 60 ms of 400 and the others up to 150 (measured).
    """
    python = lambda_python()
    if python is None:
        print(
            f"no Python {LAYER_PYTHON} found: the layer has no bytecode and functions start 0.8 s "
            f"slower; put python{LAYER_PYTHON} on PATH or set LAMBDA_PYTHON",
            file=sys.stderr,
        )
        return
    # Checked by nothing, so that the time of the sources does not get into the bytes.
    command = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-s"]
    subprocess.run([*command, str(packages), "-p", "/opt/python", str(packages)], check=True)


def lambda_python() -> str | None:
    """Return an interpreter of the runtime's version, None where there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [os.environ.get("LAMBDA_PYTHON"), shutil.which(f"python{LAYER_PYTHON}")]
    found += sorted(str(each) for each in pyenv.glob(f"{LAYER_PYTHON}.*/bin/python"))
    check = f"import sys; sys.exit('%d.%d' % sys.version_info[:2] != '{LAYER_PYTHON}')"
    for each in found:
        # A pyenv shim is on PATH for every version, and fails where another one is chosen.
        command = [each or "false", "-c", check]
        if each and subprocess.run(command, check=False, capture_output=True).returncode == 0:
            return each
    return None


def requirements(lock: str) -> list[str]:
    """Return the lines of the lock for the functions' dependencies and all that these need."""
    entries = dict(_entries(lock))
    wanted = {name for name in runtime_roots() if name in entries}
    while True:
        more = {n for n, (_, parents) in entries.items() if n not in wanted and parents & wanted}
        if not more:
            return [line for name in sorted(wanted) for line in entries[name][0]]
        wanted |= more


def runtime_roots() -> set[str]:
    """Return the names of the dependencies that functions need, normalised."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {_normal(re.split(r"[^A-Za-z0-9._-]", each)[0]) for each in project["dependencies"]}
    return names - COMMAND_LINE_ONLY


def _entries(lock: str) -> Iterator[tuple[str, tuple[list[str], set[str]]]]:
    """Yield each pinned package: its lines with hashes, and the packages that asked for it."""
    name, lines, parents = "", list[str](), set[str]()
    for line in [*lock.splitlines(), "end==0"]:
        if pinned := _PINNED.match(line):
            if name:
                yield name, (lines, parents)
            name, lines, parents = _normal(pinned[1]), [line], set()
        elif line.lstrip().startswith("--hash"):
            lines.append(line)
        elif (parent := _PARENT.match(line)) and name:
            parents.add(_normal(parent[1]))


def settle(folder: Path) -> None:
    """Give every file and folder the same time and a mode that Lambda's user may read."""
    for path in sorted([folder, *folder.rglob("*")], reverse=True):
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (_EPOCH, _EPOCH))


def digest_of(folder: Path) -> str:
    """Return the digest over names, modes, times and bytes of everything in a folder."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.stat()
        head = f"{path.relative_to(folder)} {status.st_mode:o} {int(status.st_mtime)}\n"
        total.update(head.encode())
        if path.is_file():
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return "sha256:" + total.hexdigest()


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=["code", "layer", "digest"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("architecture", nargs="?", choices=sorted(PLATFORMS), default="arm64")
    chosen = parser.parse_args()
    if chosen.command == "digest":
        print(digest_of(chosen.folder))
        return
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.command == "code":
        copy_code(chosen.folder)
    else:
        install_layer(chosen.folder, chosen.architecture)


if __name__ == "__main__":
    main()
