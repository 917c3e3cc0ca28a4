"""Mutation testing of the reasoning core: which small changes of the code does no test notice?

    python scripts/mutation.py [--lines 40,77] [--log FILE] engine/correlate.py engine/decide.py ...

Tries every mutant of the modules, one after the other, in a forked child of a collected pytest
session: first the engine's example tests, then the reference incidents with their near misses and
the corpus, extracted once. A child is bounded in CPU seconds, so that a busy machine changes no
result. Prints Markdown; `--log` appends one JSON line a mutant and skips those that it holds, so
that an interrupted run goes on. Not part of `make test`: some seconds a mutant.
"""

import argparse
import ast
import contextlib
import copy
import importlib
import io
import json
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

TESTS = [
    f"tests/engine/test_engine_{name}.py"
    for name in (
        "graph",
        "weighing",
        "judging",
        "survivors",
        "decisions",
        "parts",
        "tables",
        "recorder",
    )
]
CPU_SECONDS = 60
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
        changed = _Swap(node, ast.copy_location(new, node)).visit(tree)
        assert isinstance(changed, ast.Module)
        yield getattr(node, "lineno", 0), word, ast.fix_missing_locations(changed)


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


def told_cases() -> list[Callable[[], None]]:
    """Checks over cases that were extracted once; each raises where a verdict has changed."""
    chains = importlib.import_module("tests.chains.test_chains")
    corpus = importlib.import_module("tests.engine.test_engine_corpus_properties")
    pipeline = importlib.import_module("engine.pipeline")
    local = importlib.import_module("rootrank.local_case")
    book, scanner = chains.rules()
    checks: list[Callable[[], None]] = []

    def incident(case: Any, told: Any, scene: Any) -> Callable[[], None]:
        return lambda: chains.check(pipeline.attribute(case, book), told, scene)

    def bundle(case: Any, before: Any) -> Callable[[], None]:
        def check() -> None:
            assert corpus.essence(pipeline.attribute(case, book)) == before

        return check

    for each in chains.INCIDENTS.values():
        for twin in (False, True):
            scene = each.scene(twin=twin)
            with tempfile.TemporaryDirectory() as folder:
                path = scene.write(Path(folder))
                case = local.read_case(path, book=book, scanner=scanner).case
            checks.append(incident(case, each.twin if twin else each.chain, scene))
    for name in corpus.NAMES:
        case = corpus.read(name)
        checks.append(bundle(case, corpus.essence(pipeline.attribute(case, book))))
    return checks


class Runner:
    """A pytest plugin: instead of running the collected tests once, runs them for each mutant."""

    def __init__(self, paths: list[Path], lines: frozenset[int], log: Path | None) -> None:
        self._paths = paths
        self._lines = lines
        self._log = log
        self._known: dict[tuple[str, int], str] = {}
        self.problem = ""
        if log is not None and log.exists():
            for row in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
                self._known[row["path"], row["number"]] = row["by"]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try all mutants and print one table a module."""
        checks = told_cases()
        if by := self._noticed(session, checks):
            self.problem = f"the tests must pass before anything is changed: {by}"
            return True
        for path in self._paths:
            self._module(path, session, checks)
        return True

    def _module(
        self, path: Path, session: pytest.Session, checks: list[Callable[[], None]]
    ) -> None:
        module = importlib.import_module(str(path.with_suffix("")).replace("/", "."))
        lines = path.read_text(encoding="utf-8").splitlines()
        tried, survivors = 0, []
        for number, (line, word, tree) in enumerate(mutants(path)):
            if self._lines and line not in self._lines:
                continue
            by = self._known.get((str(path), number))
            if by is None:
                by = self._tried(module, tree, session, checks)
                self._note(path, number, line=line, word=word, by=by)
            tried += 1
            if not by:
                survivors.append(f"| {line} | {word} | `{lines[line - 1].strip()[:90]}` |")
        show(f"\n## {path}: {tried - len(survivors)} of {tried} noticed\n")
        if survivors:
            show("\n".join(["| line | change | code |", "|---|---|---|", *survivors]))

    def _note(self, path: Path, number: int, *, line: int, word: str, by: str) -> None:
        if self._log is not None:
            row = {"path": str(path), "number": number, "line": line, "word": word, "by": by}
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(row) + "\n")

    def _tried(
        self, module: ModuleType, tree: ast.Module, session: pytest.Session,
        checks: list[Callable[[], None]],
    ) -> str:  # fmt: skip
        """What noticed one mutant; one that raises or does not end counts as noticed."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
            by = "an error while it was loaded"
            with contextlib.suppress(BaseException):
                install(module, tree)
                by = self._noticed(session, checks)
            os.write(writes, (by or "nothing").encode()[:4000])
            os._exit(0)
        os.close(writes)
        with os.fdopen(reads, "rb") as pipe:
            said = pipe.read().decode()
        os.waitpid(child, 0)
        return "" if said == "nothing" else said or "it did not end"

    def _noticed(self, session: pytest.Session, checks: list[Callable[[], None]]) -> str:
        for item, following in zip(session.items, [*session.items[1:], None], strict=True):
            with contextlib.redirect_stdout(io.StringIO()):
                reports = runtestprotocol(item, nextitem=following, log=False)
            if any(report.failed for report in reports):
                return item.nodeid
        for number, check in enumerate(checks):
            try:
                check()
            except Exception as error:  # noqa: BLE001 (a mutant may do anything)
                return f"told case {number}: {type(error).__name__}"
        return ""


def show(text: str) -> None:
    """Print past pytest, which captures what it does not print itself."""
    print(text, file=sys.__stdout__, flush=True)


def main() -> int:
    """Run from the command line; 0 whatever survives, because a survivor needs a person."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--lines", default="", help="only mutants of these lines, as 40,77")
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()
    sys.path.insert(0, ".")
    lines = frozenset(int(each) for each in options.lines.split(",") if each)
    runner = Runner(options.paths, lines, options.log)
    code = pytest.main(["-q", "-s", "-p", "no:cacheprovider", *TESTS], plugins=[runner])
    if runner.problem:
        print(runner.problem, file=sys.stderr)
        return 1
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
