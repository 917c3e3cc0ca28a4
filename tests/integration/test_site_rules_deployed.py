"""A site's rules below `rules/` of the stack's bucket: used as they are, or told and left out."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from functions.adapters import services, site_rules
from functions.adapters.object_store import ObjectStore

Failing = Callable[..., None]

FAN = b"""\
id: site/fan_stopped
kind: symptom
version: 1
sources: ['our rack controller']
symptom: site_fan_stopped
title: A fan of the rack stopped
domain: host
role: root
tier: 2
entity: node
accuses: false
signatures:
  - sources: [syslog]
    scan: 'rackctl: fan \\w{1,8} stopped'
    samples: ['rackctl: fan F3 stopped']
    near_misses: ['rackctl: fan F3 running']
"""
WORKLOAD = """\
workload:
  scheduler: slurm
  job_id: '410043'
  state: FAILED
  exit_code: '1:0'
  start: '2023-03-05T19:30:10Z'
  end: '2023-03-06T03:17:51Z'
  nodes: [node-017]
evidence:
  - {path: syslog.txt, source: syslog, node: node-017}
"""
LINE = "2023-03-06T03:17:40Z node-017 rackctl: fan F3 stopped\n"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries happen, their waiting does not."""
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=lambda _seconds: None))


@pytest.fixture
def site(
    reopen: Callable[..., AbstractContextManager[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Any]:
    """A stack whose SiteRulesPrefix is `rules/`."""
    monkeypatch.setenv("SITE_RULES", "rules/")
    monkeypatch.setattr(site_rules.site_rules, "_held", None)
    with reopen(tmp_path / "state") as embedded:
        yield embedded


def put(embedded: Any, name: str, body: bytes) -> None:
    embedded.stack.client("s3").put_object(
        Bucket=embedded.stack.resources.bucket, Key=f"rules/{name}", Body=body
    )


def judged(embedded: Any, folder: Path, exit_code: str = "1:0") -> dict[str, Any]:
    bundle = folder / "bundle"
    bundle.mkdir(exist_ok=True)
    (bundle / "workload.yaml").write_text(WORKLOAD)
    (bundle / "syslog.txt").write_text(LINE)
    uri = embedded.stack.upload_bundle(bundle, "fan")
    embedded.send(embedded.workload("FAILED", exit_code), bundle_uri=uri)
    assert set(embedded.executions()) == {"SUCCEEDED"}
    document: dict[str, Any] = json.loads(embedded.verdict(embedded.key))
    return document


def reports(verdict: dict[str, Any]) -> list[str]:
    return [
        each["reason"] for each in verdict["connector_reports"] if each["connector"] == "site_rules"
    ]


def test_a_site_rule_in_the_bucket_is_used(site: Any, tmp_path: Path) -> None:
    put(site, "site/fan_stopped.yaml", FAN)
    verdict = judged(site, tmp_path)
    assert "+site." in verdict["rules"]["version"]
    assert "site_fan_stopped" in json.dumps(verdict)
    assert verdict["domain"] == "host"
    assert reports(verdict) == []


def test_without_the_setting_the_bucket_is_not_looked_at(
    reopen: Callable[..., AbstractContextManager[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SITE_RULES", raising=False)
    with reopen(tmp_path / "state") as embedded:
        put(embedded, "site/fan_stopped.yaml", FAN)
        verdict = judged(embedded, tmp_path)
    assert "+site." not in verdict["rules"]["version"]
    assert "site_fan_stopped" not in json.dumps(verdict)
    assert reports(verdict) == []


@pytest.mark.parametrize(
    ("name", "body", "told"),
    [
        ("site/broken.yaml", b"id: [", "site/broken.yaml:2:1: not YAML"),
        ("site/wrong.yaml", b"id: site/wrong\nkind: nonsense\n", "site/wrong.yaml"),
        ("python/evil.py", b"import os\n", "code ships with a release"),
        ("site/deep.yaml", b"a: " + b"[" * 20_000, "without the site's"),
        ("site/large.yaml", b"#" * (1 << 20), "bytes in all"),
    ],
)
def test_a_file_that_cannot_be_used_costs_the_sites_rules_and_no_verdict(
    site: Any, tmp_path: Path, name: str, body: bytes, told: str
) -> None:
    put(site, "site/fan_stopped.yaml", FAN)
    put(site, name, body)
    verdict = judged(site, tmp_path)
    assert "+site." not in verdict["rules"]["version"]
    (reason,) = reports(verdict)
    assert told in reason
    assert "evidence_lost" in json.dumps(verdict["quality"])
    assert "extracted under other rules" not in json.dumps(verdict)


def test_an_empty_prefix_is_told(site: Any, tmp_path: Path) -> None:
    (reason,) = reports(judged(site, tmp_path))
    assert "no files there" in reason


def test_more_files_than_are_read_are_told(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_rules, "MAX_FILES", 2)
    for number in range(3):
        put(site, f"notes/{number}.txt", b"x")
    (reason,) = reports(judged(site, tmp_path))
    assert "more than 2 files" in reason


@pytest.mark.parametrize("code", ["AccessDenied", "SlowDown"])
def test_rules_that_the_bucket_does_not_hand_out_cost_no_verdict(
    site: Any, tmp_path: Path, failing: Failing, code: str
) -> None:
    put(site, "site/fan_stopped.yaml", FAN)
    refused = ["rules/"]
    failing("GetObject", lambda key: any(key.startswith(each) for each in refused), code)
    verdict = judged(site, tmp_path)
    refused.clear()
    assert "+site." not in verdict["rules"]["version"]
    assert code in reports(verdict)[0]


def test_a_change_between_plan_and_attribution_refuses_the_mixture(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functions.attribute import handler

    put(site, "site/fan_stopped.yaml", FAN)

    def changed() -> Any:
        put(site, "site/fan_stopped.yaml", FAN.replace(b"rackctl: fan", b"rackctl: rotor"))
        return services.connect()

    monkeypatch.setattr(handler, "connect", changed)
    verdict = judged(site, tmp_path)
    assert "extracted under other rules" in json.dumps(verdict["connector_reports"])
    assert all(each["role"] != "culprit" for each in verdict["affected_nodes"])


def test_files_are_read_once_a_version(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    real = ObjectStore.get_listed

    def noted(self: ObjectStore, listed: Any) -> bytes:
        read.append(listed.etag)
        return real(self, listed)

    monkeypatch.setattr(ObjectStore, "get_listed", noted)
    put(site, "site/fan_stopped.yaml", FAN + b"# read once\n")
    judged(site, tmp_path)
    assert len(read) == 1
    put(site, "site/fan_stopped.yaml", FAN + b"# and once more\n")
    judged(site, tmp_path, "2:0")
    assert len(set(read)) == len(read) == 2


def test_a_tenant_cannot_be_named_like_the_rules(site: Any) -> None:
    site.send(site.workload() | {"tenant": "rules"})
    started = site.stack.client("stepfunctions").list_executions(
        stateMachineArn=site.stack.resources.machine_arn
    )
    assert started["executions"] == []
    assert len(site.stack.dead_letters()) == 1
    assert list(site.store.list_objects("rules/")) == []
