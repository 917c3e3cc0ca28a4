"""`rootrank rules`: check, test, write, compare, lock and compile the rules."""

from pathlib import Path

import click

import engine
from engine.rulebook.check import check
from engine.rulebook.load import read_rules, rule_files
from engine.rulebook.problem import RulesError

SHIPPED = Path(engine.__file__).resolve().parent.parent / "rules"

rules_option = click.option(
    "--rules",
    "folder",
    type=click.Path(path_type=Path),
    default=SHIPPED,
    help="The folder of rules (default: the ones shipped with this release).",
)


@click.group(name="rules")
def rules_command() -> None:
    """Write, check and test rules."""


@rules_command.command(name="check")
@click.argument("paths", nargs=-1)
@click.option("--quiet", is_flag=True, help="Leave warnings out.")
@rules_option
@click.pass_context
def check_command(
    context: click.Context, paths: tuple[str, ...], *, folder: Path, quiet: bool
) -> None:
    """Report everything that is wrong with the rules, at file:line:column.

    With PATHS (files, folders or rule ids below the rules folder) only what stands there is
    reported; the whole set is still read, because rules refer to each other.
    """
    try:
        files = rule_files(folder)
    except RulesError as error:
        raise click.UsageError(str(error)) from None
    rules, problems = read_rules(files)
    problems = sorted([*problems, *check(rules)])
    shown = [problem for problem in problems if _is_below(problem.path, paths, folder)]
    errors = [problem for problem in shown if problem.severity == "error"]
    for problem in errors if quiet else shown:
        click.echo(f"{folder.name}/{problem}")
    warnings = len(shown) - len(errors)
    click.echo(
        f"{len(files)} rule files: {_count(len(errors), 'error')}, {_count(warnings, 'warning')}",
        err=True,
    )
    if not files:
        click.echo(f"no rules in {folder}", err=True)
    if errors or not files:
        context.exit(1)


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _is_below(path: str, wanted: tuple[str, ...], folder: Path) -> bool:
    if not wanted:
        return True
    relative = [_relative(name, folder) for name in wanted]
    return any(
        path in (name, f"{name}.yaml") or path.startswith(f"{name.rstrip('/')}/")
        for name in relative
    )


def _relative(name: str, folder: Path) -> str:
    full = Path(name).resolve()
    if full.is_relative_to(folder.resolve()):
        return full.relative_to(folder.resolve()).as_posix()
    return name
