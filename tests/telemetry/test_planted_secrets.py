"""Secrets planted in every source reach no object, message, table item, log line, text or page."""

import html
import json
import re
from urllib.parse import unquote

import boto3
import pytest
from backports import zstd
from click.testing import CliRunner
from http_fake import FakeServer
from loki_server import LokiServer
from test_coverage_truth import ENDED, NS, XID

from functions.adapters.site_file import configured_site, site_redactor
from functions.query.app import View
from rootrank.cli import main
from rootrank.embedded.stack import open_stack
from rootrank.web.local_results import LocalResults
from tests.web.web_asking import asker

FORMS = {
    "bundle": "password=hunter2bundle0",
    "files": "mysql -u root -phunter2files0 metrics",
    "gz": "REGISTRY_AUTH=hunter2gz0",
    "loki": "https://ada:hunter2loki0@git.example/x",
    "prometheus": "hunter2prometheus0",
    "pods": "Authorization: Bearer hunter2pods0hunter2pods0",
    "pod_env": "hunter2podenv0",
    "events": "--api-key hunter2events0",
    "cloudwatch": "{'secret_key': 'hunter2cloudwatch0'}",
    "record": "DB_PASSWORD=hunter2record0",
    "refused": "password=hunter2refused0",
    "token": "hunter2token0",
}
MARKS = [f"hunter2{name}" for name in
         ("bundle", "files", "gz", "loki", "prometheus", "pods", "podenv", "events", "cloudwatch",
          "record", "refused", "token")]  # fmt: skip
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
WORKLOAD = {
    "scheduler": "kubernetes", "cluster": "a", "job_id": "sft", "namespace": "ml",
    "state": "Failed", "start": "2026-01-01T00:00:00Z", "end": "2026-01-01T06:00:00Z",
    "nodes": ["n1"],
}  # fmt: skip


def kubernetes(path, params, headers):
    if path.endswith("/log"):
        return 200, {}, f"2026-01-01T05:59:58Z {OOM} {FORMS['pods']}\n".encode()
    if path == "/version":
        return 200, {}, b'{"gitVersion": "v1.32.0"}'
    terminated = {
        "exitCode": 1, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": "2026-01-01T05:59:59Z", "message": f"{OOM} {FORMS['events']}",
    }  # fmt: skip
    pod = {
        "kind": "Pod",
        "metadata": {"name": "sft-0", "namespace": "ml", "labels": {"job-name": "sft"}},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "TOKEN", "value": FORMS["pod_env"]}],
                    "args": ["--api-key", FORMS["pod_env"]],
                }
            ],
        },
        "status": {
            "phase": "Failed",
            "containerStatuses": [
                {"name": "main", "restartCount": 0, "state": {"terminated": terminated}}
            ],
        },
    }
    items = [pod] if path.endswith("/pods") else []
    return 200, {}, json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def prometheus(path, params, headers):
    query = params.get("query", "")
    result = []
    if "DCGM_FI_DEV_XID_ERRORS" in query and query.endswith("s]"):
        values = [[ENDED // NS - 600 + 15 * n, "79" if n > 20 else "0"] for n in range(40)]
        labels = {"__name__": "DCGM_FI_DEV_XID_ERRORS", "gpu": "0", "Hostname": "n1",
                  "token": FORMS["prometheus"]}  # fmt: skip
        result = [{"metric": labels, "values": values}]
    return 200, {}, json.dumps({"data": {"resultType": "matrix", "result": result}}).encode()


@pytest.fixture
def site(tmp_path, monkeypatch):
    servers = [FakeServer(kubernetes), FakeServer(prometheus)]
    lines = [(ENDED - 30 * NS, f"{XID} {FORMS['loki']}", {}), (ENDED - NS, "quiet", {})]
    servers.append(LokiServer([({"unit": "kernel", "node": "n1"}, lines)]))
    logs = tmp_path / "logs/sft"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text(f"2026-01-01T05:59:59Z {OOM} {FORMS['files']}\n")
    import gzip

    (logs / "rank-1.log.gz").write_bytes(
        gzip.compress(f"2026-01-01T05:59:59Z {OOM} {FORMS['gz']}\n".encode())
    )
    (tmp_path / "sources.yaml").write_text(
        f"""\
version: 1
clusters:
  - name: a
    kubernetes: {{kind: api, url: '{servers[0].url}', token: {{env: API_TOKEN}}}}
    pod_logs: {{}}
    prometheus: {{url: '{servers[1].url}', token: {{env: API_TOKEN}}}}
    loki:
      url: {servers[2].url}
      token: {{env: API_TOKEN}}
      streams:
        - {{source: syslog, match: {{unit: kernel}}, by_node: true, node_label: node}}
    files:
      - {{root: {tmp_path}/logs, patterns: ['{{job_id}}/rank-{{rank}}.log']}}
    cloudwatch:
      region: us-east-1
      groups: [{{name: train, group: /train, streams: ['{{job_id}}/*']}}]
""",
    )
    monkeypatch.setenv("SOURCES", str(tmp_path / "sources.yaml"))
    monkeypatch.setenv("API_TOKEN", FORMS["token"])
    configured_site.cache_clear()
    yield servers
    configured_site.cache_clear()
    for each in servers:
        each.stop()


def put_log_events():
    """Put the line into moto's CloudWatch Logs, which takes only recent times."""
    client = boto3.client("logs", region_name="us-east-1")
    client.create_log_group(logGroupName="/train")
    client.create_log_stream(logGroupName="/train", logStreamName="sft/algo-1")
    from moto.logs.models import LogEvent, logs_backends

    (backend,) = [each["us-east-1"] for each in logs_backends.values() if "us-east-1" in each]
    stream = backend.groups["/train"].streams["sft/algo-1"]
    text = f"{OOM} {FORMS['cloudwatch']}"
    stream.events.append(
        LogEvent(ENDED // 1_000_000, {"timestamp": ENDED // 1_000_000 - 3_000, "message": text})
    )


def test_what_is_planted_anywhere_comes_out_nowhere(site, tmp_path):
    folder = tmp_path / "state"
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "train.log").write_text(f"2026-01-01T05:59:59Z {OOM} {FORMS['bundle']}\n")
    with open_stack(folder) as stack:
        put_log_events()
        uri = stack.upload_bundle(bundle, "sft")
        evidence = [{"path": "train.log", "source": "applog"}]
        record = {"kind": "Event", "type": "Warning", "reason": "Failed",
                             "message": f"{OOM} {FORMS['record']}",
                             "involvedObject": {"kind": "Pod", "name": "sft-0"}}  # fmt: skip
        detail = {"version": 1, "workload": WORKLOAD, "evidence": evidence, "bundle_uri": uri,
                  "record": record}  # fmt: skip
        stack.put_event(
            {"source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail}
        )
        # One that is refused is told of in the log, and quoted nowhere.
        stack.put_event(
            {
                "source": "rootrank.scheduler",
                "detail-type": "Job Completed",
                "detail": {**detail, "record": f"no record: {FORMS['refused']}"},
            }
        )
        stack.settle(120)
        told = {
            "objects": stored(stack),
            "table": stack.client("dynamodb").scan(TableName=stack.resources.table)["Items"],
            "messages": stack.messages(),
        }
    told["log"] = (folder / "functions.jsonl").read_text()
    told["text"] = CliRunner().invoke(main, ["show", "sft", "--state", str(folder),
                                             "--format", "text"]).output  # fmt: skip
    told["pages"] = pages = pages_of(folder)
    assert any(
        "/evidence/" in address and "CUDA out of memory" in pages[address] for address in pages
    )
    seen = "".join(text for key, text in told["objects"].items() if "/verdicts/" in key)
    for connector in ("static", "files", "loki", "prometheus", "pod_logs", "cloudwatch"):
        assert f'"connector":"{connector}"' in seen, connector
    assert "[redacted]" in seen
    kept = "".join(text for key, text in told["objects"].items() if "/capsules/" in key)
    for stream in ("train.log", "rank-0.log", "rank-1.log.gz", "sft-0", "algo-1", "kernel"):
        assert stream in kept, stream
    assert "CUDA out of memory" in kept
    assert "sft" in told["text"]
    for place, text in told.items():
        for mark in MARKS:
            assert mark not in str(text), f"{mark} in {place}"


def stored(stack):
    """Return the text of every object that we wrote; what callers put below bundles/ is theirs."""
    client, bucket = stack.client("s3"), stack.resources.bucket
    found = {}
    for each in client.list_objects_v2(Bucket=bucket).get("Contents", ()):
        key = each["Key"]
        if not key.startswith("bundles/"):
            body = client.get_object(Bucket=bucket, Key=key)["Body"].read()
            found[key] = (zstd.decompress(body) if key.endswith(".zst") else body).decode()
    return found


def pages_of(folder):
    """Return every page that a reader of the folder's results gets to, by address."""
    ask = asker(View(results=LocalResults(folder).current, redactor=site_redactor, local="state"))
    found, waiting = {}, ["/"]
    while waiting and len(found) < 300:
        address = waiting.pop()
        path, _, query = address.partition("?")
        asked = dict(pair.split("=", 1) for pair in query.split("&") if "=" in pair)
        found[address] = ask(path, **{key: unquote(value) for key, value in asked.items()}).body
        links = {html.unescape(link) for link in re.findall(r'href="(/[^"#]*)', found[address])}
        waiting += sorted(links - set(found) - set(waiting))
    return found
