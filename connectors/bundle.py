"""Workload bundles: `workload.yaml` and the files it names, a bare folder, or a single file."""

import difflib
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from connectors.inference import infer_bundle
from connectors.protocol import ConnectorError
from connectors.static import Blob, BlobSource, FolderSource, expand_evidence, shown_name
from connectors.strict_yaml import Placed, StrictYamlError, read_yaml
from engine.model.workload import Bundle, EvidenceSource, RankPlacement, Workload

WORKLOAD_FILE = "workload.yaml"
_READ_SIZE = 1 << 20
_MAX_WORKLOAD_BYTES = 16 << 20  # 100,000 nodes need 2 MB
_MAX_EVIDENCE = 20_000


class BundleError(Exception):
    """An input that is no bundle: what, where, why and what to do, in one message."""


@dataclass(slots=True, frozen=True)
class LoadedBundle:
    """A bundle ready to be planned: literal evidence entries with their sizes as stored.

    `declared` keeps the entries as written. `notes` say what had to be inferred or is unknown,
    `warnings` what the writer of the bundle should mend.
    """

    workload: Workload
    evidence: tuple[EvidenceSource, ...]
    sizes: dict[str, int]
    source: BlobSource
    declared: tuple[EvidenceSource, ...] = ()
    missing: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_inferred: bool = False


def load_bundle(path: Path | str) -> LoadedBundle:
    """Load a local folder or file; raises `BundleError`."""
    place = Path(path)
    if not place.exists():
        raise BundleError(f"{path}: no such file or folder; give a bundle folder or a log file")
    if place.is_file() and place.name == WORKLOAD_FILE:
        place = place.parent
    name = shown_name(place.resolve().name) or "bundle"
    return load_bundle_from(FolderSource(place), name=name, shown=str(path))


def load_bundle_from(source: BlobSource, *, name: str, shown: str | None = None) -> LoadedBundle:
    """Load a bundle from any blob source; `name` becomes the job id where none is declared.

    Raises `BundleError`; messages speak of `shown`.
    """
    shown = shown or name
    try:
        blobs = list(source.list_blobs())
    except (ConnectorError, OSError) as error:
        raise BundleError(f"{shown}: cannot be listed ({error}); check its permissions") from error
    if WORKLOAD_FILE in getattr(source, "refused", ()):
        raise BundleError(
            f"{shown}: {WORKLOAD_FILE} is a link out of the folder; copy the file into it"
        )
    if not blobs:
        raise BundleError(
            f"{shown}: holds no readable file; put logs into it, or check its permissions"
        )
    if any(blob.path == WORKLOAD_FILE for blob in blobs):
        return _declared_bundle(source, blobs, name=name, shown=shown)
    return _bare_bundle(source, blobs, name=name, shown=shown)


def read_workload_yaml(data: bytes, *, shown: str) -> tuple[Bundle, tuple[str, ...], bool]:
    """Return the bundle, warnings, and whether `evidence` is declared; raises `BundleError`."""
    try:
        placed = read_yaml(data)
    except StrictYamlError as error:
        raise BundleError(f"{shown}:{error}") from error
    value = placed.value
    if not isinstance(value, dict):
        raise BundleError(f"{shown}:1:1: must be a mapping with the keys workload and evidence")
    entries = value.get("evidence")
    if isinstance(entries, list) and len(entries) > _MAX_EVIDENCE:
        line, column = placed.place(("evidence", _MAX_EVIDENCE))
        raise BundleError(
            f"{shown}:{line}:{column}: more than {_MAX_EVIDENCE} evidence entries;"
            " a pattern such as logs/*.log is one entry"
        )
    warnings = tuple(_unknown_keys(placed, shown))
    try:
        bundle = Bundle.model_validate({key: each for key, each in value.items() if each})
    except ValidationError as error:
        raise BundleError(_explain_errors(error, placed, shown=shown)) from error
    for index, entry in enumerate(bundle.evidence):
        line, column = placed.place(("evidence", index, "path"))
        _require_safe(entry.path, f"{shown}:{line}:{column}")
    return bundle, warnings, "evidence" in value


def _declared_bundle(
    source: BlobSource, blobs: Sequence[Blob], *, name: str, shown: str
) -> LoadedBundle:
    where = f"{shown.rstrip('/')}/{WORKLOAD_FILE}"
    bundle, warnings, has_evidence = read_workload_yaml(_read_all(source, where), shown=where)
    others = [blob for blob in blobs if blob.path != WORKLOAD_FILE]
    sizes = {blob.path: blob.size for blob in others}
    if not has_evidence:
        inferred = infer_bundle(source, others, name=name, workload=bundle.workload)
        return LoadedBundle(
            workload=bundle.workload,
            evidence=inferred.evidence,
            sizes=sizes,
            source=source,
            warnings=(*warnings, f"{where}: no evidence list; all files of the folder were read"),
            notes=inferred.notes,
        )
    evidence, missing = expand_evidence(bundle.evidence, list(sizes))
    _refuse_links(source, bundle.evidence, where)
    unreadable = tuple(f"{where}: {path} matches no file" for path in missing)
    return LoadedBundle(
        workload=bundle.workload,
        evidence=tuple(evidence),
        sizes=sizes,
        source=source,
        declared=bundle.evidence,
        missing=tuple(missing),
        warnings=warnings + unreadable,
    )


def _bare_bundle(
    source: BlobSource, blobs: Sequence[Blob], *, name: str, shown: str
) -> LoadedBundle:
    inferred = infer_bundle(source, blobs, name=name, workload=None)
    if not inferred.evidence:
        raise BundleError(
            f"{shown}: holds no file that can be read as a log or record; "
            f"name the files in a {WORKLOAD_FILE} if they are"
        )
    return LoadedBundle(
        workload=inferred.workload,
        evidence=inferred.evidence,
        sizes={blob.path: blob.size for blob in blobs},
        source=source,
        notes=inferred.notes,
        is_inferred=True,
    )


def _read_all(source: BlobSource, where: str) -> bytes:
    try:
        reader = source.open_blob(WORKLOAD_FILE)
        try:
            data = bytearray()
            while (piece := reader.read(_READ_SIZE)) and len(data) <= _MAX_WORKLOAD_BYTES:
                data += piece
        finally:
            reader.close()
    except (ConnectorError, OSError) as error:
        raise BundleError(f"{where}: cannot be read ({error}); check its permissions") from error
    if len(data) > _MAX_WORKLOAD_BYTES:
        raise BundleError(
            f"{where}: is larger than {_MAX_WORKLOAD_BYTES >> 20} MB; it describes one job, "
            "logs belong into files of their own"
        )
    return bytes(data)


def _require_safe(path: str, where: str) -> None:
    normal = posixpath.normpath(path)
    if path.startswith("/") or normal == ".." or normal.startswith("../") or "\x00" in path:
        raise BundleError(
            f"{where}: evidence path {path!r} leaves the bundle's folder; copy the file into it"
        )


def _refuse_links(source: BlobSource, entries: Sequence[EvidenceSource], where: str) -> None:
    refused = set(getattr(source, "refused", ()))
    for entry in entries:
        path = entry.path.removeprefix("./").rstrip("/")
        inside = [each for each in refused if path == each or path.startswith(each + "/")]
        if inside:
            raise BundleError(
                f"{where}: evidence path {entry.path!r} is a link out of the bundle's folder; "
                "copy the file into it"
            )


def _unknown_keys(placed: Placed, shown: str) -> Iterator[str]:
    value = placed.value
    yield from _unknown_in(value, ("workload", "evidence"), (), placed=placed, shown=shown)
    workload = value.get("workload")
    if isinstance(workload, dict):
        fields = tuple(Workload.model_fields)
        yield from _unknown_in(workload, fields, ("workload",), placed=placed, shown=shown)
        ranks = workload.get("ranks")
        for index, rank in enumerate(ranks if isinstance(ranks, list) else ()):
            path = ("workload", "ranks", index)
            fields = tuple(RankPlacement.model_fields)
            yield from _unknown_in(rank, fields, path, placed=placed, shown=shown)
    evidence = value.get("evidence")
    fields = tuple(EvidenceSource.model_fields)
    for index, entry in enumerate(evidence if isinstance(evidence, list) else ()):
        yield from _unknown_in(entry, fields, ("evidence", index), placed=placed, shown=shown)


def _unknown_in(
    value: Any, fields: tuple[str, ...], path: tuple[str | int, ...], *, placed: Placed, shown: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    for key in value:
        if key in fields:
            continue
        line, column = placed.place((*path, key))
        near = difflib.get_close_matches(key, fields, n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(fields)}"
        yield f"{shown}:{line}:{column}: unknown key {key!r} is ignored{hint}"


def _explain_errors(error: ValidationError, placed: Placed, *, shown: str) -> str:
    messages = []
    for each in error.errors():
        path = tuple(each["loc"])
        line, column = placed.place(path)
        name = ".".join(str(part) for part in path)
        if each["type"] == "missing":
            messages.append(f"{shown}:{line}:{column}: {name} is missing; add it")
            continue
        given = each.get("input")
        text = f", got {given!r}" if isinstance(given, str | int) else ""
        messages.append(f"{shown}:{line}:{column}: {name}: {each['msg']}{text}")
    return "\n".join(messages)
