"""Runbook, deploy guide and permissions say what the template has."""

import json
import re
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from connectors.schedulers.scoped import ScopedEvent
from functions.scope.reception import receive_any
from rootrank.embedded.template import read_template

ROOT = Path(__file__).parents[2]
TEMPLATE = read_template(ROOT)
PAGES = {
    name: (ROOT / f"docs/{name}.md").read_text() for name in ("runbook", "deploy", "permissions")
}
ALARMS = {
    name: each["Properties"]
    for name, each in TEMPLATE["Resources"].items()
    if each["Type"] == "AWS::CloudWatch::Alarm"
}


def test_every_alarm_has_a_section_and_every_section_an_alarm():
    sections = re.findall(r"^## (\w+)$", PAGES["runbook"], re.MULTILINE)
    assert sections
    assert sorted(sections) == sorted(ALARMS)


@pytest.mark.parametrize("name", sorted(ALARMS))
def test_an_alarm_tells_where_to_read_on_and_someone_is_told(name):
    assert ALARMS[name]["AlarmDescription"].endswith(f"Runbook - docs/runbook.md, {name}.")
    assert ALARMS[name]["AlarmActions"] == ALARMS[name]["OKActions"]
    assert ALARMS[name]["TreatMissingData"] == "notBreaching"


@pytest.mark.parametrize("page", sorted(PAGES))
def test_outputs_and_parameters_that_a_page_names_are_the_templates(page):
    text = PAGES[page]
    outputs = set(re.findall(r"\$\(out (\w+)\)", text)) | set(
        re.findall(r"`(\w+Arn|\w+Url)`", text)
    )
    spoke = yaml_parse((ROOT / "infra/spoke/template.yaml").read_text())
    known = {name for each in (TEMPLATE, spoke) for name in (*each["Outputs"], *each["Parameters"])}
    assert outputs
    assert outputs - known == set()
    rows = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \|", text, re.MULTILINE)
    named = {name for row in rows for name in row if name and name[0].isupper()}
    assert named - set(TEMPLATE["Parameters"]) - {"RunnerPrincipals"} - known == set()


def test_functions_that_the_runbook_and_the_permissions_name_are_there():
    for page in ("runbook", "permissions"):
        for name in set(re.findall(r"`([A-Z]\w+Function)`", PAGES[page])):
            assert name in TEMPLATE["Resources"], name
    rows = re.findall(
        r"^\| ([A-Z]\w+)(?:, (\w+))? ?(?:\(.*?\) )?\|", PAGES["permissions"], re.MULTILINE
    )
    named = {f"{name}Function" for row in rows for name in row if name} - {"EventBridgeFunction"}
    functions = {
        name
        for name, each in TEMPLATE["Resources"].items()
        if each["Type"] == "AWS::Serverless::Function"
    }
    assert functions - named == set()


def test_the_event_of_the_deploy_guide_is_admitted():
    (entry,) = json.loads(re.search(r"<<EOF\n(.*?)\nEOF", PAGES["deploy"], re.S)[1])
    event = {
        "source": entry["Source"], "detail-type": entry["DetailType"],
        "account": "123456789012", "region": "us-east-1",
        "detail": json.loads(entry["Detail"].replace("$BUCKET", "bucket")),
    }  # fmt: skip
    scoped = receive_any(json.dumps(event))
    assert isinstance(scoped, ScopedEvent)
    assert scoped.workload.job_id == "410043"
    assert scoped.bundle_uri == "s3://bucket/bundles/first/"


def test_the_bundle_of_the_deploy_guide_is_in_the_repository():
    (folder,) = re.findall(r"aws s3 cp --recursive (\S+)", PAGES["deploy"])
    assert (ROOT / folder / "workload.yaml").is_file()


@pytest.mark.parametrize("page", sorted(PAGES))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([\w-]+)\.md", PAGES[page]):
        assert (ROOT / f"docs/{target}.md").is_file(), target
