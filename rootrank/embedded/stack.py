"""The stack, stood up: events in, the real workflow, results in the table, messages out."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3
from moto.moto_api._internal import mock_random

from rootrank.embedded import state
from rootrank.embedded.delivery import Delivery
from rootrank.embedded.emulator import (
    Invocation,
    emit_as_service,
    emulated_aws,
    executions,
    is_waiting,
)
from rootrank.embedded.template import (
    STACK_TYPES,
    STORAGE_TYPES,
    cut_down,
    read_template,
    translate,
)

STACK_NAME: Final = "rootrank"
_PARAMETERS: Final = {"Architecture": "x86_64", "GraceSeconds": "0"}
"""Nothing arrives late here, so there is nothing to wait for."""
_POLL_SECONDS: Final = 0.04
_AT_ONCE: Final = 16
"""Executions at a time before more events are delivered: one process runs one handler at a time,
and what waits for it longer than a state's timeout would be given up on."""
_DEFAULT_TIMEOUT_S: Final = 600.0

Progress = Callable[[str, Mapping[str, Any]], None]
"""Called with what happened: `state`, `item`, `execution`, and its details."""


def silent(_what: str, _details: Mapping[str, Any]) -> None:
    """Tell nobody."""


class WorkflowTimeoutError(RuntimeError):
    """The workflow did not end in time."""


@dataclass(slots=True)
class Resources:
    """Physical names of what the template made."""

    bucket: str
    table: str
    machine_arn: str = ""
    topic_arn: str = ""
    inbox_url: str = ""
    dead_letter_url: str = ""
    deliveries: list[Delivery] = field(default_factory=list)


@dataclass(slots=True)
class Stack:
    """A running embedded stack over one state folder."""

    folder: Path
    resources: Resources
    on_progress: Progress
    invocations: list[Invocation] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    _told: dict[str, int] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return a client, made once: making one costs more than most calls."""
        if service not in self._clients:
            self._clients[service] = boto3.client(service)  # type: ignore[call-overload]
        return self._clients[service]

    def put_event(self, event: Mapping[str, Any]) -> None:
        """Put one event on the bus, as its source would."""
        if str(event["source"]).startswith("aws."):
            emit_as_service(event)
            return
        answer = self.client("events").put_events(
            Entries=[
                {
                    "Source": event["source"],
                    "DetailType": event["detail-type"],
                    "Detail": json.dumps(event["detail"]),
                }
            ]
        )
        if answer["FailedEntryCount"]:
            raise state.StateError(f"the bus refused the event: {answer['Entries']}")

    def upload_bundle(self, folder: Path, name: str) -> str:
        """Copy a local bundle into the bucket; returns its s3 URI."""
        s3 = self.client("s3")
        prefix = f"bundles/{name}/"
        root = folder if folder.is_dir() else folder.parent
        files = sorted(root.rglob("*")) if folder.is_dir() else [folder]
        for path in files:
            if path.is_file() and path.resolve().is_relative_to(root.resolve()):
                key = prefix + path.relative_to(root).as_posix()
                s3.put_object(Bucket=self.resources.bucket, Key=key, Body=path.read_bytes())
        return f"s3://{self.resources.bucket}/{prefix}"

    def settle(self, timeout_s: float = _DEFAULT_TIMEOUT_S) -> None:
        """Deliver events and wait until no execution runs; raises `WorkflowTimeoutError`."""
        deadline = time.monotonic() + timeout_s
        while True:
            running = self._follow()
            delivered = 0
            if running < _AT_ONCE:
                delivered = sum(
                    delivery.deliver(batches=1)
                    for delivery in self.resources.deliveries
                    if is_waiting(delivery.queue_arn)
                )
            if delivered:
                continue
            if not running:
                return
            if time.monotonic() > deadline:
                raise WorkflowTimeoutError(f"{running} executions still run after {timeout_s} s")
            time.sleep(_POLL_SECONDS)

    def receive(self, queue_url: str) -> list[dict[str, Any]]:
        """Take every message off a queue: body and attributes."""
        sqs = self.client("sqs")
        taken: list[dict[str, Any]] = []
        while messages := sqs.receive_message(
            QueueUrl=queue_url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        ).get("Messages"):
            for each in messages:
                sqs.delete_message(QueueUrl=queue_url, ReceiptHandle=each["ReceiptHandle"])
                attributes = each.get("MessageAttributes", {})
                taken.append(
                    {
                        "body": json.loads(each["Body"]),
                        "attributes": {k: v["StringValue"] for k, v in sorted(attributes.items())},
                    }
                )
        return taken

    def messages(self) -> list[dict[str, Any]]:
        """Take what the topic's subscriber received, and keep a copy on disk."""
        taken = self.receive(self.resources.inbox_url)
        state.append_lines(self.folder / "messages.jsonl", taken)
        return taken

    def dead_letters(self) -> list[dict[str, Any]]:
        """Take the events that could not be admitted, and keep a copy on disk."""
        taken = self.receive(self.resources.dead_letter_url)
        state.append_lines(self.folder / "dead-letters.jsonl", taken)
        return taken

    def _follow(self) -> int:
        running = 0
        for arn, name, status in executions(self.resources.machine_arn):
            if arn in self._known:
                continue
            over = status != "RUNNING"
            if self.on_progress is not silent:
                self._tell_states(arn)
            if over:
                self._known.add(arn)
                if status != "SUCCEEDED":
                    self.failed.append(name)
                self.on_progress("execution", {"status": status, "execution": arn})
            running += not over
        return running

    def _tell_states(self, arn: str) -> None:
        client = self.client("stepfunctions")
        events = client.get_execution_history(executionArn=arn, maxResults=1000)["events"]
        for event in events[self._told.get(arn, 0) :]:
            details = event.get("stateEnteredEventDetails")
            if details:
                self.on_progress("state", {"name": details["name"], "execution": arn})
        self._told[arn] = len(events)


@contextmanager
def open_stack(folder: Path, *, on_progress: Progress = silent) -> Iterator[Stack]:
    """Stand the stack up over a state folder, and write the state back at the end."""
    log_path = folder / "functions.jsonl"
    with state.locked(folder), log_path.open("a", encoding="utf-8") as log:
        seen: list[Invocation] = []

        def note(invocation: Invocation) -> None:
            seen.append(invocation)
            on_progress("invocation", {"invocation": invocation})

        with emulated_aws(log, note):
            resources = _deploy(STACK_TYPES)
            stack = Stack(folder, resources, on_progress, seen)
            _load(stack)
            try:
                yield stack
            finally:
                _save(stack)


@contextmanager
def open_empty_storage(folder: Path) -> Iterator[Resources]:
    """Stand up an empty table and bucket; the folder only takes their log."""
    with state.locked(folder):
        log = (folder / "functions.jsonl").open("a", encoding="utf-8")
    with log, emulated_aws(log, lambda _invocation: None):
        yield _deploy(STORAGE_TYPES)


@contextmanager
def open_storage(folder: Path, *, is_kept: bool = False) -> Iterator[Resources]:
    """Stand up table and bucket over the state folder.

    Nothing is written back unless `is_kept`; then what is deleted is gone on disk too.
    """
    if not (folder / "table.jsonl").is_file():
        raise state.StateError(f"{folder}: holds no results yet; `rootrank run EVENT.json` first")
    with (
        (folder / "functions.jsonl").open("a", encoding="utf-8") as log,
        emulated_aws(log, lambda _invocation: None),
        state.locked(folder),
    ):
        resources = _deploy(STORAGE_TYPES)
        state.load_objects(folder, resources.bucket)
        state.load_items(folder, resources.table)
        yield resources
        if is_kept:
            state.forget_objects(folder, resources.bucket)
            state.save_items(folder, resources.table)


def _load(stack: Stack) -> None:
    names = stack.resources
    state.load_objects(stack.folder, names.bucket)
    state.load_items(stack.folder, names.table)
    state.load_executions(stack.folder, names.machine_arn)
    client = boto3.client("stepfunctions")
    for each in client.list_executions(stateMachineArn=names.machine_arn)["executions"]:
        stack._known.add(each["executionArn"])


def _save(stack: Stack) -> None:
    names = stack.resources
    state.save_objects(stack.folder, names.bucket)
    state.save_items(stack.folder, names.table)
    state.save_executions(stack.folder, names.machine_arn)
    stack.messages()
    stack.dead_letters()


def _deploy(types: frozenset[str]) -> Resources:
    # The same names every time, so that locations in stored documents stay true.
    mock_random.seed(0)
    cloudformation = boto3.client("cloudformation")
    parameters = _PARAMETERS | {
        "SiteRulesPrefix": os.environ.get("SITE_RULES", ""),
        "Sources": os.environ.get("SOURCES", ""),
    }
    body = cut_down(translate(read_template(), parameters), types)
    cloudformation.create_stack(
        StackName=STACK_NAME,
        TemplateBody=json.dumps(body),
        Parameters=[
            {"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()
        ],
        Capabilities=["CAPABILITY_IAM"],
    )
    described = cloudformation.describe_stacks(StackName=STACK_NAME)["Stacks"][0]
    if described["StackStatus"] != "CREATE_COMPLETE":
        raise state.StateError(f"the embedded stack did not come up: {described}")
    ids = {each["OutputKey"]: each["OutputValue"] for each in described["Outputs"]}
    mock_random.seed(int.from_bytes(os.urandom(16)))
    resources = Resources(bucket=ids["Bucket"], table=ids["Table"])
    if types == STORAGE_TYPES:
        return resources
    resources.machine_arn = ids["AttributionStateMachine"]
    resources.topic_arn = ids["VerdictTopic"]
    resources.dead_letter_url = ids["AdmissionDeadLetterQueue"]
    resources.inbox_url = _subscribe(resources.topic_arn)
    resources.deliveries = _take_over_mappings()
    _export_environment()
    return resources


def _subscribe(topic_arn: str) -> str:
    sqs = boto3.client("sqs")
    url = sqs.create_queue(QueueName="verdict-inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    boto3.client("sns").subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=arn["QueueArn"],
        Attributes={"RawMessageDelivery": "true"},
    )
    return str(url)


def _take_over_mappings() -> list[Delivery]:
    """Switch off moto's own deliveries and return ours for the same mappings."""
    functions, sqs = boto3.client("lambda"), boto3.client("sqs")
    deliveries = []
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
        arn = mapping["EventSourceArn"]
        url = sqs.get_queue_url(QueueName=arn.rsplit(":", 1)[1])["QueueUrl"]
        deliveries.append(Delivery(url, arn, mapping["FunctionArn"], mapping["BatchSize"]))
    return deliveries


def _export_environment() -> None:
    """Give this process what the template gives the functions; none contradicts another."""
    for function in boto3.client("lambda").list_functions()["Functions"]:
        variables = function.get("Environment", {}).get("Variables", {})
        os.environ.update({name: str(value) for name, value in variables.items()})
