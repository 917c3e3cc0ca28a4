"""The stack as `sam deploy` makes it, on MiniStack on loopback, with functions as built."""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from rootrank.embedded.lambda_process import FunctionSpec

ROOT = Path(__file__).parents[2]
SERVER = ROOT / ".venv-ministack/bin/python"
CLIENT = ROOT / "build/ric313"
CORPUS = ROOT / "tests/corpus"
STACK = "rootrank"
REGION = "us-east-1"
KEY = "default/default/slurm/410043/t1678044610"
PLAN = f"{KEY}/plans/g0001-c1"


@dataclass(frozen=True)
class MiniStack:
    """A running server and what its functions wrote."""

    url: str
    log: Path

    def client(self, service: str) -> Any:
        return boto3.client(  # type: ignore[call-overload]
            service, endpoint_url=self.url, region_name=REGION, aws_access_key_id="test",
            aws_secret_access_key="test", config=Config(inject_host_prefix=False),
        )  # fmt: skip

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to talk to this server instead of AWS."""
        return {
            **os.environ, "AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_EC2_METADATA_DISABLED": "true", "SAM_CLI_TELEMETRY": "0",
        }  # fmt: skip


@contextmanager
def ministack(layer: Path, folder: Path, python: str) -> Iterator[MiniStack]:
    """Start MiniStack; its functions run in `python` with `layer` and AWS's runtime client."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = folder / "functions.log"
    environment = {
        **os.environ, "GATEWAY_PORT": str(port), "MINISTACK_HOST": "127.0.0.1",
        "SFTP_ENABLED": "0", "IOT_MTLS_ENABLED": "0", "LOG_LEVEL": "ERROR",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{Path(__file__).parent}", "LAMBDA_LAYER": str(layer),
        "LAMBDA_CLIENT": str(CLIENT), "LAMBDA_PYTHON": python, "LAMBDA_LOG": str(log),
        "TMPDIR": str(folder),
    }  # fmt: skip
    bind = f"127.0.0.1:{port}"
    with (folder / "server.log").open("wb") as output:
        process = subprocess.Popen(
            [SERVER, "-m", "hypercorn", "ministack_app:app", "--bind", bind, "--workers", "0"],
            cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        url = f"http://{bind}"
        until(lambda: _is_up(url) or process.poll() is not None, "MiniStack did not start")
        assert process.poll() is None, (folder / "server.log").read_text()
        yield MiniStack(url, log)
    finally:
        process.terminate()
        process.wait()


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_ministack/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def sam(*words: str, environment: Mapping[str, str]) -> str:
    """Run the SAM command line in the checkout and return what it printed."""
    told = subprocess.run(
        ["sam", *words], cwd=ROOT, env=dict(environment), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout[-4000:] + told.stderr[-4000:]
    return told.stdout + told.stderr


def until(found: Callable[[], Any], trouble: str, seconds: float = 60) -> Any:
    """Wait for a true answer and return it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(trouble)


def outputs(server: MiniStack) -> dict[str, str]:
    """Return the stack's outputs."""
    (stack,) = server.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}


def put(server: MiniStack, detail_type: str, detail: Mapping[str, Any]) -> None:
    """Put one event of `rootrank.scheduler` on the default bus."""
    entry = {"Source": "rootrank.scheduler", "DetailType": detail_type,
             "Detail": json.dumps(detail)}  # fmt: skip
    answer = server.client("events").put_events(Entries=[entry])
    assert answer["FailedEntryCount"] == 0, answer


def upload(deployed: Any, name: str) -> str:
    """Put a corpus bundle where the template says that bundles go; returns its URI."""
    bucket = deployed.outputs["BucketName"]
    for path in sorted((CORPUS / name).rglob("*")):
        if path.is_file():
            key = f"bundles/{name}/{path.relative_to(CORPUS / name).as_posix()}"
            deployed.server.client("s3").put_object(Bucket=bucket, Key=key, Body=path.read_bytes())
    return f"s3://{bucket}/bundles/{name}/"


def workload(job_id: str) -> dict[str, str]:
    return {
        "scheduler": "slurm", "job_id": job_id, "state": "NODE_FAIL", "exit_code": "0:0",
        "start": "2023-03-05T19:30:10Z", "end": "2023-03-06T03:17:51Z",
    }  # fmt: skip


def ended(deployed: Any) -> list[dict[str, Any]]:
    listed = deployed.server.client("stepfunctions").list_executions(
        stateMachineArn=deployed.outputs["StateMachineArn"]
    )["executions"]
    return [each for each in listed if each["status"] != "RUNNING"]


def spec_of(deployed: Any, name: str, **more: Any) -> FunctionSpec:
    """Return a deployed function, with its own settings, to be started here."""
    functions = deployed.server.client("lambda").list_functions()["Functions"]
    (found,) = [each for each in functions if f"-{name}" in each["FunctionName"]]
    environment = {
        **found["Environment"]["Variables"],
        "AWS_ENDPOINT_URL": deployed.server.url,
        **more.pop("environment", {}),
    }
    return FunctionSpec(
        name=name, handler=found["Handler"], code=deployed.built / name,
        packages=[deployed.layer], client=CLIENT, python=deployed.python, environment=environment,
        **{"memory_mib": found["MemorySize"], "timeout_s": 120.0, **more},
    )  # fmt: skip


def stored(deployed: Any, key: str) -> Any:
    body = deployed.server.client("s3").get_object(Bucket=deployed.outputs["BucketName"], Key=key)
    return json.loads(body["Body"].read())


def collect_task(deployed: Any, item_id: str, **changes: Any) -> dict[str, Any]:
    """Return the input of a collector: an item of the plan under another id."""
    items = stored(deployed, f"{PLAN}/items.json")
    item = next(each for each in items if each["connector"] == "static")
    return {
        "attempt_key": KEY, "generation": 1, "collection": 1, "plan_key": f"{PLAN}/plan.json",
        "item": {**item, "item_id": item_id, **changes},
    }  # fmt: skip
