"""The embedded AWS on disk: readable files, written after a run and loaded before the next.

s3/<key>            every object, under its key
table.jsonl         every item, one a line, in DynamoDB's JSON
messages.jsonl      what subscribers of the topic received
dead-letters.jsonl  events that could not be admitted
executions.jsonl    the workflow's executions
functions.jsonl     what the handlers logged
"""

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import boto3

try:
    import fcntl
except ImportError:  # Windows: nobody else is kept out there
    fcntl = None  # type: ignore[assignment]

_BATCH: Final = 25
"""Items that BatchWriteItem takes at once."""


class StateError(Exception):
    """A state folder that cannot be used: where, why and what to do."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep others out of the state folder, after waiting for whoever has it, which is told.

    Raises `StateError` where the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise StateError(
            f"{folder}: cannot be written ({error.strerror}); choose another --state"
        ) from error
    with lock:
        _wait_for(lock, folder)
        yield


def _wait_for(lock: IO[str], folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # `rootrank serve` keeps it until it is ended: waiting in silence would look like a hang.
        sys.stderr.write(
            f"rootrank: {folder} is in use by another rootrank (`serve`, or a run); waiting for it"
            " to end (Ctrl-C gives up)\n"
        )
        sys.stderr.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)


def load_objects(folder: Path, bucket: str) -> None:
    """Put every stored object into the bucket."""
    s3 = boto3.client("s3")
    root = folder / "s3"
    for path in sorted(root.rglob("*")):
        if path.is_file():
            s3.put_object(
                Bucket=bucket, Key=path.relative_to(root).as_posix(), Body=path.read_bytes()
            )


def save_objects(folder: Path, bucket: str) -> None:
    """Write every object that is not on disk yet."""
    s3 = boto3.client("s3")
    root = folder / "s3"
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            path = root / entry["Key"]
            if not path.resolve().is_relative_to(root.resolve()):
                continue
            body = s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()
            if path.is_file() and path.read_bytes() == body:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


def forget_objects(folder: Path, bucket: str) -> None:
    """Remove the files of objects that are no longer in the bucket."""
    pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=bucket)
    kept = {entry["Key"] for page in pages for entry in page.get("Contents", [])}
    root = folder / "s3"
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_dir():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(root).as_posix() not in kept:
            path.unlink()


def load_items(folder: Path, table: str) -> None:
    """Put every stored item into the table."""
    put_items(read_lines(folder / "table.jsonl"), table)


def put_items(items: Sequence[dict[str, Any]], table: str) -> None:
    """Put items with keys of their own into the table, as many at a time as the service takes."""
    dynamodb = boto3.client("dynamodb")
    for start in range(0, len(items), _BATCH):
        puts: Any = [{"PutRequest": {"Item": item}} for item in items[start : start + _BATCH]]
        while puts:
            answer = dynamodb.batch_write_item(RequestItems={table: puts})
            puts = answer.get("UnprocessedItems", {}).get(table, [])


def save_items(folder: Path, table: str) -> None:
    """Write every item of the table; a copy of the whole, so here a scan is right."""
    pages = boto3.client("dynamodb").get_paginator("scan").paginate(TableName=table)
    items = [item for page in pages for item in page["Items"]]
    write_lines(folder / "table.jsonl", sorted(items, key=lambda i: (i["pk"]["S"], i["sk"]["S"])))


def load_executions(folder: Path, machine_arn: str) -> None:
    """Tell the workflow which executions there were, so that their names stay taken."""
    from moto.core.models import DEFAULT_ACCOUNT_ID  # noqa: PLC0415
    from moto.stepfunctions.parser.api import ExecutionStatus, StateMachineType  # noqa: PLC0415
    from moto.stepfunctions.parser.backend.execution import Execution  # noqa: PLC0415
    from moto.stepfunctions.parser.models import stepfunctions_parser_backends  # noqa: PLC0415

    region = machine_arn.split(":")[3]
    backend = stepfunctions_parser_backends[DEFAULT_ACCOUNT_ID][region]
    machine: Any = backend.describe_state_machine(machine_arn)
    for line in read_lines(folder / "executions.jsonl"):
        execution = Execution(
            name=line["name"],
            sm_type=StateMachineType.STANDARD,
            role_arn=machine.roleArn,
            exec_arn=machine_arn.replace(":stateMachine:", ":execution:") + ":" + line["name"],
            account_id=DEFAULT_ACCOUNT_ID,
            region_name=region,
            state_machine=machine,
            start_date=datetime.fromisoformat(line["started"]),
            cloud_watch_logging_session=None,
            activity_store={},
            input_data=line["input"],
        )
        execution.exec_status = ExecutionStatus(line["status"])
        execution.stop_date = execution.start_date
        machine.executions.append(execution)


def save_executions(folder: Path, machine_arn: str) -> None:
    """Write the name, input and end of every execution."""
    client = boto3.client("stepfunctions")
    lines = []
    for listed in client.list_executions(stateMachineArn=machine_arn)["executions"]:
        told = client.describe_execution(executionArn=listed["executionArn"])
        lines.append(
            {
                "name": told["name"],
                "status": told["status"],
                "started": told["startDate"].astimezone(UTC).isoformat(),
                "input": told["input"],
            }
        )
    write_lines(folder / "executions.jsonl", sorted(lines, key=lambda line: line["started"]))


def read_lines(path: Path) -> list[Any]:
    """Return the JSON values of a file's lines; raises `StateError` with the place."""
    if not path.is_file():
        return []
    values = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            values.append(json.loads(line))
        except ValueError as error:
            raise StateError(
                f"{path}:{number}: not JSON ({error}); mend the line or remove the state folder"
            ) from error
    return values


def write_lines(path: Path, values: Iterable[Any]) -> None:
    """Write one JSON value a line, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    text = "".join(json.dumps(each, sort_keys=True, ensure_ascii=False) + "\n" for each in values)
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def append_lines(path: Path, values: Iterable[Any]) -> None:
    """Append one JSON value a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for each in values:
            file.write(json.dumps(each, sort_keys=True, ensure_ascii=False) + "\n")
