"""Compiled databases and rulebooks as files: loaded in a millisecond, compiled in a second.

Names cover all that the bytes were compiled from, so nothing here ever has to be invalidated.
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import Final

MAX_KEPT: Final = 24
_SUFFIX: Final = ".bin"
_MAX_BYTES: Final = 64 << 20


class FolderShelf:
    """A `DatabaseShelf` on disk: takes from all folders, puts into `keep` if it can.

    Files of other users are not trusted, but for those of `shipped` folders, which are part of
    the release. A folder that cannot be read or written is as good as empty.
    """

    def __init__(self, keep: Path | None, *, shipped: tuple[Path, ...] = ()) -> None:
        self._keep = keep
        self._shipped = shipped

    def take(self, name: str) -> bytes | None:
        """Return the bytes of this name, None where there are none to be trusted."""
        for folder in self._shipped:
            if (data := _read(folder / f"{name}{_SUFFIX}", ours=False)) is not None:
                return data
        return _read(self._keep / f"{name}{_SUFFIX}", ours=True) if self._keep else None

    def put(self, name: str, data: bytes) -> None:
        """Keep the bytes, whole or not at all; the oldest files beyond `MAX_KEPT` go."""
        if self._keep is None:
            return
        try:
            self._keep.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, path = tempfile.mkstemp(dir=self._keep)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(path).replace(self._keep / f"{name}{_SUFFIX}")
            kept = sorted(self._keep.glob(f"*{_SUFFIX}"), key=lambda item: item.stat().st_mtime)
            for old in kept[:-MAX_KEPT]:
                old.unlink(missing_ok=True)
        except OSError:
            return


def _read(path: Path, *, ours: bool) -> bytes | None:
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
                return None
            if ours and (status.st_uid != os.getuid() or status.st_mode & 0o022):
                return None
            return file.read()
    except OSError:
        return None
