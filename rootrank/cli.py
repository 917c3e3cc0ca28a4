"""The `rootrank` command: a thin group whose commands load only when they are called."""

import importlib

import click

from functions.collect.pace import collect_rarely

_COMMANDS = {
    "attribute": "rootrank.commands.attribute",
    "backfill": "rootrank.commands.backfill",
    "collect": "rootrank.commands.collect",
    "connectors": "rootrank.commands.connectors",
    "dashboard": "rootrank.commands.dashboard",
    "delete": "rootrank.commands.delete",
    "explain": "rootrank.commands.explain",
    "list": "rootrank.commands.results",
    "nodes": "rootrank.commands.tallies",
    "replay": "rootrank.commands.replay",
    "rules": "rootrank.commands.rules",
    "run": "rootrank.commands.run",
    "serve": "rootrank.commands.serve",
    "show": "rootrank.commands.results",
    "trends": "rootrank.commands.tallies",
}
"""Command name to the module that defines a click command of the name `<name>_command`."""


class LazyGroup(click.Group):
    """Imports a command's module on first use, so that `attribute` never pays for boto3."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in alphabetical order."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None for a name we do not have."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name])
        command = getattr(module, f"{cmd_name}_command")
        return command if isinstance(command, click.Command) else None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="rootrank")
def main() -> None:
    """Say why a distributed AI job died: where the failure started, and on what evidence."""
    collect_rarely()
