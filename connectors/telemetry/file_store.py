"""Places that hold files: what is there, and bytes of it from anywhere in a file."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from connectors.protocol import (
    SourceAbsentError,
    SourceNotConfiguredError,
    SourceRefusedError,
    SourceUnreachableError,
)

MAX_FILES: Final = 200_000
"""So many names are looked at in one listing; a pattern that needs more is too wide."""


@dataclass(slots=True, frozen=True)
class StoredFile:
    """A file as it was when listed. `identity` tells it from another under the same name.

    `path` is relative to the root, with `/`; `modified_us` is microseconds since the epoch.
    """

    path: str
    size: int
    modified_us: int
    identity: str


class FileStore(Protocol):
    """A folder, or a prefix of a bucket."""

    @property
    def shown(self) -> str:
        """The place as people write it."""

    def list_files(self, prefix: str) -> Sequence[StoredFile]:
        """Return the files whose path begins with `prefix`, sorted; raises `ConnectorError`."""

    def read_range(self, file: StoredFile, start: int, length: int) -> bytes:
        """Return up to `length` bytes from `start`, fewer only at the end.

        Safe to call from several threads. Raises `SourceAbsentError` where the file is gone or is
        another one by now.
        """


class LocalFiles:
    """A folder of this machine, a network mount included. Links that leave it are not followed."""

    def __init__(self, root: Path):
        self.root = root
        self.shown = str(root)
        self._real_root = os.path.realpath(root)

    def list_files(self, prefix: str) -> list[StoredFile]:
        """Return the regular files below the root whose path begins with `prefix`."""
        if not self.root.is_dir():
            raise SourceNotConfiguredError(f"{self.root}: no such folder on this machine")
        found: list[StoredFile] = []
        start = self.root / prefix.rpartition("/")[0]
        if not self._is_inside(str(start)):
            return []
        for folder, folders, names in os.walk(start, followlinks=False):
            folders.sort()
            for name in names:
                file = self._file(os.path.join(folder, name))
                if file is not None and file.path.startswith(prefix):
                    found.append(file)
            if len(found) > MAX_FILES:
                raise SourceRefusedError(
                    f"{self.root}: more than {MAX_FILES} files begin with {prefix!r}; "
                    "give a narrower pattern"
                )
        return sorted(found, key=lambda each: each.path)

    def read_range(self, file: StoredFile, start: int, length: int) -> bytes:
        """Return bytes of a file that is still the one that was listed."""
        descriptor = self._open(file)
        try:
            parts: list[bytes] = []
            while length > 0 and (part := os.pread(descriptor, length, start)):
                parts.append(part)
                start += len(part)
                length -= len(part)
            return b"".join(parts)
        except OSError as error:
            raise SourceUnreachableError(f"{file.path}: {error.strerror}") from error
        finally:
            os.close(descriptor)

    def _open(self, file: StoredFile) -> int:
        place = self.root / file.path
        if not self._is_inside(str(place)):
            raise SourceAbsentError(f"{file.path}: leads outside {self.root}")
        try:
            # A pipe in the place of a file must not hold us.
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        except PermissionError as error:
            raise SourceRefusedError(f"{file.path}: may not be read; check its mode") from error
        except OSError as error:
            raise SourceAbsentError(f"{file.path}: {error.strerror}") from error
        if _identity(os.fstat(descriptor)) != file.identity:
            os.close(descriptor)
            raise SourceAbsentError(f"{file.path}: was replaced while it was read")
        return descriptor

    def _file(self, place: str) -> StoredFile | None:
        """Return a regular file; a link to one inside the root stands for it."""
        root = str(self.root)
        if os.path.islink(place):
            place, root = os.path.realpath(place), self._real_root
            if not self._is_inside(place):
                return None
        try:
            known = os.stat(place, follow_symlinks=False)
        except OSError:
            return None
        if not stat.S_ISREG(known.st_mode):
            return None
        path = os.path.relpath(place, root).replace(os.sep, "/")
        return StoredFile(path, known.st_size, known.st_mtime_ns // 1000, _identity(known))

    def _is_inside(self, place: str) -> bool:
        real = os.path.realpath(place)
        return real == self._real_root or real.startswith(self._real_root.rstrip("/") + "/")


@dataclass(slots=True, frozen=True)
class AbsentFiles:
    """A place that cannot be reached from where this runs, and why."""

    shown: str
    why: str

    def list_files(self, prefix: str) -> list[StoredFile]:
        """Raise `SourceNotConfiguredError`."""
        raise SourceNotConfiguredError(f"{self.shown}/{prefix}: {self.why}")

    def read_range(self, file: StoredFile, start: int, length: int) -> bytes:
        """Raise `SourceNotConfiguredError`."""
        raise SourceNotConfiguredError(f"{self.shown}/{file.path}: {self.why}")


def _identity(known: os.stat_result) -> str:
    return f"{known.st_dev}:{known.st_ino}"


def distinct(files: Sequence[StoredFile]) -> Iterator[StoredFile]:
    """Yield each file once, under the first of its names: links and renames double a file."""
    seen: set[str] = set()
    for file in files:
        if file.identity not in seen:
            seen.add(file.identity)
            yield file
