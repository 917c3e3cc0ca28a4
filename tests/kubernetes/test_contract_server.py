"""The contract server is one: the official Python client and kubectl work with it."""

import json
import subprocess
from pathlib import Path

import pytest
from apiserver import TOKEN, Fault, pod, serving
from authority import Authority

ROOT = Path(__file__).parents[2]
CLIENT = """
import json, sys
from kubernetes import client, watch
settings = client.Configuration()
settings.host, settings.api_key = sys.argv[1], {"authorization": "Bearer " + sys.argv[2]}
core = client.CoreV1Api(client.ApiClient(settings))
first = core.list_namespaced_pod("ml", limit=2)
token, names = first.metadata._continue, [each.metadata.name for each in first.items]
while token:
    page = core.list_namespaced_pod("ml", limit=2, _continue=token)
    token = page.metadata._continue
    names += [each.metadata.name for each in page.items]
events = []
stream = watch.Watch().stream(
    core.list_namespaced_pod, "ml", resource_version="100", timeout_seconds=1
)
for event in stream:
    events.append([event["type"], event["object"].metadata.name])
custom = client.CustomObjectsApi(client.ApiClient(settings))
found = custom.list_namespaced_custom_object("kueue.x-k8s.io", "v1beta1", "ml", "workloads")
try:
    core.list_namespaced_pod("forbidden")
    refused = 0
except client.ApiException as error:
    refused = error.status
print(json.dumps({"names": names, "events": events, "refused": refused,
                  "workloads": len(found["items"])}))
"""


@pytest.mark.system("kubernetes-client")
def test_the_official_client_lists_pages_watches_and_is_refused():
    with serving() as server:
        for number in range(5):
            server.put("pods", pod(f"sft-{number}", "n1"))
        server.delete("pods", "sft-4", "ml")
        server.put("workloads", {"metadata": {"name": "job-sft", "namespace": "ml"}})
        told = python(CLIENT, server)
    assert told["names"] == ["sft-0", "sft-1", "sft-2", "sft-3"]
    assert told["events"][-1] == ["DELETED", "sft-4"]
    assert [what for what, _ in told["events"]] == ["ADDED"] * 5 + ["DELETED"]
    assert (told["refused"], told["workloads"]) == (403, 1)


def python(script, server):
    done = subprocess.run(
        [ROOT / ".venv-k8s/bin/python", "-c", script, server.url, TOKEN],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FAULTS = """
import json, sys
from kubernetes import client, watch
def api(token=sys.argv[2]):
    settings = client.Configuration()
    settings.host, settings.api_key = sys.argv[1], {"authorization": "Bearer " + token}
    settings.retries = False
    return client.CoreV1Api(client.ApiClient(settings))
told = {}
def ask(name, call):
    try:
        found = call()
        items = getattr(found, "items", None)
        told[name] = found if items is None else [each.metadata.name for each in items]
    except client.ApiException as error:
        told[name] = error.status
        if error.headers and "Retry-After" in error.headers:
            told[name + " after"] = error.headers["Retry-After"]
    except Exception as error:
        told[name] = type(error).__name__
core = api()
pods = lambda **more: core.list_namespaced_pod("ml", **more)
ask("401", lambda: api("wrong").list_namespaced_pod("ml"))
ask("403", lambda: core.list_namespaced_pod("forbidden"))
ask("404", lambda: core.read_namespaced_pod("none", "ml"))
ask("label", lambda: pods(label_selector="batch.kubernetes.io/job-completion-index in (1, 2)"))
ask("not", lambda: pods(label_selector="batch.kubernetes.io/job-completion-index!=0"))
ask("field", lambda: pods(field_selector="spec.nodeName=n1,metadata.name!=sft-0"))
ask("unknown field", lambda: pods(field_selector="spec.hostNetwork=true"))
first = pods(limit=1, label_selector="batch.kubernetes.io/job-name=sft")
ask("rest", lambda: pods(limit=9, _continue=first.metadata._continue))
ask("too new", lambda: pods(resource_version="999999"))
ask("too old", lambda: pods(resource_version="1", resource_version_match="Exact"))
ask("any", lambda: pods(resource_version="0"))
bookmarks = []
for event in watch.Watch().stream(core.list_namespaced_pod, "ml", timeout_seconds=1,
        resource_version=first.metadata.resource_version, allow_watch_bookmarks=True,
        field_selector="spec.nodeName=n1"):
    bookmarks.append(event["type"])
told["watch"] = bookmarks
core.list_namespaced_pod("faults")
for name in ("429", "500", "slow", "truncated", "huge"):
    ask(name, lambda: pods(_request_timeout=0.4))
core.list_namespaced_pod("compact")
ask("continue after compaction", lambda: pods(limit=9, _continue=first.metadata._continue))
def watch_old():
    return [each for each in watch.Watch().stream(core.list_namespaced_pod, "ml",
            timeout_seconds=1, resource_version="1")]
ask("watch too old", watch_old)
print(json.dumps(told))
"""


@pytest.mark.system("kubernetes-client")
def test_the_official_client_sees_every_fault_as_it_is_meant():
    faults = [
        Fault("/pods", kind, 1, headers)
        for kind, headers in (
            ("429", {"Retry-After": "1"}), ("500", {}), ("slow", {}), ("truncated", {}),
            ("huge", {}),
        )
    ]  # fmt: skip
    with serving() as server:
        for number, node in enumerate(("n1", "n2", "n1")):
            server.put("pods", pod(f"sft-{number}", node))
        real = server.take_fault

        def take(path):
            """The script's namespaces say what is to happen next."""
            if "/faults/" in path:
                server.faults = faults
                return None
            if "/compact/" in path:
                server.compact()
            return real(path)

        server.take_fault = take
        told = python(FAULTS, server)
    assert told == {
        "401": 401, "403": 403, "404": 404,
        "label": ["sft-1", "sft-2"], "not": ["sft-1", "sft-2"], "field": ["sft-2"],
        "unknown field": 400, "rest": ["sft-1", "sft-2"],
        "too new": 504, "too old": 410, "any": ["sft-0", "sft-1", "sft-2"],
        "watch": ["BOOKMARK"],
        "429": 429, "429 after": "1", "500": 500, "slow": "ReadTimeoutError",
        "truncated": "ProtocolError", "huge": [],
        "continue after compaction": 410, "watch too old": 410,
    }  # fmt: skip


@pytest.fixture
def kubectl(tmp_path):
    authority = Authority(tmp_path)
    with serving(tls=authority.server_context()) as server:
        config = tmp_path / "config"
        config.write_text(kubeconfig(server.url, authority.ca))

        def run(*arguments, token=TOKEN):
            done = subprocess.run(
                ["kubectl", f"--kubeconfig={config}", f"--cache-dir={tmp_path}", f"--token={token}",
                 *arguments],
                capture_output=True, text=True, timeout=120, check=False,
            )  # fmt: skip
            return done.stdout if done.returncode == 0 else done.stderr

        yield server, run


@pytest.mark.system("kubectl")
def test_kubectl_discovers_gets_selects_and_pages(kubectl):
    server, run = kubectl
    for number, node in enumerate(("n1", "n2", "n1")):
        server.put("pods", pod(f"sft-{number}", node))
    server.put("workloads", {"metadata": {"name": "job-sft", "namespace": "ml"}})
    pods = json.loads(run("get", "pods", "-n", "ml", "-o", "json"))
    assert [each["metadata"]["name"] for each in pods["items"]] == ["sft-0", "sft-1", "sft-2"]
    names = run("get", "workloads.kueue.x-k8s.io", "-n", "ml", "-o", "name")
    assert names == "workload.kueue.x-k8s.io/job-sft\n"
    by_field = run("get", "pods", "-n", "ml", "-o", "name", "--field-selector=spec.nodeName=n2")
    assert by_field == "pod/sft-1\n"
    label = "batch.kubernetes.io/job-completion-index=2"
    assert run("get", "pods", "-n", "ml", "-o", "name", "-l", label) == "pod/sft-2\n"
    assert len(run("get", "pods", "-n", "ml", "-o", "name", "--chunk-size=1").split()) == 3
    assert sum("continue=" in path for path in server.seen) == 2


@pytest.mark.system("kubectl")
def test_kubectl_understands_every_refusal(kubectl):
    server, run = kubectl
    server.put("pods", pod("sft-0", "n1"))
    run("get", "pods", "-n", "ml")
    assert "Unauthorized" in run("get", "pods", "-n", "ml", token="wrong")
    assert "Error from server (Forbidden)" in run("get", "pods", "-n", "forbidden")
    assert "Error from server (NotFound)" in run("get", "pod", "none", "-n", "ml")
    server.faults = [Fault("/pods", "500", 1)]
    assert "as asked" in run("get", "pods", "-n", "ml")
    server.faults = [Fault("/pods", "410", 1)]
    assert "as asked" in run("get", "pods", "-n", "ml")
    server.faults = [Fault("/pods", "slow", 1)]
    slow = run("get", "pods", "-n", "ml", "--request-timeout=400ms")
    assert "Timeout" in slow or "timeout" in slow or "deadline" in slow
    server.faults = [Fault("/pods", "truncated", 1)]
    assert "EOF" in run("get", "pods", "-n", "ml")
    server.faults = [Fault("/pods", "huge", 1)]
    assert "sft-0" not in run("get", "pods", "-n", "ml")


@pytest.mark.system("kubectl")
def test_kubectl_tries_again_what_a_429_names_a_time_for(kubectl):
    server, run = kubectl
    server.put("pods", pod("sft-0", "n1"))
    server.faults = [Fault("/namespaces/ml/pods", "429", 1, {"Retry-After": "1"})]
    assert run("get", "pods", "-n", "ml", "-o", "name") == "pod/sft-0\n"
    assert sum("/namespaces/ml/pods" in path for path in server.seen) == 2


@pytest.mark.system("kubectl")
def test_kubectl_watches(kubectl):
    server, run = kubectl
    server.put("pods", pod("sft-0", "n1"))
    out = run("get", "pods", "-n", "ml", "-o", "name", "--watch", "--request-timeout=2s")
    assert "pod/sft-0" in out or "timeout" in out.lower() or "deadline" in out


def kubeconfig(url, authority):
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}', "
        f"certificate-authority: {authority}}}}}]\n"
        "users: [{name: u, user: {}}]\n"
    )
