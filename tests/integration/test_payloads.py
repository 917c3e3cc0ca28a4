"""Every payload in events/ through its handler: what is whole is taken, what is broken is not.

These are the payloads of the `sam local invoke` lines in docs/schedulers.md.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from connectors.schedulers import parse_event
from connectors.schedulers.scoped import UnfinishedEventError
from events.queued import queued

EVENTS = Path(__file__).parents[2] / "events"
WHOLE = sorted(path for path in EVENTS.glob("*.json") if not path.name.startswith("pcs-"))
BROKEN = sorted(
    path
    for path in (EVENTS / "malformed").glob("*.json")
    if path.name not in ("pcs-no-job.json", "context-no-instance.json")
)
BUNDLE_KEYS = ("bundle_uri",)


def admit(embedded: Any, body: str) -> dict[str, Any]:
    """Call the admitting function as SQS does, and return what it says."""
    (function,) = [
        each["FunctionName"]
        for each in embedded.stack.client("lambda").list_functions()["Functions"]
        if "Admit" in each["FunctionName"]
    ]
    answer = embedded.stack.client("lambda").invoke(
        FunctionName=function, Payload=json.dumps(queued(body))
    )
    assert "FunctionError" not in answer
    return dict(json.loads(answer["Payload"].read()))


def without_bundle(path: Path) -> str:
    """Return the payload; a bundle beside the file is uploaded by `rootrank run` only."""
    event = json.loads(path.read_text())
    for key in BUNDLE_KEYS:
        event["detail"].pop(key, None)
    return json.dumps(event)


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_whole_payload_is_taken(embedded: Any, path: Path) -> None:
    assert admit(embedded, without_bundle(path)) == {"batchItemFailures": []}


@pytest.mark.parametrize("path", BROKEN, ids=lambda path: path.stem)
def test_a_broken_payload_goes_back_alone(embedded: Any, path: Path) -> None:
    body = path.read_text()
    try:
        parse_event(json.loads(body))
    except UnfinishedEventError:
        assert admit(embedded, body) == {"batchItemFailures": []}
        return
    except Exception:  # noqa: BLE001  whatever is wrong with it, the queue keeps it
        pass
    assert admit(embedded, body) == {"batchItemFailures": [{"itemIdentifier": "m-0"}]}


def test_a_context_event_of_nothing_in_particular_is_dropped(embedded: Any) -> None:
    body = (EVENTS / "malformed/context-no-instance.json").read_text()
    assert admit(embedded, body) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pcs-subscription.json", (1, 1)),
        ("pcs-control.json", (0, 0)),
        ("malformed/pcs-no-job.json", (0, 1)),
    ],
)
def test_the_forwarder_puts_completions_on_the_bus(
    embedded: Any, name: str, told: tuple[int, int]
) -> None:
    (function,) = [
        each["FunctionName"]
        for each in embedded.stack.client("lambda").list_functions()["Functions"]
        if "Forward" in each["FunctionName"]
    ]
    answer = embedded.stack.client("lambda").invoke(
        FunctionName=function, Payload=(EVENTS / name).read_bytes()
    )
    assert "FunctionError" not in answer
    value = json.loads(answer["Payload"].read())
    assert (value["forwarded"], value["skipped"]) == told
    embedded.stack.settle(120)
    if told[0]:
        current = embedded.current("ml/pcs_abc123/pcs/77/t1769857200")
        assert (current["job_id"], current["terminal_state"]) == ("77", "node_fail")


LINES = re.findall(
    r"^    python3 (events/queued\.py (?:events/\S+ )+)\| sam local invoke (\w+) --event -$",
    (EVENTS.parent / "docs/schedulers.md").read_text(),
    re.MULTILINE,
)


def test_every_line_of_the_page_wraps_payloads_for_a_function_that_there_is() -> None:
    template = (EVENTS.parent / "template.yaml").read_text()
    named = set()
    for line, function in LINES:
        done = subprocess.run(
            [sys.executable, *line.split()], cwd=EVENTS.parent, capture_output=True, check=True
        )
        bodies = [json.loads(each["body"]) for each in json.loads(done.stdout)["Records"]]
        assert len(bodies) == len(line.split()) - 1
        named |= {each.get("source") for each in bodies}
        assert f"\n  {function}:\n" in template
    assert named >= {"aws.batch", "aws.ec2", "aws.sagemaker", "rootrank.scheduler"}


def test_a_service_job_and_its_training_job_become_one_verdict(embedded: Any) -> None:
    for name in ("batch-service-job-failed.json", "sagemaker-of-service-job.json"):
        assert admit(embedded, (EVENTS / name).read_text()) == {"batchItemFailures": []}
    embedded.stack.settle(120)
    current = embedded.current("123456789012/eu-west-1/sagemaker/AWSBatch-llm-sft-1/r0")
    assert current["terminal_state"] == "failed"
