"""Rulesets by name: the stack's own, the release's, or a folder of the bucket over it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from engine.extract.scanner import Scanner
from engine.rulebook.book import Rulebook
from functions.adapters.object_store import ObjectStore
from functions.adapters.site_rules import SiteRules
from functions.service.judgement import Book
from functions.service.problems import ProblemError

SITE, RELEASE = "site", "release"


@dataclass(slots=True)
class Rulesets:
    """Finds rules. `site_prefix` is where the stack reads its own, "" where it has none."""

    store: ObjectStore
    site_prefix: str
    release: Callable[[], Rulebook]
    scanner_of: Callable[[Rulebook], Scanner]
    site: SiteRules = field(default_factory=SiteRules)
    named: SiteRules = field(default_factory=SiteRules)

    def book(self, name: str) -> Book:
        """Return a ruleset; raises `ProblemError` where a named one cannot be used.

        The stack's own rules that cannot be used leave the release's, as in the pipeline, and the
        book says so. A ruleset that somebody asks for by name is used or refused.
        """
        release = self.release()
        if name == RELEASE:
            return Book(name, release, self.scanner_of(release))
        if name == SITE:
            found = self.site.over(release, self.store, prefix=self.site_prefix)
            return Book(name, found.book, self.scanner_of(found.book), found.trouble)
        prefix = f"rules/{name}/"
        found = self.named.over(release, self.store, prefix=prefix)
        if found.trouble is not None:
            raise ProblemError(
                422,
                f"ruleset {name!r} cannot be used: {found.trouble}",
                f"use {SITE!r} or {RELEASE!r}, or upload rule files below {prefix} of the bucket",
            )
        return Book(name, found.book, self.scanner_of(found.book))
