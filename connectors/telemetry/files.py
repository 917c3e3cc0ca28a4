"""Log files where the job or the machines left them: a shared folder, or below an S3 prefix.

A site's patterns choose them. Rotated files (`.1`, `-20260102`, `.gz`, `.zst`) belong to the file
that they were; a file that still grows is read as far as it was when it was listed.
"""

import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from connectors.allowance import Allowance
from connectors.protocol import (
    TRUST_OF_SOURCE,
    BudgetSpentError,
    Capabilities,
    Collected,
    ConnectorError,
    Probe,
    SourceNotConfiguredError,
    TransientError,
    probe_status,
)
from connectors.static import expand_evidence, label_of
from connectors.telemetry.file_store import FileStore, StoredFile, distinct
from connectors.telemetry.ranges import RangedStream
from connectors.telemetry.settings import FileSource
from connectors.telemetry.templates import TemplateValueError, fill
from engine.model.moment import parse_rfc3339, to_us
from engine.model.plan import PlanItem
from engine.model.workload import EvidenceSource, Workload

NAME: Final = "files"
SOURCE: Final = "source"
"""`query` key: the name of the entry of `files` that an item reads."""
PART: Final = "part"
"""`query` key: `2/8` reads the third of eight parts of the files."""

_ROTATED: Final = re.compile(  # train.log.1, train.log-20260102.gz, train.log.zst
    r"^(?P<base>.+?)(?:[.\-_]\d{8}(?:[-T.]?\d{2,6})?|\.\d{1,4}|\.old)?(?:\.(?:gz|zst))?$"
)
_WILD: Final = re.compile(r"[*?\[{]")
_SLACK_US: Final = 3_600_000_000
"""A file last written an hour before the window, by a clock of its own, says nothing of it."""
_TOLD: Final = 20


@dataclass(slots=True, frozen=True)
class _Chosen:
    """A file to read and the entry that labels it."""

    file: StoredFile
    entry: EvidenceSource


@dataclass(slots=True)
class FilesConnector:
    """One entry of `files`. `pause` sleeps seconds, `clock` counts them from anywhere."""

    cluster: str
    settings: FileSource
    store: FileStore
    clock: Callable[[], float]
    pause: Callable[[float], None]
    name: str = NAME

    @property
    def capabilities(self) -> Capabilities:
        """Files stay as long as the site keeps them."""
        source = self.settings.source
        return Capabilities(sources=(source,), trust=TRUST_OF_SOURCE[source], resumes=True)

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[RangedStream]:
        """Yield a stream for each file, in path order; the transient trouble of one comes last."""
        allowance = Allowance(item.budget, self.clock)
        pending: TransientError | None = None
        try:
            chosen = self._choose(item, workload, collected, allowance=allowance)
            if not chosen:
                collected.coverage = "unverified"
            for each in chosen:
                uri = self._uri(each.file.path)
                if item.cursor is not None and uri < item.cursor:
                    continue
                try:
                    yield self._open(each, workload, allowance=allowance)
                except BudgetSpentError as error:
                    collected.cursor = uri
                    collected.warnings.append(str(error))
                    return
                except TransientError as error:
                    pending = pending or error
                except ConnectorError as error:
                    collected.paths_missing.append(uri)
                    collected.warnings.append(str(error))
        finally:
            collected.requests = allowance.requests
        if pending is not None:
            raise pending

    def probe(self) -> Probe:
        """List what the patterns' beginnings name; never raises `ConnectorError`."""
        target = f"{self.cluster}: {self.store.shown}"
        try:
            found = sum(len(self.store.list_files(each)) for each in self._prefixes(None))
        except ConnectorError as error:
            return Probe(self.name, target, probe_status(error), str(error))
        wanted = tuple(f"{self.settings.source}: {each}" for each in self.settings.patterns)
        return Probe(self.name, target, "ok", f"{found} files can be listed", wanted)

    def _choose(
        self, item: PlanItem, workload: Workload, collected: Collected, *, allowance: Allowance
    ) -> list[_Chosen]:
        files: dict[str, StoredFile] = {}
        for prefix in self._prefixes(workload):
            allowance.take_request(f"{self.store.shown}: list")
            files |= {each.path: each for each in self.store.list_files(prefix)}
        groups = _by_original(files, is_rotated=self.settings.rotated)
        entries = list(self._entries(workload, collected))
        expanded, missing = expand_evidence(entries, sorted(groups))
        mine = [each for each in expanded if _is_of_job(each, workload, item)]
        chosen = [_Chosen(file, entry) for entry in mine for file in groups[entry.path]]
        self._note_missing(missing, entries, mine, workload=workload, collected=collected)
        since = _since_us(item)
        fresh = [each for each in chosen if since is None or each.file.modified_us >= since]
        if len(fresh) < len(chosen):
            collected.warnings.append(
                f"{len(chosen) - len(fresh)} files were last written before the window"
            )
        by_path = {each.file.path: each for each in sorted(fresh, key=lambda each: each.entry.path)}
        ordered = distinct([by_path[path].file for path in sorted(by_path)])
        return [by_path[file.path] for file in ordered if _is_in_part(file.path, item)]

    def _entries(self, workload: Workload, collected: Collected) -> Iterator[EvidenceSource]:
        for pattern in self.settings.patterns:
            try:
                path = fill(pattern, workload, safe=True)
            except TemplateValueError as error:
                collected.warnings.append(f"{self.settings.name}: {pattern}: {error}")
                continue
            yield EvidenceSource(
                path=path, source=self.settings.source, timezone=self.settings.timezone
            )

    def _prefixes(self, workload: Workload | None) -> list[str]:
        """Return the fixed beginnings of the patterns, none inside another."""
        found = set()
        for pattern in self.settings.patterns:
            path = pattern
            if workload is not None:
                try:
                    path = fill(pattern, workload, safe=True)
                except TemplateValueError:
                    continue
            found.add(_WILD.split(path, maxsplit=1)[0])
        return sorted(
            each for each in found if not any(each.startswith(o) for o in found if o != each)
        )

    def _note_missing(
        self,
        missing: Sequence[str],
        entries: Sequence[EvidenceSource],
        found: Sequence[EvidenceSource],
        *,
        workload: Workload,
        collected: Collected,
    ) -> None:
        collected.paths_missing += [self._uri(each) for each in missing]
        seen = {node for each in found for node in each.node}
        if seen and all("{node}" in each.path for each in entries):
            lost = sorted(set(workload.nodes) - seen)
            collected.paths_missing += [self._uri(f"of {node}") for node in lost[:_TOLD]]
        ranks = {rank for each in found for rank in each.rank}
        if ranks and workload.world_size and all("{rank}" in each.path for each in entries):
            absent = sorted(set(range(workload.world_size)) - ranks)
            collected.paths_missing += [self._uri(f"of rank {rank}") for rank in absent[:_TOLD]]
        if collected.paths_missing:
            collected.warnings.append(
                f"{self.settings.name}: no file for {len(collected.paths_missing)} of the names"
            )

    def _open(self, chosen: _Chosen, workload: Workload, *, allowance: Allowance) -> RangedStream:
        file = chosen.file
        allowance.take_request(file.path)
        pieces = -(-file.size // self.settings.range_bytes)
        allowance.requests += max(0, pieces - 1)
        label = replace(label_of(chosen.entry, workload), uri=self._uri(file.path))
        stream = RangedStream(
            label,
            lambda start, length: self.store.read_range(file, start, length),
            file.size,
            self.settings.range_bytes,
            self.settings.parallel,
            self.pause,
            allowance.take_bytes,
        )
        stream.begin()
        return stream

    def _uri(self, path: str) -> str:
        return f"{self.settings.name}/{path}"


def _by_original(
    files: dict[str, StoredFile], *, is_rotated: bool
) -> dict[str, tuple[StoredFile, ...]]:
    """Return files under their own name, and rotated ones under the name that they had too."""
    groups: dict[str, list[StoredFile]] = {path: [file] for path, file in files.items()}
    if is_rotated:
        for path, file in sorted(files.items()):
            folder, slash, name = path.rpartition("/")
            match = _ROTATED.match(name)
            original = folder + slash + (match["base"] if match else name)
            if original != path:
                groups.setdefault(original, []).append(file)
    return {path: tuple(group) for path, group in groups.items()}


def _is_of_job(entry: EvidenceSource, workload: Workload, item: PlanItem) -> bool:
    if not entry.node:
        return True
    wanted = {*workload.nodes} if item.request is None else {*item.request.entities}
    names = wanted or {*workload.nodes}
    short = {name.split(".", 1)[0] for name in names}
    return not names or any(node.split(".", 1)[0] in short for node in entry.node)


def _since_us(item: PlanItem) -> int | None:
    starts = [each.start for each in item.windows if each.name != "history"]
    known = [each for each in starts if each is not None]
    if not known:
        return None
    return min(to_us(parse_rfc3339(each, None)) for each in known) - _SLACK_US


def _is_in_part(path: str, item: PlanItem) -> bool:
    part, _, parts = item.query.get(PART, "0/1").partition("/")
    return zlib.crc32(path.encode()) % max(1, int(parts)) == int(part)


def source_of(settings: Sequence[FileSource], item: PlanItem) -> FileSource:
    """Return the entry that an item reads; raises `SourceNotConfiguredError`."""
    wanted = item.query.get(SOURCE, NAME)
    for each in settings:
        if each.name == wanted:
            return each
    raise SourceNotConfiguredError(f"sources.yaml has no files entry {wanted!r}")
