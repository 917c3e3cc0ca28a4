"""The compiled rulebook as canonical bytes, and how a release finds its rules.

A build ships `rules/compiled.json`; a checkout has the YAML. The artifact records the digest of
the files that it was compiled from, so a stale one is never used.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from engine.model.canonical import canonical_json
from engine.rulebook.book import Rulebook
from engine.rulebook.check import check
from engine.rulebook.compile import compile_rules
from engine.rulebook.load import read_rules, rule_files
from engine.rulebook.problem import Problem, RulesError

FORMAT: Final = "rulebook/v1"
ARTIFACT_NAME: Final = "compiled.json"
VERSION_NAME: Final = "VERSION"


class ArtifactError(ValueError):
    """A compiled rulebook that this release cannot read."""


@dataclass(slots=True, frozen=True)
class Artifact:
    """The book and the digest of the files (path and content) that it was compiled from."""

    format: str
    source_digest: str
    book: Rulebook


def encode_artifact(book: Rulebook, source_digest: str) -> bytes:
    """Return canonical bytes: the same rules give the same bytes on every machine."""
    return canonical_json(msgspec.to_builtins(Artifact(FORMAT, source_digest, book)))


def decode_artifact(data: bytes) -> Artifact:
    """Read what `encode_artifact` wrote; raises `ArtifactError` for anything else."""
    try:
        artifact = msgspec.json.decode(data, type=Artifact)
    except msgspec.MsgspecError as error:
        raise ArtifactError(f"not a compiled rulebook ({error}); compile the rules again") from None
    if artifact.format != FORMAT:
        raise ArtifactError(
            f"compiled rulebook of format {artifact.format!r}, this release reads {FORMAT!r}; "
            "compile the rules again"
        )
    return artifact


def source_digest(files: dict[str, bytes], version: str) -> str:
    """Return the digest of the rule files and the ruleset version."""
    hasher = hashlib.sha256(version.encode())
    for path in sorted(files):
        content = hashlib.sha256(files[path]).hexdigest()
        hasher.update(f"\n{path}\0{content}".encode())
    return "sha256:" + hasher.hexdigest()


def ruleset_version(folder: Path) -> str:
    """Return the ruleset's SemVer from `VERSION`; raises `RulesError` where there is none."""
    path = folder / VERSION_NAME
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        message = "missing; write the ruleset's version (such as 1.0.0) there"
        raise RulesError([Problem(VERSION_NAME, 1, 1, message)]) from None


def compile_folder(folder: Path) -> Artifact:
    """Load, check and compile the YAML below `folder`; raises `RulesError` with every error."""
    files = rule_files(folder)
    version = ruleset_version(folder)
    rules, problems = read_rules(files)
    problems.extend(problem for problem in check(rules) if problem.severity == "error")
    if problems:
        raise RulesError(problems)
    return Artifact(FORMAT, source_digest(files, version), compile_rules(rules, version=version))


def read_rulebook(folder: Path, artifact: Path | None = None) -> Rulebook:
    """Return the rulebook of `folder`, from the compiled artifact where that is up to date.

    Without YAML below `folder` (a release) the artifact is used as it is. YAML without a fresh
    artifact is compiled in memory; then only what would make the book wrong raises `RulesError`.
    """
    artifact = artifact if artifact is not None else folder / ARTIFACT_NAME
    files = rule_files(folder)
    if artifact.is_file():
        found = decode_artifact(artifact.read_bytes())
        if not files or found.source_digest == source_digest(files, ruleset_version(folder)):
            return found.book
    if not files:
        message = f"neither rule files nor {artifact.name}; run `rootrank rules compile`"
        raise RulesError([Problem(folder.as_posix(), 1, 1, message)])
    rules, problems = read_rules(files)
    if problems:
        raise RulesError(problems)
    return compile_rules(rules, version=ruleset_version(folder))


def load_shipped(folder: Path) -> Rulebook:
    """Return the rules that this release ships in `folder` (the CLI's and the functions' door)."""
    return read_rulebook(folder)
