"""What this machine compiled before: rulebook and databases, kept from run to run.

Below `$ROOTRANK_CACHE`, else `$XDG_CACHE_HOME/rootrank`, else `~/.cache/rootrank`; an empty
`ROOTRANK_CACHE` keeps nothing.
"""

import hashlib
import os
from functools import cache
from pathlib import Path

import engine
from engine.extract.scanner import Scanner, build_scanner
from engine.rulebook.book import Rulebook
from engine.rulebook.shipped import read_rulebook
from functions.adapters.automata import FolderShelf


@cache
def kept_shelf() -> FolderShelf:
    """Return this user's shelf."""
    named = os.environ.get("ROOTRANK_CACHE")
    if named is not None:
        return FolderShelf(Path(named) if named else None)
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return FolderShelf(Path(home) / "rootrank" if os.path.isabs(home) else None)


def kept_rulebook(folder: Path) -> Rulebook:
    """Return the rulebook of `folder`, compiled once for each state of rules and compiler."""
    return read_rulebook(folder, shelf=kept_shelf(), compiler=_compiler())


def kept_scanner(book: Rulebook) -> Scanner:
    """Return a scanner for `book` whose databases are compiled once."""
    return build_scanner(book, shelf=kept_shelf())


@cache
def _compiler() -> str:
    """Tells the code that compiles from its earlier and later states."""
    root = Path(engine.__file__).parent
    hasher = hashlib.sha256()
    for path in sorted([*root.glob("rulebook/*.py"), *root.glob("model/*.py")]):
        hasher.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()
