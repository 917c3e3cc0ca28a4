"""All entries of one stream, page by page, forward: none lost and none twice."""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from connectors.http_source import HttpSource
from connectors.protocol import MalformedAnswerError
from connectors.telemetry.logql import Entry, read_entries, unseen

SLICE_NS: Final = 24 * 3600 * 1_000_000_000
"""Loki refuses a query over more than `max_query_length` (721 h as shipped, less at many sites)."""
PATH: Final = "/loki/api/v1/query_range"
_LIMIT_WORDS: Final = "max entries limit"


@dataclass(slots=True)
class Pager:
    """Pages of `page` entries. `told` hears of what cannot be had."""

    source: HttpSource
    page: int
    told: Callable[[str], None]

    def entries(self, query: str, start_ns: int, end_ns: int) -> Iterator[Entry]:
        """Yield every entry of `[start, end)` in time order."""
        while start_ns < end_ns:
            until = min(end_ns, start_ns + SLICE_NS)
            yield from self._slice(query, start_ns, until)
            start_ns = until

    def merged(self, queries: Sequence[str], start_ns: int, end_ns: int) -> Iterator[Entry]:
        """Yield the entries that any of the queries finds, once each, in time order."""
        if len(queries) == 1:
            yield from self.entries(queries[0], start_ns, end_ns)
            return
        found = [self._numbered(each, start_ns, end_ns) for each in queries]
        at_ns = -1
        given: set[tuple[Entry, int]] = set()
        for key in heapq.merge(*found, key=lambda each: each[0].ns):
            if key[0].ns != at_ns:
                at_ns, given = key[0].ns, set()
            if key not in given:
                given.add(key)
                yield key[0]

    def _numbered(self, query: str, start_ns: int, end_ns: int) -> Iterator[tuple[Entry, int]]:
        """Tell equal entries of one moment apart, so that a merge drops only repeats."""
        at_ns = -1
        count: Counter[Entry] = Counter()
        for each in self.entries(query, start_ns, end_ns):
            if each.ns != at_ns:
                at_ns, count = each.ns, Counter()
            count[each] += 1
            yield each, count[each]

    def _slice(self, query: str, start_ns: int, end_ns: int) -> Iterator[Entry]:
        at_ns = start_ns
        seen: Counter[Entry] = Counter()
        while at_ns < end_ns:
            # Those of the last moment come again, so as many more are asked for.
            limit = self.page + seen.total()
            found, limit = self._page(query, at_ns, end_ns, limit=limit)
            last_ns = found[-1].ns if found else at_ns
            fresh = list(unseen(found, at_ns, seen))
            yield from fresh
            if len(found) < limit:
                return
            if not fresh:
                self.told(f"more than {limit} entries in one nanosecond; the rest cannot be had")
                at_ns, seen = at_ns + 1, Counter()
                continue
            if last_ns != at_ns:
                seen = Counter()
            seen.update(each for each in fresh if each.ns == last_ns)
            at_ns = last_ns

    def _page(
        self, query: str, start_ns: int, end_ns: int, *, limit: int
    ) -> tuple[list[Entry], int]:
        """Return a page and the limit that it was asked with: a server may allow less."""
        params: dict[str, str | int] = {
            "query": query,
            "start": start_ns,
            "end": end_ns,
            "limit": limit,
            "direction": "forward",
        }
        try:
            answer: Any = self.source.get_json(PATH, params)
        except MalformedAnswerError as error:
            if _LIMIT_WORDS not in str(error) or limit <= self.page:
                raise
            answer = self.source.get_json(PATH, {**params, "limit": self.page})
            limit = self.page
        return read_entries(answer, f"{self.source.what} {PATH}"), limit
