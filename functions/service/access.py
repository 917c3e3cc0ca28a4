"""Who is calling, for which tenant, and what that caller may do. Nobody is let in by default.

API Gateway authenticates (IAM or JWT); this maps what it says of the caller to a tenant. A tenant
never comes from a path, a query or a body.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import Field, ValidationError, field_validator

from connectors.protocol import ConnectorError
from engine.model.contract import StrictDocument
from functions.adapters.keys import RESERVED

Right = Literal["read", "write", "correct"]

_ASSUMED: Final = re.compile(r"arn:(aws[a-z-]*):sts::(\d{12}):assumed-role/([\w+=,.@-]+)/.+")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=:,-]{0,127}")


class AccessMapError(ConnectorError):
    """A mapping of callers to tenants that cannot be read."""


class CallerUnknownError(ConnectorError):
    """An authenticated caller whom the mapping gives no tenant."""


class RightMissingError(ConnectorError):
    """A caller who may not do this."""


def _known_tenant(value: str) -> str:
    if not _TENANT.fullmatch(value) or value in RESERVED:
        raise ValueError(
            f"{value!r} is no tenant: letters, digits and ._+=:,- and no reserved name"
        )
    return value


class IamCaller(StrictDocument):
    """A role or user by its ARN; a role's sessions are the role."""

    principal: str = Field(pattern=r"^arn:aws[a-z-]*:iam::\d{12}:(role|user)/[\w+=,.@/-]+$")
    tenant: str
    may: tuple[Right, ...] = ("read", "write")

    _tenant = field_validator("tenant")(_known_tenant)


class JwtCaller(StrictDocument):
    """A value of the tenant claim; rights come from the token's scopes where `scopes` names any."""

    value: str = Field(min_length=1, max_length=256)
    tenant: str
    may: tuple[Right, ...] = ("read", "write")

    _tenant = field_validator("tenant")(_known_tenant)


class AccessMap(StrictDocument):
    """The whole mapping. `scopes` says which right a scope of a token carries; without it `may`."""

    version: Literal[1] = 1
    iam: tuple[IamCaller, ...] = ()
    tenant_claim: str = "tenant"
    jwt: tuple[JwtCaller, ...] = ()
    scopes: dict[str, Right] = Field(default={})


@dataclass(slots=True, frozen=True)
class Caller:
    """One authenticated caller: `name` is for the record, `tenant` decides what exists."""

    name: str
    tenant: str
    may: frozenset[Right]

    def require(self, right: Right) -> None:
        """Raise `RightMissingError` where the caller lacks the right."""
        if right not in self.may:
            raise RightMissingError(
                f"{self.name} may not {right} for tenant {self.tenant}; "
                f"whoever runs the service grants it in the access mapping"
            )


def read_access_map(text: str) -> AccessMap:
    """Read the mapping; empty text lets nobody in. Raises `AccessMapError`."""
    if not text.strip():
        return AccessMap()
    try:
        return AccessMap.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"]) or "the mapping"
        raise AccessMapError(f"SERVICE_ACCESS: {place}: {problem['msg']}") from error


def caller_of(event: Mapping[str, Any], access: AccessMap) -> Caller:
    """Return who sent a request; raises `CallerUnknownError` for whom the mapping leaves out."""
    context = event.get("requestContext")
    authorizer = context.get("authorizer") if isinstance(context, Mapping) else None
    if isinstance(authorizer, Mapping):
        iam, jwt = authorizer.get("iam"), authorizer.get("jwt")
        if isinstance(iam, Mapping):
            return _by_arn(str(iam.get("userArn") or ""), access)
        if isinstance(jwt, Mapping):
            return _by_claims(jwt, access)
    raise CallerUnknownError("the request carries no authenticated caller")


def _by_arn(arn: str, access: AccessMap) -> Caller:
    """Find an ARN in the mapping. A role's session ARN lacks the role's path, so names decide."""
    match = _ASSUMED.fullmatch(arn)
    for entry in access.iam:
        same = entry.principal == arn
        if match is not None:
            head, path = entry.principal.split("/", 1)
            role = f"arn:{match[1]}:iam::{match[2]}:role"
            same = head == role and path.rsplit("/", 1)[-1] == match[3]
        if same:
            return Caller(entry.principal, entry.tenant, frozenset(entry.may))
    raise CallerUnknownError(f"{arn or 'this caller'} is in no tenant of this service")


def _by_claims(jwt: Mapping[str, Any], access: AccessMap) -> Caller:
    claims = jwt.get("claims")
    claims = claims if isinstance(claims, Mapping) else {}
    value = str(claims.get(access.tenant_claim) or "")
    entry = next((each for each in access.jwt if each.value == value), None)
    if entry is None or not value:
        raise CallerUnknownError(
            f"the token's claim {access.tenant_claim!r} names no tenant of this service"
        )
    may = frozenset(entry.may)
    if access.scopes:
        given = jwt.get("scopes") or str(claims.get("scope") or "").split()
        may &= {access.scopes[each] for each in given if each in access.scopes}
    return Caller(str(claims.get("sub") or value), entry.tenant, may)
