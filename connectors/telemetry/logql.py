"""LogQL for a job's streams, and what Loki answers. Pure.

Every query that is made here parses with Grafana's own grammar (tests/telemetry/test_logql.py).
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from connectors.protocol import MalformedAnswerError
from connectors.telemetry.promql import alternatives, quoted

FILTER_CHARS: Final = 2_500
"""Of one line filter, so that the address stays below what proxies take (8 KiB, encoded)."""
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.=,:-]")


@dataclass(slots=True, frozen=True)
class Entry:
    """One log entry: nanoseconds since the epoch, its text, its structured metadata."""

    ns: int
    line: str
    metadata: tuple[tuple[str, str], ...] = ()


def stream_selector(
    match: Mapping[str, str], *, node_label: str = "", nodes: Sequence[str] = ()
) -> str:
    """Return a selector of equal labels and, where asked, of nodes with or without a domain."""
    parts = [f"{name}={quoted(match[name])}" for name in sorted(match)]
    if nodes:
        parts.append(f"{node_label}=~{quoted(f'(?:{alternatives(nodes)})([.:].*)?')}")
    return "{" + ",".join(parts) + "}"


def exact_selector(labels: Mapping[str, str], known: Sequence[str]) -> str:
    """Return the selector of one stream and no other; `known` are the labels of all streams."""
    full = {name: labels.get(name, "") for name in sorted({*known, *labels})}
    return stream_selector(full)


def line_filters(texts: Sequence[tuple[str, bool]]) -> list[str]:
    """Return filters, each within `FILTER_CHARS`, that together keep every line with a text.

    Each text comes with whether its case is ignored.
    """
    filters: list[str] = []
    for ignore_case in (False, True):
        group: list[str] = []
        for text in sorted({each for each, ignores in texts if ignores is ignore_case}):
            if group and sum(map(len, group)) + len(group) + len(text) > FILTER_CHARS:
                filters.append(_filter(group, ignore_case=ignore_case))
                group = []
            group.append(text)
        if group:
            filters.append(_filter(group, ignore_case=ignore_case))
    return filters


def _filter(texts: Sequence[str], *, ignore_case: bool) -> str:
    if len(texts) == 1 and not ignore_case:
        return f" |= {quoted(texts[0])}"
    flag = "(?i)" if ignore_case else ""
    return f" |~ {quoted(flag + alternatives(texts))}"


def count_query(selector: str, seconds: int) -> str:
    """Return the query for how many lines there are."""
    return f"sum(count_over_time({selector}[{max(1, seconds)}s]))"


def read_entries(answer: Any, what: str) -> list[Entry]:
    """Return the entries of a `query_range` answer in time order; raises `MalformedAnswerError`.

    Entries of one result keep the server's order inside a nanosecond: a traceback may share one.
    """
    try:
        data = answer["data"]
        if data["resultType"] != "streams":
            raise MalformedAnswerError(f"{what}: a {data['resultType']} where streams were asked")
        results = sorted(data["result"], key=lambda each: sorted(each["stream"].items()))
        found = [_entry(value) for each in results for value in each["values"]]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise MalformedAnswerError(f"{what}: no answer of Loki ({error!r})") from error
    return sorted(found, key=lambda each: each.ns)


def _entry(value: Any) -> Entry:
    more = value[2] if len(value) > 2 else {}
    metadata = more.get("structuredMetadata", more) if isinstance(more, Mapping) else {}
    pairs = sorted((str(k), str(v)) for k, v in metadata.items() if isinstance(v, str))
    return Entry(int(value[0]), str(value[1]), tuple(pairs))


def unseen(entries: Sequence[Entry], at_ns: int, seen: Counter[Entry]) -> Iterator[Entry]:
    """Yield the entries without those of the moment `at_ns` that were given already."""
    left = Counter(seen)
    for each in entries:
        if each.ns == at_ns and left[each] > 0:
            left[each] -= 1
            continue
        yield each


def written(entry: Entry, *, node_label: str | None, rank_label: str | None) -> bytes:
    """Return an entry as log lines with its time in front.

    A line that is a JSON record of a shipper carries its own. Where only structured metadata
    knows the rank or the node, it is written as a launcher or a daemon would.
    """
    if entry.line.startswith("{") and entry.line.rstrip().endswith("}"):
        return entry.line.rstrip("\n").encode("utf-8", "replace") + b"\n"
    metadata = dict(entry.metadata)
    node = metadata.get(node_label or "", "")
    rank = metadata.get(rank_label or "", "")
    head = stamp(entry.ns) + " "
    if rank.isdigit():
        head += f"[rank{rank}]: "
    elif node and " " not in node:
        head += f"{node} loki: "
    return (head + entry.line.rstrip("\n")).encode("utf-8", "replace") + b"\n"


def stamp(ns: int) -> str:
    """Return RFC 3339 with nanoseconds."""
    return f"{_second(ns // 1_000_000_000)}.{ns % 1_000_000_000:09d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    """Return a second; entries of a store share theirs with many others."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def place_of(labels: Mapping[str, str]) -> str:
    """Return the logical place of a stream: its labels, safe in a path."""
    shown = ",".join(f"{name}={labels[name]}" for name in sorted(labels))
    safe = _UNSAFE.sub("_", shown).replace("..", "__")[:300]
    return safe if safe == shown else f"{safe}-{zlib.crc32(shown.encode()):08x}"
