"""The embedded stack for tests: one a test, torn down with it."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine.model.identity import execution_name
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery
from rootrank.embedded.stack import Stack, open_stack

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"


class Embedded:
    """A stack with the words that tests speak in."""

    def __init__(self, stack: Stack, job_id: str):
        self.stack = stack
        self.job_id = job_id
        self.key = f"default/default/slurm/{job_id}/t1678044610"
        self.store = ObjectStore(stack.client("s3"), stack.resources.bucket)
        self.query = ResultsQuery(stack.client("dynamodb"), stack.resources.table)

    def workload(self, state: str = "NODE_FAIL", exit_code: str = "0:0") -> dict[str, Any]:
        """Return this test's own job, which lost a node as in corpus case 043."""
        return {
            "scheduler": "slurm",
            "job_id": self.job_id,
            "state": state,
            "exit_code": exit_code,
            "start": "2023-03-05T19:30:10Z",
            "end": "2023-03-06T03:17:51Z",
        }

    def bundle(self, name: str) -> str:
        """Upload a corpus bundle; returns its URI."""
        return self.stack.upload_bundle(CORPUS / name, name)

    def send(self, workload: dict[str, Any], **detail: Any) -> None:
        """Put `Job Completed` (or `Attribution Requested`) and wait for what it starts."""
        kind = "Attribution Requested" if "detection_signal" in detail else "Job Completed"
        self.put(workload, kind=kind, **detail)
        self.stack.settle(60)

    def put(self, workload: dict[str, Any], *, kind: str = "Job Completed", **detail: Any) -> None:
        """Put the event and do not wait."""
        self.stack.put_event(
            {
                "source": "rootrank.scheduler",
                "detail-type": kind,
                "detail": {"version": 1, "workload": workload, **detail},
            }
        )

    def current(self, key: str) -> dict[str, Any]:
        """Return CURRENT of an attempt."""
        found = self.query.current(key)
        assert found is not None, f"no verdict for {key}"
        return found

    def verdict(self, key: str) -> bytes:
        """Return the bytes of the current verdict."""
        return self.store.get(self.current(key)["verdict_key"])[0]

    def executions(self) -> list[str]:
        """Return the status of every execution for this test's attempt."""
        listed = self.stack.client("stepfunctions").list_executions(
            stateMachineArn=self.stack.resources.machine_arn
        )["executions"]
        own = execution_name(self.key, 0).removesuffix("0")
        return [each["status"] for each in listed if each["name"].startswith(own)]

    def messages(self) -> list[dict[str, Any]]:
        """Take the messages about this test's attempt."""
        taken = self.stack.messages()
        return [each for each in taken if each["body"]["attempt_key"] == self.key]


@contextmanager
def embedded_in(folder: Path, job_id: str = "410043") -> Iterator[Embedded]:
    """Stand a stack up over `folder`."""
    with open_stack(folder) as stack:
        yield Embedded(stack, job_id)


@pytest.fixture(scope="module")
def shared_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack for the tests of a module; each has a job of its own."""
    with open_stack(tmp_path_factory.mktemp("state")) as stack:
        yield stack


@pytest.fixture
def embedded(shared_stack: Stack, request: pytest.FixtureRequest) -> Embedded:
    """The stack, with a job that no other test has."""
    number = int.from_bytes(hashlib.sha256(request.node.name.encode()).digest()[:4])
    del shared_stack.invocations[:]
    return Embedded(shared_stack, str(500_000 + number))


@pytest.fixture
def reopen() -> Callable[..., AbstractContextManager[Embedded]]:
    """Opens a stack over a given state folder, as often as one likes."""
    return embedded_in


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes S3 calls fail: `failing(operation, when(key), code)`."""

    def fail(operation: str, when: Callable[[str], bool], code: str = "AccessDenied") -> None:
        from botocore.client import BaseClient
        from botocore.exceptions import ClientError

        real = BaseClient._make_api_call

        def call(self: Any, name: str, arguments: Any) -> Any:
            if name == operation and when(str(arguments.get("Key", ""))):
                answer = {"Error": {"Code": code, "Message": "injected"}, "ResponseMetadata": {}}
                raise ClientError(answer, name)  # type: ignore[arg-type]
            return real(self, name, arguments)

        monkeypatch.setattr(BaseClient, "_make_api_call", call)

    return fail
