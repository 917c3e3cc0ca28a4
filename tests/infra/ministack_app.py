"""MiniStack as an application whose Python functions run under AWS's own runtime client.

    python -m hypercorn ministack_app:app --bind 127.0.0.1:PORT --workers 0

What MiniStack 1.5 does wrongly for this stack is put right here. It names every handler's exception
`Runtime.HandlerError`, so that no Retry or Catch by name could be seen to work; and a condition
that joins a list to see whether it is empty is always true; a number that a parameter gives stays
text; and its CloudFormation has no versions and aliases of state machines, though its Step
Functions has. It needs from the environment:
GATEWAY_PORT, LAMBDA_PYTHON, LAMBDA_CLIENT, LAMBDA_LOG and LAMBDA_LAYER, the layer's folder.
"""

import atexit
import hashlib
import io
import json
import os
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

from ministack.app import app
from ministack.services import lambda_svc, stepfunctions
from ministack.services.cloudformation import changesets, engine, handlers, provisioners, stacks

from rootrank.embedded.lambda_process import FunctionSpec, LambdaProcess

__all__ = ["app"]

_processes: dict[str, list[LambdaProcess]] = {}
_lock = threading.Lock()


def _idle(code: bytes, config: dict[str, Any]) -> LambdaProcess:
    """Return an idle process of the function, a new one where all are at work."""
    variables = dict((config.get("Environment") or {}).get("Variables") or {})
    told = [config["FunctionName"], config["Handler"], variables, config.get("Version")]
    key = hashlib.sha256(code + json.dumps(told, sort_keys=True).encode()).hexdigest()
    with _lock:
        for process in _processes.setdefault(key, []):
            if not process.is_busy:
                process.is_busy = True
                return process
        folder = Path(tempfile.mkdtemp(prefix="function-"))
        zipfile.ZipFile(io.BytesIO(code)).extractall(folder)
        variables.setdefault("AWS_ENDPOINT_URL", f"http://127.0.0.1:{os.environ['GATEWAY_PORT']}")
        spec = FunctionSpec(
            name=config["FunctionName"],
            handler=config["Handler"],
            code=folder,
            packages=[Path(os.environ["LAMBDA_LAYER"]) / "python"],
            client=Path(os.environ["LAMBDA_CLIENT"]),
            python=os.environ["LAMBDA_PYTHON"],
            environment=variables,
            memory_mib=int(config.get("MemorySize") or 128),
            timeout_s=float(config.get("Timeout") or 3),
        )
        process = LambdaProcess(spec)
        process.is_busy = True
        _processes[key].append(process)
        return process


def _execute(function: dict[str, Any], event: Any, _request_id: str) -> dict[str, Any]:
    process = _idle(function["code_zip"], function.get("config") or function)
    try:
        answer = process.invoke(event)
    finally:
        process.is_busy = False
    told = {
        "measured": process.spec.name,
        "process": f"{id(process)}-{process.starts}",
        "init_ms": round(process.init_milliseconds),
        "init_cpu_ms": round(process.init_cpu_milliseconds),
        "peak_mib": round(process.peak_mib),
        "memory_mib": process.spec.memory_mib,
    }
    with Path(os.environ["LAMBDA_LOG"]).open("a", encoding="utf-8") as log:
        log.write(f"{answer.log}\n{json.dumps(told)}\n")
    result = {"body": answer.value, "log": answer.log}
    return result | {"error": True} if answer.error else result


def _unjoined(value: Any) -> Any:
    """Return a condition with a list parameter instead of its elements joined with nothing."""
    if isinstance(value, list):
        return [_unjoined(each) for each in value]
    if not isinstance(value, dict):
        return value
    if "Fn::Join" in value and value["Fn::Join"][0] == "":
        return value["Fn::Join"][1]
    return {key: _unjoined(each) for key, each in value.items()}


def _decided(template: dict[str, Any], parameters: dict[str, Any]) -> dict[str, bool]:
    plain = {**template, "Conditions": _unjoined(template.get("Conditions", {}))}
    found: dict[str, bool] = _evaluate(plain, parameters)
    return found


def _answered(answer: tuple[int, Any, Any]) -> dict[str, Any]:
    status, _headers, body = answer
    if status >= 400:
        raise ValueError(body.decode())
    return dict(json.loads(body or b"{}"))


def _publish(_name: str, told: dict[str, Any], _stack: str) -> tuple[str, dict[str, Any]]:
    revision = told["StateMachineRevisionId"]
    wanted = {"stateMachineArn": told["StateMachineArn"], "revisionId": revision}
    answer = _answered(stepfunctions._publish_state_machine_version(wanted))
    return answer["stateMachineVersionArn"], {}


def _name(_name: str, told: dict[str, Any], _stack: str) -> tuple[str, dict[str, Any]]:
    version = told["DeploymentPreference"]["StateMachineVersionArn"]
    routing = [{"stateMachineVersionArn": version, "weight": 100}]
    wanted = {"name": told["Name"], "routingConfiguration": routing}
    answer = _answered(stepfunctions._create_state_machine_alias(wanted))
    return answer["stateMachineAliasArn"], {}


def _kept(*_told: Any) -> None:
    """Leave it: a machine that is deleted takes its versions and aliases along."""


def _limited(*told: Any, **more: Any) -> int:
    """Return how many batches may be at work, as a number."""
    return int(_limit(*told, **more))


_limit = lambda_svc._sqs_esm_concurrency
lambda_svc._sqs_esm_concurrency = _limited
_evaluate = engine._evaluate_conditions
for _module in (engine, changesets, handlers, stacks):
    _module._evaluate_conditions = _decided
lambda_svc._execute_function_warm = _execute
for _kind, _create in (("Version", _publish), ("Alias", _name)):
    provisioners._RESOURCE_HANDLERS[f"AWS::StepFunctions::StateMachine{_kind}"] = {
        "create": _create, "delete": _kept,
    }  # fmt: skip
atexit.register(lambda: [each.stop() for pool in _processes.values() for each in pool])
