"""`rootrank attribute PATH...`: the pure engine on bundles, bare folders and single files."""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any, Literal

import click

from connectors.bundle import BundleError
from engine.extract.scanner import Scanner
from engine.model.canonical import canonical_json
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from engine.rulebook.artifact import ArtifactError
from engine.rulebook.book import Rulebook
from engine.rulebook.problem import RulesError
from rootrank.kept import kept_scanner
from rootrank.local_case import load_book, read_case
from rootrank.text import printable, render_verdict

Format = Literal["text", "json", "jsonl"]
EXIT_BAD_INPUT = 2
EXIT_INTERNAL = 4


def attribute_path(path: Path | str, *, book: Rulebook, scanner: Scanner | None = None) -> Verdict:
    """Return the verdict of one bundle, bare folder or file; raises `BundleError`."""
    return attribute(read_case(path, book=book, scanner=scanner).case, book)


@click.command(name="attribute")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "jsonl"]),
    help="Default: text on a terminal, json otherwise.",
)
@click.option(
    "--rules",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder of rules (default: the ones shipped with this release).",
)
@click.option(
    "--site-rules",
    "site",
    type=click.Path(path_type=Path),
    help="A folder of your own YAML rules and overrides.yaml, read over the release's.",
)
@click.pass_context
def attribute_command(
    context: click.Context,
    paths: tuple[str, ...],
    *,
    output: Format | None,
    folder: Path | None,
    site: Path | None,
) -> None:
    """Say why each job failed.

    PATH is a bundle (a folder with workload.yaml), a bare folder of logs, or one file. Nothing
    leaves this machine. Exit code 0 whatever the verdict, 2 where a path is no bundle, 4 after an
    error of ours.
    """
    book = open_book(folder, site)
    scanner = kept_scanner(book)
    results: list[Verdict | str] = []
    code = 0
    for path in paths:
        try:
            results.append(_attribute_loudly(path, book=book, scanner=scanner))
        except BundleError as error:
            code = max(code, EXIT_BAD_INPUT)
            results.append(str(error))
            click.echo(f"rootrank: {printable(str(error))}", err=True)
        except Exception as error:  # noqa: BLE001  one bundle must not take the others' verdicts
            code = EXIT_INTERNAL
            results.append(f"{path}: internal error ({type(error).__name__}: {error})")
            click.echo(f"rootrank: {path}: internal error, please report it", err=True)
            click.echo(traceback.format_exc(), err=True)
    print_results(results, output or ("text" if sys.stdout.isatty() else "json"))
    context.exit(code)


def _attribute_loudly(path: str, *, book: Rulebook, scanner: Scanner) -> Verdict:
    """Attribute one path and tell what the bundle's writer should mend."""
    local = read_case(path, book=book, scanner=scanner)
    folder = Path(path)
    inside = sorted(each.parent.name for each in folder.glob("*/workload.yaml"))
    if inside and not (folder / "workload.yaml").is_file():
        click.echo(
            f"rootrank: warning: {printable(path)} was read as one job, but {len(inside)} folders "
            f"in it are bundles of their own ({printable(', '.join(inside[:3]))} ...): to judge "
            f"each, give the folders themselves: rootrank attribute {printable(path)}/*",
            err=True,
        )
    for warning in local.bundle.warnings:
        click.echo(f"rootrank: warning: {printable(warning)}", err=True)
    return attribute(local.case, book)


def open_book(folder: Path | None, site: Path | None = None) -> Rulebook:
    """Return the rulebook; a broken one ends the command with exit code 2."""
    try:
        return load_book(folder, site)
    except (RulesError, ArtifactError, OSError) as error:
        click.echo(f"rootrank: the rules cannot be used: {error}", err=True)
        raise click.exceptions.Exit(EXIT_BAD_INPUT) from error


def print_results(results: list[Verdict | str], output: Format) -> None:
    """Print verdicts, and errors in their place, in the order given."""
    if output == "text":
        colour = wants_colour()
        shown = [
            render_verdict(each, colour=colour) for each in results if isinstance(each, Verdict)
        ]
        if shown:
            click.echo("\n\n".join(shown), color=colour)
        return
    documents = [_document(each) for each in results]
    if output == "jsonl":
        for document in documents:
            click.echo(canonical_json(document).decode())
    elif len(documents) == 1:
        click.echo(canonical_json(documents[0]).decode())
    else:
        click.echo(canonical_json(documents).decode())


def _document(result: Verdict | str) -> dict[str, Any]:
    if isinstance(result, str):
        return {"error": result}
    return json_document(result)


def json_document(verdict: Verdict) -> dict[str, Any]:
    """Return the verdict as plain JSON data."""
    document: dict[str, Any] = json.loads(verdict.model_dump_json())
    return document


def wants_colour() -> bool:
    """Whether standard output is a terminal that may show colour (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
