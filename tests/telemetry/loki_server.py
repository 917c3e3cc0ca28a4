"""A contract server with Loki's own rules: there is no Loki binary where these tests run.

Rules from Grafana's documentation of the HTTP API: `start` inclusive, `end` exclusive, both in
nanoseconds; `limit` up to `max_entries_limit_per_query`; `direction`; `X-Scope-OrgID`; errors as
plain text with status 400; 429 with `Retry-After`; structured metadata kept apart when asked.
"""

import json
import re
from dataclasses import dataclass, field

import re2
from http_fake import Answer, FakeServer

_STRING = r'"(?:[^"\\]|\\.)*"'
_QUERY = re.compile(
    rf"^\{{(?P<match>[^}}]*(?:{_STRING}[^}}]*)*)\}}(?P<filters>(?: \|[=~] {_STRING})*)$"
)
_MATCHER = re.compile(rf"(\w+)(=~|=)({_STRING})")
_FILTER = re.compile(rf" \|([=~]) ({_STRING})")
_COUNT = re.compile(r"^sum\(count_over_time\((?P<selector>.*)\[(?P<seconds>\d+)s\]\)\)$", re.DOTALL)


def text_of(quoted: str) -> str:
    """Return a Go string; the escapes that the connector makes are JSON's too."""
    return json.loads(quoted)


@dataclass
class Stream:
    """One stream: labels, and entries of (nanoseconds, line, structured metadata)."""

    labels: dict[str, str]
    entries: list[tuple[int, str, dict[str, str]]] = field(default_factory=list)


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, text: str, headers: dict[str, str] | None = None):
        super().__init__(text)
        self.answer = (status, headers or {}, text.encode())


class LokiServer(FakeServer):
    """Streams behind Loki's API. `fault(path, params)` may raise `Refused` first."""

    def __init__(self, streams, *, max_entries=5_000, tenant=None, fault=None, authorization=None):
        self.streams = [Stream(labels, sorted(entries, key=lambda e: e[0]))
                        for labels, entries in streams]  # fmt: skip
        self.max_entries = max_entries
        self.tenant = tenant
        self.authorization = authorization
        self.fault = fault
        self.queries: list[str] = []
        super().__init__(self.answer)

    def answer(self, path: str, params: dict[str, str], headers: dict[str, str]) -> Answer:
        try:
            self._admit(headers)
            if self.fault:
                self.fault(path, params)
            return 200, {"Content-Type": "application/json"}, json.dumps(
                {"status": "success", "data": self._data(path, params, headers)}
            ).encode()  # fmt: skip
        except Refused as error:
            return error.answer

    def _admit(self, headers):
        if self.authorization and headers.get("authorization") != self.authorization:
            raise Refused(401, "Unauthorized")
        if self.tenant and headers.get("x-scope-orgid") != self.tenant:
            raise Refused(401, "no org id")

    def _data(self, path, params, headers):
        if path == "/loki/api/v1/labels":
            return sorted({name for stream in self.streams for name in stream.labels})
        if path == "/loki/api/v1/series":
            chosen, _ = self._parsed(params["match[]"])
            start, end = int(params["start"]), int(params["end"])
            return [s.labels for s in chosen if any(start <= e[0] < end for e in s.entries)]
        if path == "/loki/api/v1/query":
            return self._count(params)
        if path == "/loki/api/v1/query_range":
            return self._range(params, headers)
        raise Refused(404, "404 page not found")

    def _parsed(self, query):
        self.queries.append(query)
        parsed = _QUERY.match(query)
        if not parsed:
            raise Refused(400, "parse error at line 1, col 1: syntax error: unexpected IDENTIFIER")
        matchers = _MATCHER.findall(parsed["match"])
        if not any(text_of(value) for _, _, value in matchers):
            raise Refused(400, "queries require at least one regexp or equality matcher that does "
                               "not have an empty-compatible value")  # fmt: skip
        chosen = [s for s in self.streams if all(_matches(s.labels, *each) for each in matchers)]
        return chosen, _FILTER.findall(parsed["filters"])

    def _count(self, params):
        parsed = _COUNT.match(params["query"])
        self.queries.append(params["query"])
        chosen, _ = self._parsed(parsed["selector"])
        end = int(params["time"])
        start = end - int(parsed["seconds"]) * 1_000_000_000
        count = sum(1 for s in chosen for e in s.entries if start < e[0] <= end)
        result = [{"metric": {}, "value": [end / 1e9, str(count)]}] if count else []
        return {"resultType": "vector", "result": result}

    def _range(self, params, headers):
        limit = int(params.get("limit", "100"))
        if limit > self.max_entries:
            raise Refused(400, f"max entries limit per query exceeded, limit > max_entries_limit "
                               f"per query ({limit} > {self.max_entries})")  # fmt: skip
        start, end = int(params["start"]), int(params["end"])
        if end < start:
            raise Refused(400, "end timestamp must not be before or equal to start time")
        if end - start > 721 * 3_600 * 1_000_000_000:
            raise Refused(400, "the query time range exceeds the limit")
        chosen, filters = self._parsed(params["query"])
        found = [
            (entry, stream)
            for stream in chosen
            for entry in stream.entries
            if start <= entry[0] < end and all(_keeps(entry[1], *each) for each in filters)
        ]
        found.sort(key=lambda each: each[0][0], reverse=params.get("direction") != "forward")
        apart = headers.get("x-loki-response-encoding-flags") == "categorize-labels"
        groups: dict[str, dict] = {}
        for (ns, line, metadata), stream in found[:limit]:
            labels = stream.labels if apart else {**stream.labels, **metadata}
            group = groups.setdefault(json.dumps(labels, sort_keys=True),
                                      {"stream": labels, "values": []})  # fmt: skip
            more = [{"structuredMetadata": metadata} if metadata else {}] if apart else []
            group["values"].append([str(ns), line, *more])
        return {"resultType": "streams", "result": list(groups.values()), "stats": {}}


def _matches(labels, name, operator, value):
    text = text_of(value)
    has = labels.get(name, "")
    return has == text if operator == "=" else re2.fullmatch(text, has) is not None


def _keeps(line, operator, value):
    text = text_of(value)
    return text in line if operator == "=" else re2.search(text, line) is not None
