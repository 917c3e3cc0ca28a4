"""How many collectors may ask one source at once, over all attempts: leases in the table.

One item a source, `LEASES` / `<cluster>/<connector>`, holds who has a lease and until when. A
collector that died keeps its lease until it runs out, a little longer than a function can live.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from connectors.protocol import ConnectorError, TransientError
from functions.adapters.faults import AWS_ERRORS, error_code
from functions.adapters.results_table import ResultsTable, refuse, to_wire

LEASES: Final = "LEASES"
LEASE_SECONDS: Final = 960
"""A function lives for 900 s at most."""
_TRIES: Final = 5


class SourceFullError(TransientError):
    """As many collectors as a site allows ask this source now; the workflow tries again later."""


class _LeaseChangedError(Exception):
    """Somebody else took or gave back a lease in between."""


@dataclass(slots=True, frozen=True)
class Leases:
    """Leases over the table. `now` counts seconds since the epoch."""

    table: ResultsTable
    now: Callable[[], float]

    @contextmanager
    def held(self, source: str, owner: str, at_once: int) -> Iterator[None]:
        """Hold one of `at_once` leases while the body runs; raises `SourceFullError`.

        `owner` names the item: a second run of it takes over the lease of the first.
        """
        self._change(source, lambda leases: self._with(leases, source, owner, at_once=at_once))
        try:
            yield
        finally:
            # What was collected counts; a lease that cannot be given back now runs out.
            with suppress(ConnectorError):
                self._change(source, lambda leases: _without(leases, owner))

    def _with(
        self, leases: Mapping[str, int], source: str, owner: str, *, at_once: int
    ) -> dict[str, int]:
        now = int(self.now())
        alive = {name: until for name, until in leases.items() if until > now and name != owner}
        if len(alive) >= at_once:
            raise SourceFullError(
                f"{source}: {at_once} collectors ask it already; at_once in the site file allows "
                "no more"
            )
        return {**alive, owner: now + LEASE_SECONDS}

    def _change(self, source: str, change: Callable[[Mapping[str, int]], dict[str, int]]) -> None:
        for _ in range(_TRIES):
            item = self.table.get(LEASES, source) or {}
            version = int(item.get("version", 0))
            try:
                self._write(source, change(item.get("leases", {})), version)
            except _LeaseChangedError:
                continue
            return
        raise SourceFullError(f"{source}: its leases changed {_TRIES} times meanwhile")

    def _write(self, source: str, leases: dict[str, int], version: int) -> None:
        item: dict[str, Any] = {
            "pk": LEASES, "sk": source, "leases": leases, "version": version + 1,
            "expires_at": int(self.now()) + 2 * LEASE_SECONDS,
        }  # fmt: skip
        condition = "attribute_not_exists(pk)" if version == 0 else "version = :version"
        request: dict[str, Any] = {
            "TableName": self.table.name,
            "Item": to_wire(item),
            "ConditionExpression": condition,
        }
        if version:
            request["ExpressionAttributeValues"] = to_wire({":version": version})
        try:
            self.table.client.put_item(**request)
        except AWS_ERRORS as error:
            if error_code(error) == "ConditionalCheckFailedException":
                raise _LeaseChangedError from error
            refuse(error, f"lease {source}")


def _without(leases: Mapping[str, int], owner: str) -> dict[str, int]:
    return {name: until for name, until in leases.items() if name != owner}
