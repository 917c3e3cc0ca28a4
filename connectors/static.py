"""The static connector: files that somebody put into one folder or below one S3 prefix.

It works over a `BlobSource`; the local folder is here, S3 is `functions.adapters`' business.
Trust comes from the declared source (`TRUST_OF_SOURCE`), the labels from the bundle entry.
"""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import re2

from connectors.protocol import TRUST_OF_SOURCE, Collected, ConnectorError, TransientError
from engine.model.moment import to_us
from engine.model.plan import PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import EvidenceSource, Workload

NAME = "static"

_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|\[!?[^\]/]{1,64}\]|\{rank\}|\{node\}")


@dataclass(slots=True, frozen=True)
class Blob:
    """One stored file: its path relative to the source, with `/`, and its size as stored."""

    path: str
    size: int


class BlobReader(Protocol):
    """An open blob, read once and in order."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, empty at the end."""

    def close(self) -> None:
        """Release what the reader holds."""


class BlobSource(Protocol):
    """A folder-like store of evidence files."""

    def list_blobs(self) -> Sequence[Blob]:
        """Return every readable blob, sorted by path; raises `ConnectorError`."""

    def open_blob(self, path: str) -> BlobReader:
        """Open one listed blob; raises `ConnectorError`."""


class FolderSource:
    """A local folder. Symbolic links that leave it are refused, and so is all that is no file."""

    def __init__(self, root: Path):
        self.root = root
        self.refused: list[str] = []
        self._real_root = os.path.realpath(root)
        self._stored: dict[str, str] = {}

    def list_blobs(self) -> list[Blob]:
        """Return the regular files below the root, sorted by path."""
        found: list[Blob] = []
        self.refused = []
        if self.root.is_file():
            return [Blob(shown_name(self.root.name), self.root.stat().st_size)]
        for folder, folders, names in os.walk(self.root, followlinks=False):
            folders.sort()
            for name in (*sorted(names), *(each for each in folders if _is_link(folder, each))):
                blob = self._blob(os.path.join(folder, name))
                if blob is not None:
                    found.append(blob)
        return sorted(found, key=lambda blob: blob.path)

    def open_blob(self, path: str) -> BlobReader:
        """Open a file by its path relative to the root; raises `ConnectorError`."""
        place = self.root if self.root.is_file() else self.root / self._stored.get(path, path)
        if not self._is_inside(str(place)) and not self.root.is_file():
            raise ConnectorError(f"{path}: leads outside {self.root}; copy the file into it")
        try:
            return place.open("rb")
        except OSError as error:
            raise ConnectorError(f"{path}: cannot be opened ({error.strerror})") from error

    def _blob(self, place: str) -> Blob | None:
        stored = os.path.relpath(place, self.root).replace(os.sep, "/")
        relative = shown_name(stored)
        if relative != stored:
            self._stored[relative] = stored
        if not self._is_inside(place):
            self.refused.append(relative)
            return None
        try:
            if not os.path.isfile(place):
                return None
            return Blob(relative, os.stat(place).st_size)
        except OSError:
            return None

    def _is_inside(self, place: str) -> bool:
        real = os.path.realpath(place)
        return real == self._real_root or real.startswith(self._real_root.rstrip("/") + "/")


def shown_name(name: str) -> str:
    r"""Return a file's name as text: bytes that are no UTF-8 become `\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_link(folder: str, name: str) -> bool:
    return os.path.islink(os.path.join(folder, name))


class BlobStream:
    """One labelled stream over an open blob."""

    def __init__(self, label: StreamLabel, reader: BlobReader):
        self.label = label
        self._reader = reader

    def read(self, size: int, /) -> bytes:
        """Return up to `size` stored bytes, empty at the end."""
        return self._reader.read(size)

    def close(self) -> None:
        """Close the blob."""
        self._reader.close()


@dataclass(slots=True)
class StaticConnector:
    """Yields the item's files in path order; what is not there goes to `paths_missing`."""

    source: BlobSource
    name: str = NAME

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[BlobStream]:
        """Yield one stream per file of the item, in path order.

        A store that is busy with one file is a transient error, raised after the others are read.
        """
        pending: TransientError | None = None
        paths = [blob.path for blob in self.source.list_blobs()]
        collected.requests += 1
        expanded, missing = expand_evidence(item.evidence, paths)
        collected.paths_missing.extend(missing)
        for entry in expanded:
            if item.cursor is not None and entry.path < item.cursor:
                continue
            collected.requests += 1
            try:
                reader = self.source.open_blob(entry.path)
            except TransientError as error:
                pending = pending or error
                continue
            except ConnectorError as error:
                collected.paths_missing.append(entry.path)
                collected.warnings.append(str(error))
                continue
            yield BlobStream(label_of(entry, workload), reader)
        if pending is not None:
            raise pending


def expand_evidence(
    entries: Sequence[EvidenceSource], paths: Sequence[str]
) -> tuple[list[EvidenceSource], list[str]]:
    """Return one literal entry per existing file, sorted by path, and the patterns without any.

    Globs and `{rank}`/`{node}` templates are matched against `paths`; templates fill labels. A
    file that several entries name is read once: labels of entries of one source are united,
    between sources the most specific entry wins.
    """
    chosen: dict[str, tuple[tuple[int, str, str], EvidenceSource]] = {}
    missing: list[str] = []
    known = frozenset(paths)
    for entry in entries:
        matches = _match_entry(entry, paths, known=known)
        if not matches:
            missing.append(entry.path)
        for literal, rank in matches:
            weight = (rank, literal.source, literal.model_dump_json())
            held = chosen.get(literal.path)
            if held is None:
                chosen[literal.path] = (weight, literal)
            elif held[1].source == literal.source:
                first, second = sorted((held, (weight, literal)), key=lambda each: each[0])
                chosen[literal.path] = (first[0], _united(first[1], second[1]))
            elif weight < held[0]:
                chosen[literal.path] = (weight, literal)
    return [chosen[path][1] for path in sorted(chosen)], sorted(set(missing))


def _pattern_of(path: str) -> Any | None:
    """Return the expression for a glob or template, or None for a literal path.

    RE2, because a bundle's patterns and file names are as hostile as its logs.
    """
    parts: list[str] = []
    position = 0
    for number, wildcard in enumerate(_GLOB.finditer(path)):
        parts.append(re.escape(path[position : wildcard.start()]))
        parts.append(_wildcard_expression(wildcard[0], number))
        position = wildcard.end()
    if position == 0:
        return None
    return re2.compile("".join(parts) + re.escape(path[position:]))


def _wildcard_expression(wildcard: str, number: int) -> str:
    simple = {"**/": r"(?:[^/]+/)*", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    if wildcard in simple:
        return simple[wildcard]
    if wildcard.startswith("["):
        inner = re.sub(r"([\\\[&~|])", r"\\\1", wildcard[1:-1])
        return f"[^{inner[1:]}/]" if inner.startswith("!") else f"[{inner}]"
    if wildcard == "{rank}":
        return rf"(?P<rank_{number}>\d{{1,7}})"
    return rf"(?P<node_{number}>[^/]+?)"


def _filled(groups: dict[str, str], name: str) -> str | None:
    """Return the one text of a template name, "" where it is absent, None on disagreement."""
    texts = {text for key, text in groups.items() if key.startswith(name) and text is not None}
    return None if len(texts) > 1 else "".join(texts)


def _match_entry(
    entry: EvidenceSource, paths: Sequence[str], *, known: frozenset[str]
) -> list[tuple[EvidenceSource, int]]:
    """Return `(literal entry, specificity)`; 0 literal, 1 folder, 2 template, 3 glob."""
    path = entry.path.removeprefix("./")
    if path in known:
        return [(entry.model_copy(update={"path": path}), 0)]
    try:
        pattern = _pattern_of(path)
    except re2.error:
        return []
    if pattern is None:
        folder = path.rstrip("/") + "/"
        inside = [each for each in paths if each.startswith(folder)]
        return [(entry.model_copy(update={"path": each}), 1) for each in inside]
    found = []
    for each in paths:
        match = pattern.fullmatch(each)
        if match is None:
            continue
        groups = match.groupdict()
        rank, node = _filled(groups, "rank"), _filled(groups, "node")
        if rank is None or node is None:
            continue
        update: dict[str, object] = {"path": each}
        if rank:
            update["rank"] = (int(rank),)
        if node:
            update["node"] = (node,)
        found.append((entry.model_copy(update=update), 2 if groups else 3))
    return found


def _united(first: EvidenceSource, second: EvidenceSource) -> EvidenceSource:
    return first.model_copy(
        update={
            "node": tuple(sorted({*first.node, *second.node})),
            "rank": tuple(sorted({*first.rank, *second.rank})),
        }
    )


def label_of(entry: EvidenceSource, workload: Workload) -> StreamLabel:
    """Return the stream label of one literal entry.

    A rank's node is taken from the placement. What a job printed was printed on one of its nodes,
    and so may be a log of several hosts: there the host of each line picks the node. A node log
    without a label in a job of one node may as well be a controller's, and stays without.
    """
    nodes = entry.node
    if not nodes and entry.rank:
        placed = {each.rank: each.node for each in workload.ranks}
        nodes = tuple(sorted({placed[rank] for rank in entry.rank if rank in placed}))
    if not nodes and (entry.source == "applog" or (_may_hold_hosts(entry, workload))):
        nodes = workload.nodes
    return StreamLabel(
        uri=entry.path,
        source=entry.source,
        trust=TRUST_OF_SOURCE[entry.source],
        nodes=nodes,
        ranks=entry.rank,
        pod=entry.pod or "",
        container=entry.container or "",
        timezone=entry.timezone,
        boot_time_us=to_us(entry.boot_time) if entry.boot_time else None,
        captured_at_us=to_us(entry.captured_at) if entry.captured_at else None,
    )


def _may_hold_hosts(entry: EvidenceSource, workload: Workload) -> bool:
    return entry.source == "syslog" and len(workload.nodes) > 1
