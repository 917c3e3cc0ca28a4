"""Credentials from a program that a kubeconfig names, as EKS's `aws eks get-token`.

Source: kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from connectors.command import CommandRunner
from connectors.protocol import SourceNotConfiguredError

Commands = Callable[[Mapping[str, str]], CommandRunner]
_TIMEOUT_S: Final = 30.0
_HANDED_ON: Final = ("HOME", "PATH", "USER", "HTTPS_PROXY", "NO_PROXY")
_HANDED_ON_PREFIX: Final = "AWS_"
"""What such programs need of our environment: where they are, and the cloud's own settings."""


@dataclass(slots=True, frozen=True)
class Credential:
    """A token, or a certificate with its key (PEM)."""

    token: str | None
    certificate: str | None = None
    key: str | None = None


def run_exec(
    program: Mapping[str, Any],
    folder: Path,
    *,
    environment: Mapping[str, str],
    commands: Commands,
) -> Credential:
    """Return what the program gives; raises `SourceNotConfiguredError` where that is nothing.

    A relative path is below the kubeconfig's `folder`; a bare name is looked for on the PATH.
    """
    name = str(program.get("command") or "")
    if "/" in name:
        name = str(folder / name)
    arguments = program.get("args")
    argv = [name, *(str(each) for each in (arguments if isinstance(arguments, list) else ()))]
    answer = commands(_environment(program, environment)).run(argv, timeout_s=_TIMEOUT_S)
    try:
        status = json.loads(answer)["status"]
        found = {
            field: status.get(field)
            for field in ("token", "clientCertificateData", "clientKeyData")
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SourceNotConfiguredError(f"{name}: printed no ExecCredential") from error
    texts = {field: value for field, value in found.items() if isinstance(value, str) and value}
    if not texts:
        raise SourceNotConfiguredError(f"{name}: gave neither a token nor a certificate")
    return Credential(
        texts.get("token"), texts.get("clientCertificateData"), texts.get("clientKeyData")
    )


def _environment(program: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, str]:
    found = {
        name: value
        for name, value in environment.items()
        if name in _HANDED_ON or name.startswith(_HANDED_ON_PREFIX)
    }
    given = program.get("env")
    for each in given if isinstance(given, list) else ():
        if isinstance(each, Mapping) and each.get("name"):
            found[str(each["name"])] = str(each.get("value") or "")
    version = program.get("apiVersion") or "client.authentication.k8s.io/v1beta1"
    told = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    return found | {"KUBERNETES_EXEC_INFO": json.dumps(told)}
