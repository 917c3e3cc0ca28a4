"""The service over the embedded stack: the deployed front, asked as API Gateway asks it."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from functions.adapters.event_bus import connect_bus
from functions.adapters.services import connect
from functions.service.front import Front
from functions.service.handler import build_service
from rootrank.embedded.emulator import ONE_AT_A_TIME, LambdaContext
from rootrank.embedded.stack import Stack, open_stack
from rootrank.service.uploads import LocalUploads

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests/corpus"
ACCESS = {
    "iam": [
        {"principal": "arn:aws:iam::111122223333:role/team-a", "tenant": "team-a",
         "may": ["read", "write", "correct"]},
        {"principal": "arn:aws:iam::111122223333:role/team-b", "tenant": "team-b",
         "may": ["read", "write", "correct"]},
        {"principal": "arn:aws:iam::111122223333:role/viewer", "tenant": "team-a",
         "may": ["read"]},
    ]
}  # fmt: skip
WORKLOAD = {
    "scheduler": "slurm", "job_id": "30911", "attempt": 0, "state": "FAILED", "exit_code": "1:0",
    "start": "2023-03-06T10:00:00Z", "end": "2023-03-06T22:05:20Z", "nodes": ["node-003"],
    "world_size": 4,
}  # fmt: skip


@dataclass(slots=True, frozen=True)
class Told:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: Any


@dataclass(slots=True)
class Api:
    """Asks the front as one caller or another."""

    stack: Stack
    front: Front
    uploads: LocalUploads

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: str = "team-a",
        headers: dict[str, str] | None = None,
        query: str = "",
        raw: bytes | None = None,
    ) -> Told:
        arn = f"arn:aws:sts::111122223333:assumed-role/{role}/session-1"
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": path,
            "rawQueryString": query,
            "headers": {"content-type": "application/json", **(headers or {})},
            "requestContext": {
                "stage": "$default",
                "http": {"method": method, "path": path},
                "authorizer": {"iam": {"userArn": arn}},
            },
            "isBase64Encoded": False,
        }
        if query:
            event["queryStringParameters"] = dict(each.split("=", 1) for each in query.split("&"))
        if raw is not None:
            event |= {"body": base64.b64encode(raw).decode(), "isBase64Encoded": True}
        elif body is not None:
            event["body"] = json.dumps(body)
        context = LambdaContext("service", 1024, "arn:aws:lambda:us-east-1:111122223333:function:s")
        answer = self.front.answer(event, context)
        return Told(answer["statusCode"], answer["headers"], json.loads(answer["body"]))

    def session(self, workload: dict[str, Any] | None = None, **more: Any) -> str:
        """Open a session and return its id."""
        told = self.ask("POST", "/v1/sessions", {"workload": workload or WORKLOAD}, **more)
        assert told.status == 201, told.body
        return str(told.body["session_id"])

    def chunk(self, session: str, path: str, text: str, *, offset: int = 0, **stream: Any) -> Told:
        """Send one chunk of a program's log, or of the source that `stream` says."""
        described = {"path": path, "source": "applog", **stream}
        body = {"stream": described, "offset": offset, "text": text}
        return self.ask("POST", f"/v1/sessions/{session}/chunks", body)

    def verdict(self, session: str, *, query: str = "", role: str = "team-a") -> Any:
        """Return the answer about a session's verdict."""
        told = self.ask("GET", f"/v1/sessions/{session}/verdict", query=query, role=role)
        assert told.status == 200, told.body
        return told.body

    def publish(self, tenant: str, job: str, *, bundle: str = "007-xid119-gsp-timeout") -> str:
        """Send one failure through the pipeline and return the id of its result."""
        uri = self.stack.upload_bundle(CORPUS / bundle, f"{bundle}-{job}")
        workload = {**WORKLOAD, "job_id": job, "tenant": tenant}
        self.stack.put_event(
            {
                "source": "rootrank.scheduler",
                "detail-type": "Job Completed",
                "detail": {"version": 1, "workload": workload, "bundle_uri": uri},
            }
        )
        self.stack.settle(60)
        listed = self.ask("GET", "/v1/results", role=tenant).body["results"]
        return str(next(each["result_id"] for each in listed if each["job_id"] == job))


@contextmanager
def open_api(folder: Path) -> Iterator[Api]:
    """Open the service with two tenants and a viewer, over one embedded stack."""
    with open_stack(folder) as stack:
        services = connect()
        uploads = LocalUploads(services.store)
        service = build_service(
            services,
            bus=connect_bus(),
            signer=uploads,
            access=json.dumps(ACCESS),
            exclusive=lambda: ONE_AT_A_TIME,
        )
        # A controller's patience: tests have less of it.
        recovery = replace(service.recovery, max_wait_ms=1500)
        yield Api(stack, Front(replace(service, recovery=recovery)), uploads)
