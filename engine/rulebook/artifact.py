"""The compiled rulebook as canonical bytes: the same rules give the same bytes everywhere."""

import hashlib
from dataclasses import dataclass
from typing import Final

import msgspec

from engine.model.canonical import canonical_json
from engine.rulebook.book import Rulebook

FORMAT: Final = "rulebook/v1"


class ArtifactError(ValueError):
    """A compiled rulebook that this release cannot read."""


@dataclass(slots=True, frozen=True)
class Artifact:
    """The book and the digest of the files (path and content) that it was compiled from."""

    format: str
    source_digest: str
    book: Rulebook


def encode_artifact(book: Rulebook, source_digest: str) -> bytes:
    """Return the artifact's canonical JSON."""
    return canonical_json(msgspec.to_builtins(Artifact(FORMAT, source_digest, book))) + b"\n"


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
    """Return the digest of the rule files (path to content) and the ruleset version."""
    hasher = hashlib.sha256(version.encode())
    for path in sorted(files):
        content = hashlib.sha256(files[path]).hexdigest()
        hasher.update(f"\n{path}\0{content}".encode())
    return "sha256:" + hasher.hexdigest()
