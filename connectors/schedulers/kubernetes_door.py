"""How to get to an API server: an address and a token, the pod's own account, or a kubeconfig.

Of a kubeconfig the current or named context is taken. Programs in it (`exec`) are run only where
the site file allows it.
"""

import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from connectors.protocol import SourceNotConfiguredError
from connectors.schedulers.kubernetes_exec import Commands, run_exec
from connectors.site import InCluster, Kubeconfig, KubernetesApi

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Door:
    """An address with all that it takes to be let in."""

    url: str
    token: str | None
    verify: ssl.SSLContext
    timeout_s: float

    def client(self, transport: httpx.BaseTransport | None = None) -> httpx.Client:
        """Return a client; answers come as JSON."""
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(self.timeout_s, connect=min(5.0, self.timeout_s)),
            verify=self.verify,
            transport=transport,
            trust_env=False,
        )


def open_door(
    settings: KubernetesApi | InCluster | Kubeconfig,
    environment: Mapping[str, str],
    commands: Commands,
    *,
    token: str | None = None,
    account: Path = ACCOUNT,
) -> Door:
    """Return the way in; `token` is that of an address, `commands` runs a kubeconfig's program.

    Raises `SourceNotConfiguredError` where a part of it is missing.
    """
    if isinstance(settings, InCluster):
        host = environment.get("KUBERNETES_SERVICE_HOST")
        if not host:
            raise SourceNotConfiguredError(
                "KUBERNETES_SERVICE_HOST is not set: this is no pod; use kind: kubeconfig or api"
            )
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        shown = f"[{host}]" if ":" in host else host
        # Read again each time: the token is replaced every hour.
        own = _read(account / "token").decode("utf-8", "replace").strip()
        verify = _authority(_read(account / "ca.crt"))
        return Door(f"https://{shown}:{port}", own, verify, settings.timeout_s)
    if isinstance(settings, Kubeconfig):
        return _from_kubeconfig(settings, environment, commands)
    file = settings.ca_file
    authority = _authority(None if file is None else _read(Path(file)))
    return Door(settings.url, token, authority, settings.timeout_s)


def _from_kubeconfig(
    settings: Kubeconfig, environment: Mapping[str, str], commands: Commands
) -> Door:
    path = Path(settings.path).expanduser()
    try:
        value = yaml.load(_read(path), Loader=_LOADER)  # noqa: S506  a safe loader
    except yaml.YAMLError as error:
        raise SourceNotConfiguredError(f"{path}: no valid YAML") from error
    config = value if isinstance(value, dict) else {}
    name = settings.context or config.get("current-context")
    context = _named(config, "contexts", "context", name, path)
    cluster = _named(config, "clusters", "cluster", context.get("cluster"), path)
    user = _named(config, "users", "user", context.get("user"), path)
    url = str(cluster.get("server") or "").rstrip("/")
    if not url:
        raise SourceNotConfiguredError(f"{path}: cluster {context.get('cluster')!r} has no server")
    if cluster.get("insecure-skip-tls-verify"):
        raise SourceNotConfiguredError(
            f"{path}: insecure-skip-tls-verify is not followed; name certificate-authority"
        )
    verify = _authority(_data(cluster, "certificate-authority", path))
    certificate = _data(user, "client-certificate", path)
    key = _data(user, "client-key", path)
    token = _told_token(user, path)
    program = user.get("exec")
    if token is None and certificate is None and isinstance(program, dict):
        if not settings.allow_exec:
            raise SourceNotConfiguredError(
                f"{path}: the user runs {program.get('command')!r}; allow it with allow_exec: true"
            )
        given = run_exec(program, path.parent, environment=environment, commands=commands)
        token = given.token
        certificate = None if given.certificate is None else given.certificate.encode()
        key = None if given.key is None else given.key.encode()
    if certificate is not None:
        _show(verify, certificate, key or b"", path)
    return Door(url, token, verify, settings.timeout_s)


def _told_token(user: Mapping[str, Any], path: Path) -> str | None:
    if user.get("token"):
        return str(user["token"])
    if user.get("tokenFile"):
        file = path.parent / str(user["tokenFile"])
        return _read(file).decode("utf-8", "replace").strip()
    return None


def _show(context: ssl.SSLContext, certificate: bytes, key: bytes, path: Path) -> None:
    """Let the context show a client's certificate; ssl reads keys from files only."""
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        try:
            context.load_cert_chain(file.name)
        except (ssl.SSLError, OSError) as error:
            raise SourceNotConfiguredError(
                f"{path}: client-certificate and client-key do not fit ({error})"
            ) from error


def _named(config: Mapping[str, Any], many: str, one: str, name: Any, path: Path) -> dict[str, Any]:
    for each in config.get(many) or ():
        if isinstance(each, dict) and each.get("name") == name and isinstance(each.get(one), dict):
            return dict(each[one])
    raise SourceNotConfiguredError(f"{path}: has no {one} named {name!r}")


def _data(cluster: Mapping[str, Any], name: str, path: Path) -> bytes | None:
    if cluster.get(f"{name}-data"):
        try:
            return base64.b64decode(str(cluster[f"{name}-data"]), validate=True)
        except ValueError as error:
            raise SourceNotConfiguredError(f"{path}: {name}-data is no base64") from error
    return _read(path.parent / str(cluster[name])) if cluster.get(name) else None


def _authority(data: bytes | None) -> ssl.SSLContext:
    """Return a context that trusts this authority; where there is none, the public ones."""
    if data is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cadata=data.decode("ascii"))
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise SourceNotConfiguredError(f"certificate authority: unreadable ({error})") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceNotConfiguredError(
            f"{path}: cannot be read ({error.strerror}); name the right file"
        ) from error
