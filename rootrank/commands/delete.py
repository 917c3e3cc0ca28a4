"""`rootrank delete`: everything of one workload or tenant, removed for good."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from functions.query.plain import counted
from rootrank.results_source import (
    NotFoundError,
    UnreachableError,
    bucket_option,
    state_option,
    table_option,
)

if TYPE_CHECKING:
    from functions.adapters.erasure import Erased, Erasure


@click.command(name="delete")
@click.argument("what", metavar="ATTEMPT|WORKLOAD|TENANT")
@click.option("--yes", is_flag=True, help="Delete. Without it the command only says what it would.")
@click.option("--keep-bundles", is_flag=True, help="Leave the bundles that the events named.")
@state_option
@table_option
@bucket_option
def delete_command(
    what: str,
    *,
    yes: bool,
    keep_bundles: bool,
    state: Path,
    table: str | None,
    bucket: str | None,
) -> None:
    """Delete an attempt (tenant/cluster/scheduler/job/attempt), a workload (without the last
    part) or a whole tenant (its name): events, plans, observations, verdicts, bundles, table items.

    Messages that subscribers received, logs of the functions and the table's backups are not in
    reach; docs/operations.md says how long they live.
    """
    from connectors.protocol import ConnectorError  # noqa: PLC0415

    prefix = _prefix(what)
    try:
        with _erasure(state, table, bucket, is_trial=not yes) as erasure:
            attempts = erasure.attempts_below(prefix)
            bundles = [] if keep_bundles else _bundles(erasure, attempts)
            is_tenant = what.strip("/").count("/") == 0
            if is_tenant and not keep_bundles:
                bundles.append(f"bundles/{what.strip('/')}/")
            total = _erase(erasure, attempts, bundles, is_tenant=is_tenant)
            if not total.items and not total.versions:
                raise NotFoundError(f"nothing is stored of {what!r}")
    except ConnectorError as error:
        raise UnreachableError(str(error)) from error
    verb = "deleted" if yes else "would delete"
    click.echo(
        f"{verb} {counted(len(attempts), 'attempt')}: {counted(total.items, 'table item')}, "
        f"{counted(total.objects, 'object')} in {counted(total.versions, 'version')}"
    )
    if not yes:
        click.echo("nothing was changed; repeat with --yes", err=True)


def _prefix(what: str) -> str:
    parts = what.strip("/").split("/")
    from functions.adapters.keys import RESERVED  # noqa: PLC0415

    if parts[0] in RESERVED or not all(parts) or len(parts) not in (1, 4, 5):
        raise click.BadParameter(
            f"{what!r} is neither a tenant, nor tenant/cluster/scheduler/job, nor that and an "
            "attempt; `rootrank list --format json` shows attempt keys",
            param_hint="WHAT",
        )
    return "/".join(parts) + "/"


def _bundles(erasure: "Erasure", attempts: list[str]) -> list[str]:
    """Return the prefixes of the bundles that the attempts' plans name."""
    from connectors.protocol import ConnectorError  # noqa: PLC0415
    from engine.model.plan import Plan  # noqa: PLC0415
    from functions.adapters.object_store import ObjectStore  # noqa: PLC0415
    from functions.attribute.again import key_of  # noqa: PLC0415

    store = ObjectStore(erasure.s3, erasure.bucket)
    found: set[str] = set()
    for attempt in attempts:
        for key, _ in store.list_objects(f"{attempt}/plans/"):
            if not key.endswith("/plan.json"):
                continue
            try:
                plan = Plan.model_validate_json(store.get(key)[0])
            except (ConnectorError, ValueError):
                continue
            for item in plan.items:
                place = key_of(item.base_uri or "")
                if place.startswith("bundles/") and len(place) > len("bundles/"):
                    found.add(place.rstrip("/") + "/")
    return sorted(found)


def _erase(
    erasure: "Erasure", attempts: list[str], bundles: list[str], *, is_tenant: bool
) -> "Erased":
    from functions.adapters.erasure import Erased  # noqa: PLC0415

    total = Erased()
    for attempt in attempts:
        total += erasure.erase_attempt(attempt)
    for prefix in sorted(set(bundles)):
        total += erasure.erase_objects(prefix)
    if is_tenant:
        total += erasure.erase_days({"/".join(each.split("/")[:2]) for each in attempts})
    return total


@contextmanager
def _erasure(
    state: Path, table: str | None, bucket: str | None, *, is_trial: bool
) -> "Iterator[Any]":
    import boto3  # noqa: PLC0415

    from functions.adapters.erasure import Erasure  # noqa: PLC0415

    if (table is None) != (bucket is None):
        raise click.UsageError("--table and --bucket belong together")
    if table is not None and bucket is not None:
        yield Erasure(boto3.client("s3"), boto3.client("dynamodb"), bucket, table, is_trial)
        return
    from rootrank.embedded.stack import open_storage  # noqa: PLC0415
    from rootrank.embedded.state import StateError  # noqa: PLC0415

    try:
        with open_storage(state, is_kept=not is_trial) as names:
            clients = boto3.client("s3"), boto3.client("dynamodb")
            yield Erasure(*clients, names.bucket, names.table, is_trial)
    except StateError as error:
        raise NotFoundError(str(error)) from error
