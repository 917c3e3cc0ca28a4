"""The contract server is one: the official Python client and kubectl work with it."""

import json
import subprocess
from pathlib import Path

import pytest
from apiserver import TOKEN, pod, serving

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
        done = subprocess.run(
            [ROOT / ".venv-k8s/bin/python", "-c", CLIENT, server.url, TOKEN],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["names"] == ["sft-0", "sft-1", "sft-2", "sft-3"]
    assert told["events"][-1] == ["DELETED", "sft-4"]
    assert [what for what, _ in told["events"]] == ["ADDED"] * 5 + ["DELETED"]
    assert (told["refused"], told["workloads"]) == (403, 1)


@pytest.mark.system("kubectl")
def test_kubectl_discovers_and_gets(tmp_path):
    with serving() as server:
        server.needs_token = False  # kubectl sends no token over plain HTTP
        server.put("pods", pod("sft-0", "n1"))
        server.put("workloads", {"metadata": {"name": "job-sft", "namespace": "ml"}})
        config = tmp_path / "config"
        config.write_text(kubeconfig(server.url))

        def kubectl(*arguments):
            done = subprocess.run(
                ["kubectl", f"--kubeconfig={config}", f"--cache-dir={tmp_path}", *arguments],
                capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        pods = json.loads(kubectl("get", "pods", "-n", "ml", "-o", "json"))
        assert [each["metadata"]["name"] for each in pods["items"]] == ["sft-0"]
        names = kubectl("get", "workloads.kueue.x-k8s.io", "-n", "ml", "-o", "name")
        assert names == "workload.kueue.x-k8s.io/job-sft\n"


def kubeconfig(url):
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "contexts: [{name: c, context: {cluster: c, user: u}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\n"
        f"users: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
    )
