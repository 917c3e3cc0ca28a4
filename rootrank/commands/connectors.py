"""`rootrank connectors check`: can each configured source be reached, what would be collected."""

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from connectors.protocol import Probe
from connectors.registry import build_connectors
from connectors.site import SiteError, load_site
from functions.adapters.site_sources import aws_outside

EXIT_BAD_INPUT: Final = 2
EXIT_UNREACHABLE: Final = 3
DEFAULT_SOURCES: Final = Path("sources.yaml")


class SourcesFileError(click.ClickException):
    """A site file that cannot be used."""

    exit_code = EXIT_BAD_INPUT


@click.group(name="connectors")
def connectors_command() -> None:
    """The sources that sources.yaml names."""


@connectors_command.command(name="check")
@click.option(
    "--sources",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_SOURCES,
    show_default=True,
    help="The site file.",
)
@click.option("--cluster", help="Only this cluster.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "jsonl"]),
    help="Default: text on a terminal, else json.",
)
@click.pass_context
def check_command(
    context: click.Context, *, sources: Path, cluster: str | None, form: str | None
) -> None:
    """Ask every configured source something small. Nothing is collected or changed.

    Exit code 2 where the file is wrong, 3 where a source cannot be used.
    """
    try:
        site = load_site(sources, os.environ)
    except SiteError as error:
        raise SourcesFileError(str(error)) from error
    if cluster is not None:
        if site.cluster(cluster) is None:
            known = ", ".join(each.name for each in site.clusters) or "none"
            raise SourcesFileError(f"{sources}: no cluster {cluster!r}; known are {known}")
        site = site.model_copy(update={"clusters": (site.cluster(cluster),)})
    probes = [each.probe() for each in build_connectors(site, aws_outside())]
    _print(probes, form or ("text" if sys.stdout.isatty() else "json"))
    if not probes:
        click.echo(f"{sources}: configures no source", err=True)
    if any(probe.status != "ok" for probe in probes):
        context.exit(EXIT_UNREACHABLE)


def _print(probes: list[Probe], form: str) -> None:
    if form == "json":
        click.echo(json.dumps([asdict(probe) for probe in probes], indent=2))
        return
    for probe in probes:
        if form == "jsonl":
            click.echo(json.dumps(asdict(probe)))
            continue
        click.echo(f"{probe.status:<14} {probe.connector:<12} {probe.target}")
        click.echo(f"{'':<14} {probe.detail}")
        for each in probe.would_collect:
            click.echo(f"{'':<14} would collect: {each}")
