"""A state folder's results, kept up with the folder: `run` adds to it while the view is open."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3

from functions.adapters.object_store import ObjectStore
from functions.adapters.results import Results
from functions.adapters.results_query import ResultsQuery
from rootrank.embedded import state
from rootrank.embedded.stack import Resources, open_empty_storage


class LocalResults:
    """Reads the folder again where its table has changed since."""

    def __init__(self, folder: Path, names: Resources):
        self._folder = folder
        self._table, self._bucket = names.table, names.bucket
        self._seen: tuple[int, int] | None = None
        self._items: dict[tuple[str, str], str] = {}
        self._objects: set[str] = set()
        query = ResultsQuery(boto3.client("dynamodb"), names.table)
        self._results = Results(query, ObjectStore(boto3.client("s3"), names.bucket))

    def current(self) -> Results | None:
        """Return the results, or None where the folder holds none yet; raises `StateError`."""
        path = self._folder / "table.jsonl"
        try:
            told = path.stat()
        except FileNotFoundError:
            return None
        stamp = (told.st_mtime_ns, told.st_size)
        if stamp != self._seen:
            with state.locked(self._folder):
                self._load_objects()
                self._load_items(state.read_lines(path))
            self._seen = stamp
        return self._results

    def _load_objects(self) -> None:
        """Put what is new: objects are written once."""
        s3 = boto3.client("s3")
        root = self._folder / "s3"
        for path in sorted(root.rglob("*")):
            key = path.relative_to(root).as_posix()
            if key not in self._objects and path.is_file():
                s3.put_object(Bucket=self._bucket, Key=key, Body=path.read_bytes())
                self._objects.add(key)

    def _load_items(self, items: list[dict[str, Any]]) -> None:
        dynamodb = boto3.client("dynamodb")
        found = {(item["pk"]["S"], item["sk"]["S"]): item for item in items}
        for pk, sk in self._items.keys() - found.keys():
            dynamodb.delete_item(TableName=self._table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
        texts = {key: json.dumps(item, sort_keys=True) for key, item in found.items()}
        for key, text in texts.items():
            if self._items.get(key) != text:
                dynamodb.put_item(TableName=self._table, Item=found[key])
        self._items = texts


@contextmanager
def open_local_results(folder: Path) -> Iterator[LocalResults]:
    """Stand up an empty table and bucket that follow the folder; raises `StateError`."""
    with ExitStack() as stack:
        yield LocalResults(folder, stack.enter_context(open_empty_storage(folder)))
