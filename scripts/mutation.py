"""Mutation testing of the reasoning core: which small changes of the code does no test notice?

    python scripts/mutation.py [--every 4] [--minutes 20] engine/correlate.py engine/decide.py ...

Every mutant runs in a forked child: the engine's example tests, then the reference incidents. Which
mutants are tried depends on nothing but `--every`, so a run can be repeated. Prints Markdown.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

TESTS = [
    "tests/engine/test_engine_decisions.py", "tests/engine/test_engine_recorder.py",
    "tests/engine/test_engine_tables.py",
]  # fmt: skip
SECONDS = 150
_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield what a node may become, with a word for it."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.Compare) and type(new.ops[0]) in _COMPARE:
        other = _COMPARE[type(new.ops[0])]
        word = f"{type(new.ops[0]).__name__} to {other.__name__}"
        new.ops[0] = other()
        yield word, new
    elif isinstance(new, ast.BoolOp):
        new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        yield "and/or", new
    elif isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        yield "not dropped", new.operand
    elif isinstance(new, ast.BinOp) and isinstance(new.op, ast.Add | ast.Sub):
        new.op = ast.Sub() if isinstance(new.op, ast.Add) else ast.Add()
        yield "plus/minus", new
    elif isinstance(new, ast.Call) and isinstance(new.func, ast.Name) and new.func.id in _CALLS:
        word = f"{new.func.id} to {_CALLS[new.func.id]}"
        new.func.id = _CALLS[new.func.id]
        yield word, new
    elif isinstance(new, ast.Continue):
        yield "continue to break", ast.Break()
    elif isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
        yield "boolean", new
    elif isinstance(new, ast.Constant) and isinstance(new.value, int | float):
        new.value = new.value + 1
        yield "number plus one", new


class _Swap(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        """Replace one node and leave the rest."""
        return self._new if node is self._old else self.generic_visit(node)


def mutants(path: Path) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield every mutant of a module: its line, what was changed, the changed tree."""
    source = path.read_text(encoding="utf-8")
    count = sum(len(list(changes(node))) for node in ast.walk(ast.parse(source)))
    for wanted in range(count):
        tree = ast.parse(source)
        places = [(node, word, new) for node in ast.walk(tree) for word, new in changes(node)]
        node, word, new = places[wanted]
        yield (
            getattr(node, "lineno", 0),
            word,
            ast.fix_missing_locations(_Swap(node, ast.copy_location(new, node)).visit(tree)),
        )


def install(module: ModuleType, tree: ast.Module) -> None:
    """Run the changed code in the module and hand its objects to everyone who imported them."""
    old = dict(module.__dict__)
    exec(compile(tree, str(module.__file__), "exec"), module.__dict__)
    swapped = {
        id(value): module.__dict__[name]
        for name, value in old.items()
        if getattr(value, "__module__", "") == module.__name__ and name in module.__dict__
    }
    for name, other in list(sys.modules.items()):
        if not name.startswith(("engine", "rootrank", "test")):
            continue
        for key, value in list(vars(other).items()):
            if id(value) in swapped:
                setattr(other, key, swapped[id(value)])


def incidents_hold() -> bool:
    """Whether every reference incident and its near miss still gives its verdict."""
    chains = importlib.import_module("tests.chains.test_chains")

    for incident in chains.INCIDENTS.values():
        for twin in (False, True):
            scene = incident.scene(twin=twin)
            with tempfile.TemporaryDirectory() as folder:
                verdict = chains.verdict_of(scene, Path(folder))
            try:
                chains.check(verdict, incident.twin if twin else incident.chain, scene)
            except AssertionError:
                return False
    return True


def is_killed() -> bool:
    """Whether any test notices the code as it is now."""
    return pytest.main(["-q", "-x", "-p", "no:cacheprovider", *TESTS]) != 0 or not incidents_hold()


def tried(module: ModuleType, tree: ast.Module) -> bool:
    """Try one mutant in a child; one that raises or does not end counts as noticed."""
    child = os.fork()
    if child == 0:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                install(module, tree)
                os._exit(1 if is_killed() else 0)
            except BaseException:  # noqa: BLE001 (a mutant may do anything)
                os._exit(1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.05)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return True


def main() -> int:
    """Run from the command line; 0 whatever survives, because a survivor needs a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=20)
    options = parser.parse_args()
    sys.path.insert(0, ".")
    assert not is_killed(), "the tests must pass before anything is changed"
    end = time.monotonic() + options.minutes * 60
    for path in options.paths:
        module = importlib.import_module(str(path.with_suffix("")).replace("/", "."))
        killed, survivors, lines = 0, [], path.read_text(encoding="utf-8").splitlines()
        for number, (line, word, tree) in enumerate(mutants(path)):
            if number % options.every or time.monotonic() > end:
                continue
            print(path, line, word, file=sys.stderr, flush=True)
            if tried(module, tree):
                killed += 1
            else:
                survivors.append(f"| {line} | {word} | `{lines[line - 1].strip()[:90]}` |")
        print(f"\n## {path}: {killed} of {killed + len(survivors)} noticed\n", flush=True)
        if survivors:
            print("| line | change | code |\n|---|---|---|", *survivors, sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
