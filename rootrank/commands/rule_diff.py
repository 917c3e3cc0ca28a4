"""`rootrank rules diff`: what a change of the rules alters, and the version that it needs."""

import io
import subprocess
import tarfile
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from engine.rulebook.diff import compare, is_enough, needed_bump, next_version
from engine.rulebook.problem import RulesError
from engine.rulebook.shipped import ruleset_version
from rootrank.commands.rule_options import loaded_book, loaded_rules, rules_option
from rootrank.rule_diff import VerdictChange, bundles_below, changed_verdicts

_GIT_SECONDS = 60


@click.command(name="diff")
@click.argument("old")
@click.argument("new", required=False)
@click.option(
    "--corpus", type=click.Path(path_type=Path, exists=True, file_okay=False), multiple=True,
    help="A folder of bundles to attribute with both; may be given several times.",
)  # fmt: skip
@rules_option
@click.pass_context
def diff_command(
    context: click.Context, old: str, new: str | None, *, corpus: tuple[Path, ...], folder: Path
) -> None:
    """Compare two sets of rules: what changed, which verdicts, and the version it needs.

    OLD and NEW are folders or git revisions (`HEAD~1`) of the rules folder, which is NEW's default.
    Exits with 1 when NEW's VERSION does not honour the change.
    """
    with ExitStack() as stack:
        before = _folder_of(old, folder, stack)
        after = folder if new is None else _folder_of(new, folder, stack)
        if not _compare(before, after, corpus):
            context.exit(1)


def _compare(old: Path, new: Path, corpus: tuple[Path, ...]) -> bool:
    changes = compare(loaded_rules(old), loaded_rules(new))
    for change in changes:
        fields = f": {', '.join(change.fields)}" if change.fields else ""
        click.echo(f"{change.what:8} {change.rule} ({change.bump}){fields}")
    verdicts = _verdict_changes(old, new, corpus) if corpus else []
    bump = needed_bump(changes, verdicts_changed=bool(verdicts))
    try:
        before, after = ruleset_version(old), ruleset_version(new)
        wanted, enough = next_version(before, bump), is_enough(before, after, bump)
    except (RulesError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    click.echo(f"version  {before} -> {after}; the change is {bump}, which needs {wanted}")
    return enough


def _verdict_changes(old: Path, new: Path, corpus: tuple[Path, ...]) -> list[VerdictChange]:
    from rootrank.commands.attribute import attribute_path  # noqa: PLC0415

    bundles = bundles_below(corpus)
    found = changed_verdicts(
        bundles, loaded_book(old), loaded_book(new),
        attribute=lambda path, book: attribute_path(path, book=book),
    )  # fmt: skip
    for change in found:
        click.echo(f"verdict  {change.bundle}{': ' + change.error if change.error else ''}")
        for field, before, after in change.fields:
            click.echo(f"    {field}: {before or '(none)'} -> {after or '(none)'}")
    click.echo(f"corpus   {len(found)} of {len(bundles)} verdicts differ")
    return found


def _folder_of(name: str, folder: Path, stack: ExitStack) -> Path:
    """A folder as it is; else the rules folder as a git revision had it."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.exists():
        raise click.UsageError(f"{name} is a file; give a folder or a git revision")
    target = Path(stack.enter_context(TemporaryDirectory(prefix="rules-")))
    archive = _git_archive(name, folder)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(target, filter="data")
    return target


def _git_archive(revision: str, folder: Path) -> bytes:
    if revision.startswith("-"):
        raise click.UsageError(f"{revision!r} is neither a folder nor a git revision")
    prefix = _git(folder, "rev-parse", "--show-prefix").decode().strip()
    return _git(folder, "archive", "--format=tar", f"{revision}:{prefix}")


def _git(folder: Path, *arguments: str) -> bytes:
    root = ["-C", str(folder.resolve())]
    if arguments[0] == "archive":  # a tree of its own is archived from the top only
        top = _git(folder, "rev-parse", "--show-toplevel").decode().strip()
        root = ["-C", top]
    command = ["git", *root, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise click.UsageError(f"git cannot be asked: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else "git failed"
        message = f"neither a folder nor a git revision of {folder}: {reason}"
        raise click.UsageError(message)
    return done.stdout
