"""`rootrank rules docs`: the reference pages, written or checked."""

from pathlib import Path

import click

from engine.rulebook.reference import reference_pages
from rootrank.commands.rule_options import count, loaded_book, loaded_rules, rules_option


@click.command(name="docs")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True,
    help="The folder of the pages, such as docs/reference.",
)  # fmt: skip
@click.option("--check", "only_check", is_flag=True, help="Write nothing; report stale pages.")
@rules_option
@click.pass_context
def docs_command(context: click.Context, *, folder: Path, output: Path, only_check: bool) -> None:
    """Write the reference pages: an index, and one page for each domain.

    With --check a page that differs, is missing or is left over is a finding.
    """
    pages = reference_pages(loaded_rules(folder), loaded_book(folder))
    old = {path.name: path.read_text(encoding="utf-8") for path in output.glob("*.md")}
    stale = sorted(name for name in {*pages, *old} if pages.get(name) != old.get(name))
    if only_check:
        for name in stale:
            click.echo(f"{output / name} is stale; run `rootrank rules docs -o {output}`")
        context.exit(1 if stale else 0)
    output.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in pages:
            (output / name).write_text(pages[name], encoding="utf-8")
        else:
            (output / name).unlink()
    click.echo(f"{count(len(pages), 'page')} in {output}, {len(stale)} changed", err=True)
