"""Addresses of the pages: made here and nowhere else, and read back here."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote, urlencode

ATTEMPTS: Final = "/attempts/"
_SEGMENTS: Final = 5
_REVISIONS: Final = "/revisions/"


def attempt_address(attempt_key: str, *, revision: int | None = None) -> str:
    """Return the page of an attempt; with a revision, its permanent address."""
    place = ATTEMPTS + quote(attempt_key, safe="/")
    return place if revision is None else f"{place}{_REVISIONS}{revision}"


def read_attempt(path: str) -> tuple[list[str], int | None, str]:
    """Return the attempt keys that a path may mean, its revision, and what is asked of it.

    Parts of a key are percent-encoded themselves. Some gateways decode a path once and some do
    not, so both readings are returned, the literal one first; they differ for few keys.
    """
    rest = path.removeprefix(ATTEMPTS)
    key = "/".join(rest.split("/")[:_SEGMENTS])
    after = rest[len(key) :].removeprefix("/")
    what = "page"
    if not after and key.endswith(".json"):
        key, what = key.removesuffix(".json"), "json"
    revision = None
    if after.startswith("revisions/"):
        number, _, more = after.removeprefix("revisions/").partition("/")
        if number.endswith(".json"):
            number, what = number.removesuffix(".json"), "json"
        if not number.isdecimal() or len(number) > 6:
            return [], None, what
        revision = int(number)
        after = more
    elif what == "json":
        after = ""
    if after:
        what = after
    keys = [key, unquote(key)] if key != unquote(key) else [key]
    return [each for each in keys if each.count("/") == _SEGMENTS - 1], revision, what


def node_address(cluster: str, node: str) -> str:
    """Return the page of a node; `cluster` is `tenant/cluster`."""
    return "/node?" + urlencode({"cluster": cluster, "name": node})


def gpu_address(name: str) -> str:
    """Return the page of a GPU, by serial number or UUID."""
    return "/gpu?" + urlencode({"name": name})


def list_address(path: str = "/", **filters: str | None) -> str:
    """Return a list's address with those filters that are set."""
    kept = {name: value for name, value in filters.items() if value}
    return f"{path}?{urlencode(kept)}" if kept else path


def twin_address(path: str, query: Mapping[str, str]) -> str:
    """Return the address of a page's JSON twin."""
    name = "/verdicts.json" if path == "/" else f"{path}.json"
    return f"{name}?{urlencode(query)}" if query else name
