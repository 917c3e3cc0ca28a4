"""Every payload in events/ through its handler: what is whole is taken, what is broken is not.

These are the payloads of the `sam local invoke` lines in docs/schedulers.md.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.schedulers import parse_event
from connectors.schedulers.scoped import UnfinishedEventError

EVENTS = Path(__file__).parents[2] / "events"
WHOLE = sorted(path for path in EVENTS.glob("*.json") if path.name != "pcs-subscription.json")
BROKEN = sorted(
    path
    for path in (EVENTS / "malformed").glob("*.json")
    if path.name not in ("pcs-no-job.json", "context-no-instance.json")
)
BUNDLE_KEYS = ("bundle_uri",)


def admit(embedded: Any, body: str) -> dict[str, Any]:
    """Call the admitting function as SQS does, and return what it says."""
    record = {
        "messageId": "m-1", "receiptHandle": "r", "body": body, "attributes": {},
        "messageAttributes": {}, "md5OfBody": "", "eventSource": "aws:sqs",
        "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:q", "awsRegion": "us-east-1",
    }  # fmt: skip
    (function,) = [
        each["FunctionName"]
        for each in embedded.stack.client("lambda").list_functions()["Functions"]
        if "Admit" in each["FunctionName"]
    ]
    answer = embedded.stack.client("lambda").invoke(
        FunctionName=function, Payload=json.dumps({"Records": [record]})
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
    assert admit(embedded, body) == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}


def test_a_context_event_of_nothing_in_particular_is_dropped(embedded: Any) -> None:
    body = (EVENTS / "malformed/context-no-instance.json").read_text()
    assert admit(embedded, body) == {"batchItemFailures": []}


@pytest.mark.parametrize(
    ("name", "told"),
    [("pcs-subscription.json", (1, 1)), ("malformed/pcs-no-job.json", (0, 1))],
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
