"""`rootrank explain PATH RULE`: why a rule did or did not fire."""

import difflib
from pathlib import Path

import click

from connectors.bundle import BundleError
from rootrank.commands.attribute import EXIT_BAD_INPUT, open_book
from rootrank.explanation import explain, known_rules
from rootrank.local_case import read_case


@click.command(name="explain")
@click.argument("path")
@click.argument("rule")
@click.option("--rules", "folder", type=click.Path(path_type=Path), help="The folder of rules.")
@click.pass_context
def explain_command(context: click.Context, path: str, rule: str, *, folder: Path | None) -> None:
    """Say what RULE saw in the bundle at PATH, and which of its clauses failed first."""
    book = open_book(folder)
    known = known_rules(book)
    if rule not in known:
        near = difflib.get_close_matches(rule, known, n=3, cutoff=0.4)
        near = near or [each for each in known if rule in each][:3]
        hint = f"; did you mean {', '.join(near)}?" if near else "; see `rootrank rules check`"
        click.echo(f"rootrank: no rule is named {rule!r}{hint}", err=True)
        context.exit(EXIT_BAD_INPUT)
    try:
        local = read_case(path, book=book)
    except BundleError as error:
        click.echo(f"rootrank: {error}", err=True)
        context.exit(EXIT_BAD_INPUT)
    click.echo(f"rule {rule} on {path}")
    for line in explain(local, rule, book=book):
        click.echo(line)
