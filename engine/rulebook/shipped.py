"""How the command line and the functions find their rules.

A build ships `rules/compiled.json`; a checkout has the YAML. The artifact records the digest of
the files that it was compiled from, so a stale one is never used. What only a checkout needs is
imported there: a cold start pays for msgspec alone.
"""

import hashlib
from pathlib import Path
from typing import Final, Protocol

import msgspec

from engine.rulebook.artifact import (
    FORMAT,
    Artifact,
    ArtifactError,
    decode_artifact,
    source_digest,
)
from engine.rulebook.book import Rulebook
from engine.rulebook.problem import Problem, RulesError

ARTIFACT_NAME: Final = "compiled.json"
VERSION_NAME: Final = "VERSION"
PYTHON_FOLDER: Final = "python"


def load_shipped(folder: Path) -> Rulebook:
    """Return the rulebook of `folder`; see `read_rulebook`."""
    return read_rulebook(folder)


class ArtifactShelf(Protocol):
    """Where compiled rulebooks are kept, by a name that covers the rules and their compiler."""

    def take(self, name: str) -> bytes | None:
        """The bytes put under this name; None where there are none."""

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes, if that is possible."""


def read_rulebook(
    folder: Path,
    artifact: Path | None = None,
    *,
    shelf: ArtifactShelf | None = None,
    compiler: str = "",
) -> Rulebook:
    """Return the rulebook of `folder`, from the compiled artifact where that is up to date.

    Without YAML below `folder` (a release) the artifact is used as it is. YAML without a fresh
    artifact is compiled in memory, or taken from the shelf where the same rules were compiled
    before by the same `compiler` (a digest of its code). Raises `RulesError` with every problem
    of the YAML (samples are tried only by `compile_folder`), `ArtifactError` for an artifact of
    another format.
    """
    artifact = artifact if artifact is not None else folder / ARTIFACT_NAME
    has_yaml = folder.is_dir() and any(folder.rglob("*.yaml"))
    if artifact.is_file():
        found = decode_artifact(artifact.read_bytes())
        if not has_yaml or found.source_digest == _digest_of_folder(folder):
            return found.book
    if not has_yaml:
        message = f"neither rule files nor {artifact.name}; run `rootrank rules compile`"
        raise RulesError([Problem(folder.as_posix(), 1, 1, message)])
    if shelf is None:
        return _compiled(folder, with_samples=False).book
    digest = _digest_of_folder(folder)
    name = "rulebook-" + hashlib.sha256(f"{FORMAT} {compiler} {digest}".encode()).hexdigest()[:32]
    data = shelf.take(name)
    if data is not None:
        try:
            return decode_artifact(data).book
        except ArtifactError:
            pass  # damaged: compiled again
    compiled = _compiled(folder, with_samples=False)
    shelf.put(name, msgspec.json.encode(compiled))
    return compiled.book


def compile_folder(folder: Path) -> Artifact:
    """Load, check and compile the YAML below `folder`; raises `RulesError` with every error."""
    return _compiled(folder, with_samples=True)


def ruleset_version(folder: Path) -> str:
    """Return the ruleset's SemVer from `VERSION`; raises `RulesError` where there is none."""
    try:
        return (folder / VERSION_NAME).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        message = "missing; write the ruleset's version (such as 1.0.0) there"
        raise RulesError([Problem(VERSION_NAME, 1, 1, message)]) from None


def python_files(folder: Path) -> dict[str, bytes]:
    """Return `python/<name>.py` to content of each Python rule that ships in `folder`."""
    paths = sorted((folder / PYTHON_FOLDER).glob("[a-z]*.py"))
    return {f"{PYTHON_FOLDER}/{path.name}": path.read_bytes() for path in paths}


def _digest_of_folder(folder: Path) -> str:
    from engine.rulebook.load import rule_files  # noqa: PLC0415  see the module's first lines

    files = {**rule_files(folder), **python_files(folder)}
    return source_digest(files, ruleset_version(folder))


def _compiled(folder: Path, *, with_samples: bool) -> Artifact:
    from engine.rulebook.check import check, check_structure  # noqa: PLC0415
    from engine.rulebook.compile import compile_rules  # noqa: PLC0415
    from engine.rulebook.load import read_rules, rule_files  # noqa: PLC0415

    files = rule_files(folder)
    version = ruleset_version(folder)
    rules, problems = read_rules(files)
    found = check(rules) if with_samples else check_structure(rules)
    problems.extend(problem for problem in found if problem.severity == "error")
    if problems:
        raise RulesError(problems)
    sources = python_files(folder)
    digests = {Path(path).stem: hashlib.sha256(data).hexdigest() for path, data in sources.items()}
    book = compile_rules(rules, version=version, python=digests)
    return Artifact(FORMAT, source_digest({**files, **sources}, version), book)
