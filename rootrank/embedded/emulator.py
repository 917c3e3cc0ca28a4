"""What moto 5.2 does not do, or does wrongly, for this stack: put right in one place.

- CloudFormation state machines land in the backend that does not execute, with their
  substitutions unmade.
- Lambda needs Docker: here the handlers are called in process.
- An event source mapping calls the function inside `SendMessage` and knows no partial failure:
  `rootrank.embedded.delivery` polls instead.
- Rules hand events on without their account.
- `RedriveExecution` is missing: it answers that the execution cannot be redriven.
- A transaction on a table copies all of it, once for each item; what else it does more often than
  need be is in `rootrank.embedded.shortcuts`.
- An Amazon endpoint that moto does not know would be called for real: refused.
"""

import copy
import importlib
import json
import logging
import os
import re
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TextIO

from botocore.httpsession import URLLib3Session
from moto import mock_aws
from moto.awslambda.models import LambdaFunction
from moto.core.exceptions import AWSError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.events.models import Rule, events_backends
from moto.sqs.models import sqs_backends
from moto.stepfunctions import models as machines
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser
from moto.stepfunctions.parser.models import stepfunctions_parser_backends
from moto.stepfunctions.responses import StepFunctionResponse

from rootrank.embedded.shortcuts import shortcuts
from rootrank.embedded.template import REGION

_SUBSTITUTION: Final = re.compile(r"\$\{(\w+)\}")
_TIME_LEFT_MS: Final = 300_000
_WHOLE_PERCENTAGE: Final = re.compile(r'("ToleratedFailurePercentage":\s?\d+)(?=\s?[,}])')
"""`"ToleratedFailurePercentage": 100`: moto's grammar takes it for a count and refuses it."""
ONE_AT_A_TIME: Final = threading.Lock()
"""Held by whoever runs a handler or its scanner in this process."""
_ENVIRONMENT: Final = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "embedded",
    "AWS_SECRET_ACCESS_KEY": "embedded",
    "AWS_SESSION_TOKEN": "embedded",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true",
    "POWERTOOLS_TRACE_DISABLED": "true",
}


class NetworkRefusedError(RuntimeError):
    """A call that would have left this machine."""


class NotRedrivableError(AWSError):
    """What AWS answers where an execution cannot be resumed."""

    TYPE = "ExecutionNotRedrivable"


@dataclass(slots=True)
class Invocation:
    """One call of a handler, told to whoever shows progress."""

    function: str
    event: Any
    answer: Any = None
    error: str | None = None


@dataclass(slots=True)
class LambdaContext:
    """What handlers use of Lambda's context object."""

    function_name: str
    memory_limit_in_mb: int
    invoked_function_arn: str
    function_version: str = "$LATEST"
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    log_group_name: str = "embedded"
    log_stream_name: str = "embedded"

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left, always plenty."""
        return _TIME_LEFT_MS


@contextmanager
def emulated_aws(log: TextIO, on_invocation: Callable[[Invocation], None]) -> Iterator[None]:
    """Run the body on moto with this module's repairs; handlers print to `log`."""
    from functions.adapters.services import connect  # noqa: PLC0415  boto3 wakes up inside moto

    before = dict(os.environ)
    os.environ.update(_ENVIRONMENT)
    os.environ.pop("AWS_PROFILE", None)
    # moto logs each failed state of a workflow; who asked sees it as progress.
    for name in ("moto", "samtranslator"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    config: Any = {"stepfunctions": {"execute_state_machine": True}}
    try:
        with mock_aws(config=config), _repaired(on_invocation, log), redirect_stdout(log):
            connect.cache_clear()
            yield
    finally:
        connect.cache_clear()
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _repaired(on_invocation: Callable[[Invocation], None], log: TextIO) -> Iterator[None]:
    create = machines.StateMachine.create_from_cloudformation_json
    repairs: list[tuple[Any, str, Any]] = [
        (machines, "stepfunctions_backends", stepfunctions_parser_backends),
        (
            machines.StateMachine,
            "create_from_cloudformation_json",
            classmethod(_substituted(create)),
        ),
        (LambdaFunction, "_invoke_lambda", _in_process(on_invocation, log)),
        (StepFunctionResponse, "redrive_execution", _refuse_redrive),
        (URLLib3Session, "send", _refuse_network),
        (Rule, "send_to_targets", _whole(Rule.send_to_targets)),
        (Table, "__deepcopy__", lambda table, _memo: table),
        (
            DynamoDBBackend,
            "transact_write_items",
            _transacted(DynamoDBBackend.transact_write_items),
        ),
        # Every execution parses the machine again, for a third of a second; parsed it is immutable.
        (AmazonStateLanguageParser, "parse", staticmethod(cache(AmazonStateLanguageParser.parse))),
        *shortcuts(),
    ]
    before = [(owner, name, vars(owner).get(name)) for owner, name, _ in repairs]
    for owner, name, repair in repairs:
        setattr(owner, name, repair)
    try:
        yield
    finally:
        for owner, name, original in before:
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)


def _substituted(create: Any) -> Any:
    def create_from_cloudformation_json(
        cls: Any, name: str, resource: dict[str, Any], account: str, region: str, **rest: Any
    ) -> Any:
        properties = dict(resource["Properties"])
        if "Definition" in properties:
            properties["DefinitionString"] = json.dumps(properties.pop("Definition"))
        made = properties.pop("DefinitionSubstitutions", None) or {}
        properties["DefinitionString"] = _SUBSTITUTION.sub(
            lambda match: str(made.get(match[1], match[0])), properties["DefinitionString"]
        )
        properties["DefinitionString"] = _WHOLE_PERCENTAGE.sub(
            r"\1.0", properties["DefinitionString"]
        )
        changed = {**resource, "Properties": properties}
        return create.__func__(cls, name, changed, account, region, **rest)

    return create_from_cloudformation_json


def _in_process(on_invocation: Callable[[Invocation], None], log: TextIO) -> Any:
    def invoke(function: Any, event: Any = None) -> tuple[str, bool, str]:
        module, name = function.handler.rsplit(".", 1)
        context = LambdaContext(
            function.function_name, int(function.memory_size or 128), function.function_arn
        )
        invocation = Invocation(function.function_name, event)
        try:
            handler = getattr(importlib.import_module(module), name)
            _log_to(log)
            # What AWS would do: only what survives JSON goes in and comes out. And one call at a
            # time in a process, which is what handlers and their scanner count on.
            with ONE_AT_A_TIME:
                answer = handler(json.loads(json.dumps(event)), context)
            text = json.dumps(answer)
            invocation.answer = json.loads(text)
        except Exception as error:  # noqa: BLE001  the runtime reports whatever a handler raises
            invocation.error = f"{type(error).__name__}: {error}"
            print(traceback.format_exc())  # noqa: T201  the function's log
            text = json.dumps(
                {
                    "errorMessage": str(error),
                    "errorType": type(error).__name__,
                    "stackTrace": traceback.format_tb(error.__traceback__),
                }
            )
        on_invocation(invocation)
        return text, invocation.error is not None, ""

    return invoke


def _transacted(write: Any) -> Any:
    """Return moto's transaction with a copy of what it touches.

    moto copies the whole table once for each item, so that a busy table gets slower with its
    square; here only the partitions are copied that the items are in.
    """

    def transact_write_items(backend: Any, transact_items: list[dict[str, Any]]) -> None:
        before: dict[tuple[str, Any], Any] = {}
        for each in transact_items:
            ((_, write_of),) = each.items()
            table = backend.get_table(write_of["TableName"])
            key = write_of.get("Key") or write_of["Item"]
            partition = DynamoType(key[table.hash_key_attr])
            if partition in table.items:
                before[(table.name, partition)] = copy.deepcopy(dict(table.items[partition]))
            else:
                before[(table.name, partition)] = None
        try:
            write(backend, transact_items)
        except Exception:
            for (name, partition), held in before.items():
                items = backend.tables[name].items
                if held is None:
                    items.pop(partition, None)
                else:
                    items[partition] = held
            raise

    return transact_write_items


def _whole(send: Any) -> Any:
    def send_to_targets(rule: Any, event: dict[str, Any], _transform: bool = True) -> None:
        kept = {name: value for name, value in event.items() if name != "ingestion-time"}
        send(rule, kept, transform_input=False)

    return send_to_targets


def emit_as_service(event: Mapping[str, Any], bus: str = "default") -> None:
    """Put an event on the bus as an AWS service does: with its own account, region and time.

    `PutEvents` is not for them: it refuses sources that begin with `aws.`.
    """
    backend = events_backends[DEFAULT_ACCOUNT_ID][REGION]
    message: Any = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "account": DEFAULT_ACCOUNT_ID,
        "region": REGION,
        "resources": [],
        **event,
        "time": time.time(),
    }
    for rule in backend.describe_event_bus(bus).rules.values():
        rule.send_to_targets(message)


def _log_to(log: TextIO) -> None:
    """Point the functions' logger here: it took the standard output of when it was made."""
    for each in logging.getLogger("rootrank").handlers:
        if isinstance(each, logging.StreamHandler) and each.stream is not log:
            # Not setStream: it flushes the old stream, which may be closed by now.
            each.stream = log


def _refuse_redrive(_response: Any) -> Any:
    raise NotRedrivableError("the embedded workflow cannot resume an execution")


def _refuse_network(_session: Any, request: Any) -> Any:
    raise NetworkRefusedError(f"{request.method} {request.url} would leave this machine")


def is_waiting(queue_arn: str) -> bool:
    """Whether a queue holds a message that may be received now: asked often, so asked of moto."""
    _, _, _, region, account, name = queue_arn.split(":")
    return bool(sqs_backends[account][region].get_queue(name).messages)


def executions(machine_arn: str) -> list[tuple[str, str, str]]:
    """Return arn, name and status of every execution of a machine.

    Straight from moto: its `ListExecutions` spends more time on writing its answer than the
    workflow on all of its states.
    """
    backend = stepfunctions_parser_backends[DEFAULT_ACCOUNT_ID][machine_arn.split(":")[3]]
    machine: Any = backend.describe_state_machine(machine_arn)
    return [
        (each.exec_arn, each.name, each.exec_status.value if each.exec_status else "RUNNING")
        for each in list(machine.executions)
    ]
