"""A site's rules in the stack's own bucket, read over those of the release.

Read once a process and version: every call lists the prefix, and reads it again only where a
file or its ETag changed. Files that cannot be used never cost a verdict: the release's rules judge
alone, and `RulesInUse.trouble` says so.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from aws_lambda_powertools import Logger

from connectors.protocol import ConnectorError, TransientError
from engine.extract.scanner import build_scanner
from engine.rulebook.book import Rulebook
from engine.rulebook.problem import RulesError
from functions.adapters.faults import StoreBusyError
from functions.adapters.object_store import (
    ListedObject,
    ObjectChangedError,
    ObjectMissingError,
    ObjectStore,
)

logger = Logger(service="rootrank", child=True)

MAX_FILES: Final = 500
MAX_BYTES: Final = 1 << 20
CONNECTOR: Final = "site_rules"
"""The connector name of the report about a site's rules that cannot be used."""
_PREFIX: Final = re.compile(r"rules/(?:[A-Za-z0-9][A-Za-z0-9._-]{0,63}/){0,8}")
_CASES: Final = ".cases.yaml"
_NAMED_PROBLEMS: Final = 3
_PROBLEM_CHARACTERS: Final = 300


class SiteRulesError(ConnectorError):
    """Files below the prefix that are not read: too many, too large, or none at all."""


@dataclass(slots=True, frozen=True)
class RulesInUse:
    """The book to judge with, and why it is the release's where the site has one of its own."""

    book: Rulebook
    trouble: str | None = None


_Version = tuple[str, str, str, str, tuple[ListedObject, ...]]


class SiteRules:
    """The rules of one process: those of the version that was read last are kept."""

    def __init__(self) -> None:
        self._held: tuple[_Version, RulesInUse] | None = None

    def over(
        self, base: Rulebook, store: ObjectStore, *, prefix: str, is_patient: bool = True
    ) -> RulesInUse:
        """Return `base` with the rules below `prefix`; an empty prefix is no site at all.

        Raises `TransientError` where the bucket does not answer now and `is_patient`.
        """
        if not prefix:
            return RulesInUse(base)
        try:
            if not _PREFIX.fullmatch(prefix):
                raise SiteRulesError(f"SITE_RULES {prefix!r} is not rules/ or a folder below it")
            listed = _listed(store, prefix)
            version = (*_digests(base), store.bucket, prefix, listed)
            if self._held is None or self._held[0] != version:
                self._held = (version, _read(base, store, prefix=prefix, listed=listed))
            return self._held[1]
        except TransientError as error:
            if is_patient:
                raise
            return _refused(base, str(error))
        except ConnectorError as error:
            return _refused(base, str(error))


site_rules: Final = SiteRules()


def _listed(store: ObjectStore, prefix: str) -> tuple[ListedObject, ...]:
    """Return what lies below the prefix; raises `SiteRulesError` before there is too much of it."""
    found: list[ListedObject] = []
    size = 0
    for each in store.list_versions(prefix):
        if each.key.endswith("/"):
            continue
        found.append(each)
        size += each.size
        if len(found) > MAX_FILES:
            raise SiteRulesError(f"more than {MAX_FILES} files; keep rules only there")
        if size > MAX_BYTES:
            raise SiteRulesError(f"more than {MAX_BYTES} bytes in all; keep rules only there")
    if not found:
        raise SiteRulesError("no files there; upload the rules or set SiteRulesPrefix to nothing")
    return tuple(found)


def _read(
    base: Rulebook, store: ObjectStore, *, prefix: str, listed: Iterable[ListedObject]
) -> RulesInUse:
    # Its YAML reader and checks take a while to import, and most stacks have no site rules.
    from engine.rulebook.site import rule_ids, with_site  # noqa: PLC0415

    files = {each.key.removeprefix(prefix): _content(store, each) for each in listed}
    try:
        book = with_site(base, files)
        _try_out(book, rule_ids(base))
    except RulesError as error:
        return _refused(base, _told(error))
    except SiteRulesError as error:
        return _refused(base, str(error))
    except Exception as error:  # noqa: BLE001  whatever a site wrote, a verdict must come
        return _refused(base, f"reading them failed ({type(error).__name__})")
    logger.info("site rules read", extra={"rules_version": book.version, "files": len(files)})
    return RulesInUse(book)


def _try_out(book: Rulebook, shipped: set[str]) -> None:
    """Compile a site's own signatures, so that no collector fails on them later.

    Raises `SiteRulesError` where the scanner refuses one: every function comes to the same end.
    """
    own = tuple(each for each in book.signatures if each.rule not in shipped)
    scanner = build_scanner(replace(book, signatures=own))
    scanner.prepare()
    if scanner.problems:
        raise SiteRulesError("; ".join(scanner.problems[:_NAMED_PROBLEMS]))
    for each in own:
        scanner.reader(each.index)


def _content(store: ObjectStore, each: ListedObject) -> bytes:
    """Return a file's bytes as listed; of what is no rule file the name alone is of interest."""
    if not each.key.endswith(".yaml") or each.key.endswith(_CASES):
        return b""
    try:
        return store.get_listed(each)
    except (ObjectMissingError, ObjectChangedError) as error:
        raise StoreBusyError(f"{store.uri(each.key)} changed while it was read") from error


def _refused(base: Rulebook, reason: str) -> RulesInUse:
    logger.warning("site rules cannot be used", extra={"reason": reason})
    return RulesInUse(base, f"the release's rules were used without the site's: {reason}")


def _told(error: RulesError) -> str:
    named = [str(each)[:_PROBLEM_CHARACTERS] for each in error.problems[:_NAMED_PROBLEMS]]
    more = len(error.problems) - _NAMED_PROBLEMS
    return "; ".join([*named, f"and {more} further problems"] if more > 0 else named)


def _digests(base: Rulebook) -> tuple[str, str]:
    return base.extraction_digest, base.reasoning_digest
