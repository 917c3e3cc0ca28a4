"""A state folder's results, kept up with the folder: `run` adds to it while the view is open."""

from pathlib import Path

from functions.adapters.results import Results
from rootrank.results_source import results_of_folder


class LocalResults:
    """Reads the folder's table again where it has changed since."""

    def __init__(self, folder: Path):
        self._folder = folder
        self._seen: tuple[int, int] | None = None
        self._results: Results | None = None

    def current(self) -> Results | None:
        """Return the results, or None where the folder holds none yet; raises `StateError`."""
        try:
            told = (self._folder / "table.jsonl").stat()
        except FileNotFoundError:
            return None
        stamp = (told.st_mtime_ns, told.st_size)
        if stamp != self._seen:
            self._results = results_of_folder(self._folder)
            self._seen = stamp
        return self._results
