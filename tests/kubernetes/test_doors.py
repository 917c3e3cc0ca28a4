"""Every way in, over TLS against the contract server with an authority of its own."""

import base64
import json
import sys

import pytest
import yaml
from apiserver import TOKEN, pod, serving
from authority import Authority

from connectors.allowance import Allowance
from connectors.command import LocalCommands
from connectors.http_source import HttpSource
from connectors.protocol import (
    SourceNotConfiguredError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.schedulers.kubernetes_door import open_door
from connectors.site import InCluster, Kubeconfig
from connectors.site import KubernetesApi as Address
from engine.model.plan import Budget


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority):
    with serving(tls=authority.server_context()) as running:
        running.put("pods", pod("sft-0", "n1"))
        yield running


def names_of(door):
    allowance = Allowance(Budget(), lambda: 0.0)
    with door.client() as client:
        source = HttpSource(client, "kubernetes", allowance, lambda _s: None)
        items = KubernetesApi(source).list_items("Pod", "ml").items
    return [each["metadata"]["name"] for each in items]


def kubeconfig(tmp_path, server, authority, *, user, cluster=None):
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server.url} | (
            {"certificate-authority": str(authority.ca)} if cluster is None else cluster)}],
        "users": [{"name": "u", "user": user}],
    }  # fmt: skip
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def open_config(path, environment=(), **settings):
    return open_door(Kubeconfig(path=path, **settings), dict(environment), LocalCommands)


def encoded(path):
    return base64.b64encode(path.read_bytes()).decode()


def test_a_token_and_an_authority_by_file(tmp_path, server, authority):
    path = kubeconfig(tmp_path, server, authority, user={"token": TOKEN})
    assert names_of(open_config(path)) == ["sft-0"]


def test_a_token_file_and_an_authority_in_the_file_itself(tmp_path, server, authority):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    data = {"certificate-authority-data": encoded(authority.ca)}
    path = kubeconfig(tmp_path, server, authority, user={"tokenFile": "token"}, cluster=data)
    assert names_of(open_config(path)) == ["sft-0"]


@pytest.mark.parametrize("form", ["file", "data"])
def test_a_clients_certificate(tmp_path, server, authority, form):
    certificate, key = authority.issue("client")
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    if form == "data":
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    path = kubeconfig(tmp_path, server, authority, user=user)
    assert names_of(open_config(path)) == ["sft-0"]


def test_a_certificate_of_another_key_is_not_configured(tmp_path, server, authority):
    certificate, _ = authority.issue("client")
    _, other = authority.issue("other")
    user = {"client-certificate": str(certificate), "client-key": str(other)}
    path = kubeconfig(tmp_path, server, authority, user=user)
    with pytest.raises(SourceNotConfiguredError, match="do not fit"):
        open_config(path)


def test_nobody_is_let_in_without_token_or_certificate(tmp_path, server, authority):
    path = kubeconfig(tmp_path, server, authority, user={})
    with pytest.raises(SourceRefusedError, match="HTTP 401"):
        names_of(open_config(path))


def test_a_server_of_another_authority_is_not_spoken_to(tmp_path, server, authority):
    folder = tmp_path / "other"
    folder.mkdir()
    cluster = {"certificate-authority": str(Authority(folder).ca)}
    path = kubeconfig(tmp_path, server, authority, user={"token": TOKEN}, cluster=cluster)
    with pytest.raises(SourceUnreachableError, match="certificate verify failed"):
        names_of(open_config(path))


def test_unverified_tls_is_refused(tmp_path, server, authority):
    cluster = {"insecure-skip-tls-verify": True}
    path = kubeconfig(tmp_path, server, authority, user={"token": TOKEN}, cluster=cluster)
    with pytest.raises(SourceNotConfiguredError, match="is not followed"):
        open_config(path)


PROGRAM = """#!{python}
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["kind"] == "ExecCredential" and asked["spec"] == {{"interactive": False}}
assert sys.argv[1:] == ["eks", "get-token", "--cluster-name", "a"]
assert os.environ["AWS_PROFILE"] == "ml" and os.environ["AWS_REGION"] == "eu-west-1"
assert "SECRET_OF_OURS" not in os.environ
version = asked["apiVersion"]
print(json.dumps({{"kind": "ExecCredential", "apiVersion": version, "status": {status}}}))
"""


def eks(tmp_path, status):
    """Return a user as `aws eks update-kubeconfig` writes it, with a program in place of aws."""
    program = tmp_path / "aws"
    program.write_text(PROGRAM.format(python=sys.executable, status=status))
    program.chmod(0o755)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws",
            "args": ["eks", "get-token", "--cluster-name", "a"],
            "env": [{"name": "AWS_PROFILE", "value": "ml"}],
        }
    }  # fmt: skip


def eks_environment(tmp_path):
    return {"PATH": str(tmp_path), "AWS_REGION": "eu-west-1", "SECRET_OF_OURS": "x"}


def test_a_program_gives_the_token_as_on_eks(tmp_path, server, authority):
    user = eks(tmp_path, {"token": TOKEN, "expirationTimestamp": "2026-01-01T00:14:00Z"})
    path = kubeconfig(tmp_path, server, authority, user=user)
    door = open_config(path, eks_environment(tmp_path), allow_exec=True)
    assert names_of(door) == ["sft-0"]


def test_a_program_may_give_a_certificate(tmp_path, server, authority):
    certificate, key = (each.read_text() for each in authority.issue("client"))
    user = eks(tmp_path, {"clientCertificateData": certificate, "clientKeyData": key})
    path = kubeconfig(tmp_path, server, authority, user=user)
    assert names_of(open_config(path, eks_environment(tmp_path), allow_exec=True)) == ["sft-0"]


def test_a_program_is_not_run_where_the_site_does_not_allow_it(tmp_path, server, authority):
    path = kubeconfig(tmp_path, server, authority, user=eks(tmp_path, {"token": TOKEN}))
    with pytest.raises(SourceNotConfiguredError, match="allow it with allow_exec: true"):
        open_config(path, eks_environment(tmp_path))


@pytest.mark.parametrize("status", [{}, None, {"token": ""}])
def test_a_program_that_gives_nothing_says_so(tmp_path, server, authority, status):
    path = kubeconfig(tmp_path, server, authority, user=eks(tmp_path, status))
    with pytest.raises(SourceNotConfiguredError, match=r"ExecCredential|neither a token"):
        open_config(path, eks_environment(tmp_path), allow_exec=True)


def test_a_pods_own_account(tmp_path, server, authority):
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_bytes(authority.ca.read_bytes())
    environment = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(server.server_port),
    }
    door = open_door(InCluster(), environment, LocalCommands, account=tmp_path)
    assert names_of(door) == ["sft-0"]
    (tmp_path / "token").write_text("replaced")
    again = open_door(InCluster(), environment, LocalCommands, account=tmp_path)
    with pytest.raises(SourceRefusedError):
        names_of(again)


def test_an_address_with_a_token_and_an_authority(server, authority):
    settings = Address(url=server.url, ca_file=str(authority.ca))
    assert names_of(open_door(settings, {}, LocalCommands, token=TOKEN)) == ["sft-0"]
    with pytest.raises(SourceUnreachableError, match="certificate verify failed"):
        names_of(open_door(Address(url=server.url), {}, LocalCommands, token=TOKEN))


def test_a_kubeconfig_that_lacks_a_part_names_it(tmp_path, server, authority):
    path = kubeconfig(tmp_path, server, authority, user={"token": TOKEN})
    with pytest.raises(SourceNotConfiguredError, match="has no context named 'other'"):
        open_config(path, context="other")
    with pytest.raises(SourceNotConfiguredError, match="cannot be read"):
        open_config(str(tmp_path / "none"))
    assert json.dumps(TOKEN) not in path
