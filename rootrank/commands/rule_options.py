"""What the commands about rules share: where the rules stand, and how problems are shown."""

from collections.abc import Iterable
from pathlib import Path

import click

import engine
from engine.rulebook.book import Rulebook
from engine.rulebook.load import LoadedRule, load_rules
from engine.rulebook.problem import Problem, RulesError
from engine.rulebook.shipped import load_shipped
from engine.rulebook.site import site_files, with_site

SHIPPED = Path(engine.__file__).resolve().parent.parent / "rules"

rules_option = click.option(
    "--rules",
    "folder",
    type=click.Path(path_type=Path),
    default=SHIPPED,
    help="The folder of rules (default: the ones shipped with this release).",
)
site_option = click.option(
    "--site-rules",
    "site",
    type=click.Path(path_type=Path),
    help="A folder of your own YAML rules and overrides.yaml, read over the release's.",
)


def loaded_rules(folder: Path) -> list[LoadedRule]:
    """Return the rules of `folder`; broken ones end the command with exit code 2."""
    try:
        return load_rules(folder)
    except RulesError as error:
        raise click.UsageError(str(error)) from None


def loaded_book(folder: Path, site: Path | None = None) -> Rulebook:
    """Return the rulebook of `folder` and `site`; broken ones end the command with exit code 2."""
    try:
        book = load_shipped(folder)
        return book if site is None else with_site(book, site_files(site))
    except RulesError as error:
        raise click.UsageError(str(error)) from None


def print_problems(problems: Iterable[Problem], folder: Path) -> None:
    """Print problems as `folder/file:line:column: message`."""
    for problem in problems:
        click.echo(f"{folder.name}/{problem}")


def count(number: int, word: str) -> str:
    """Return `1 case`, `2 cases`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
