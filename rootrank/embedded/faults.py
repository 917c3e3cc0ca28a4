"""What goes wrong between the functions and AWS, on purpose and by seed.

Within `Faults.at_work()` the handlers of an open stack meet throttling and 5xx answers, answers
that get lost after the work was done, kills in the middle, and invocations that are given up on
and finish later. Everything else (delivery, the workflow itself) stays sound.

Which fault strikes depends on the seed, the invocation and how many requests it made, not on
threads or time: the same seed makes the same trouble.
"""

import importlib
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from types import SimpleNamespace
from typing import Any, Final

import botocore.endpoint
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ConnectionClosedError
from moto.awslambda.models import LambdaFunction
from moto.core.botocore_stubber import BotocoreStubber, MockRawResponse
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl

from rootrank.embedded.emulator import LambdaContext

_SERVICES: Final = frozenset({"s3", "dynamodb", "sns", "sfn"})
_MOST_CALLS: Final = 24
"""An invocation that is to die dies at one of its first requests."""
_THROTTLED: Final = {
    "s3": (503, "<Error><Code>SlowDown</Code><Message>injected</Message></Error>"),
    "dynamodb": (400, '{"__type": "x#ThrottlingException", "message": "injected"}'),
    "sfn": (400, '{"__type": "ThrottlingException", "message": "injected"}'),
    "sns": (400, "<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"),
}
_BROKEN: Final = {
    "s3": (500, "<Error><Code>InternalError</Code><Message>injected</Message></Error>"),
    "dynamodb": (500, '{"__type": "x#InternalServerError", "message": "injected"}'),
    "sfn": (500, '{"__type": "InternalFailure", "message": "injected"}'),
    "sns": (500, "<ErrorResponse><Error><Code>InternalError</Code></Error></ErrorResponse>"),
}


class Killed(BaseException):
    """The end of an invocation in the middle; no handler can catch it."""


@dataclass(slots=True, frozen=True)
class Rates:
    """How often, as fractions: of requests the first two, of invocations the others.

    `refused`: a throttling or 5xx answer, nothing was done. `lost`: it was done, but the answer
    is a 5xx or the connection breaks. `killed`: the process dies. `abandoned`: the workflow gives
    up on an invocation, which goes on and finishes later.
    """

    refused: float = 0.1
    lost: float = 0.1
    killed: float = 0.05
    abandoned: float = 0.1


@dataclass(slots=True)
class _Invocation:
    identity: str
    requests: int = 0
    dies_at: int | None = None


@dataclass(slots=True)
class Faults:
    """The faults of one seed; `counts` says how many of which struck."""

    seed: int
    rates: Rates = Rates()
    counts: Counter[str] = field(default_factory=Counter)
    _late: list[tuple[LambdaFunction, Any]] = field(default_factory=list)
    _seen: Counter[str] = field(default_factory=Counter)
    _here: threading.local = field(default_factory=threading.local)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let the faults strike while the body runs; retries do not wait then."""
        never = SimpleNamespace(sleep=lambda _seconds: None)
        changes: list[tuple[Any, str, Any]] = [
            (LambdaFunction, "_invoke_lambda", self._invoking(LambdaFunction._invoke_lambda)),
            (BotocoreStubber, "__call__", self._answering(BotocoreStubber.__call__)),
            (botocore.endpoint, "time", _patient(time)),
            (retrier_decl, "time", never),
        ]
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
        for owner, name, change in changes:
            setattr(owner, name, change)
        try:
            yield
        finally:
            for owner, name, original in before:
                setattr(owner, name, original)

    def finish_late(self) -> int:
        """Let every invocation that was given up on finish now; returns how many there were."""
        count = 0
        while self._late:
            self._finish(*self._late.pop())
            count += 1
        return count

    def _chance(self, *what: object) -> random.Random:
        return random.Random("/".join(map(str, (self.seed, *what))))  # noqa: S311  faults, not keys

    def _invoking(self, inner: Callable[..., tuple[str, bool, str]]) -> Any:
        def invoke(function: LambdaFunction, event: Any = None) -> tuple[str, bool, str]:
            identity = self._identity(function, event)
            chance = self._chance(identity)
            if "Records" not in (event or {}) and chance.random() < self.rates.abandoned:
                self.counts["abandoned"] += 1
                self._late.append((function, event))
                return _failed("Sandbox.Timedout", "given up on, but it goes on")
            invocation = _Invocation(identity)
            if chance.random() < self.rates.killed:
                invocation.dies_at = chance.randint(1, _MOST_CALLS)
            self._here.invocation = invocation
            try:
                return inner(function, event)
            except Killed:
                self.counts["killed"] += 1
                return _failed("Lambda.Unknown", "killed")
            finally:
                self._here.invocation = None

        return invoke

    def _identity(self, function: LambdaFunction, event: Any) -> str:
        """Return which work this is and the how manyeth try: the same in every run of a seed."""
        told = event or {}
        parts = [str(function.handler)]
        if "Records" in told:
            parts += [record["body"] for record in told["Records"]]
        else:
            names = ("attempt_key", "generation", "collection", "revision")
            parts += [str(told.get(name)) for name in names]
            parts.append(str(told.get("item", {}).get("item_id")))
        identity = " ".join(parts)
        self._seen[identity] += 1
        return f"{identity} {self._seen[identity]}"

    def _answering(self, inner: Any) -> Any:
        def answer(stubber: Any, event_name: str, request: Any, **more: Any) -> Any:
            invocation = getattr(self._here, "invocation", None)
            service = event_name.split(".")[1]
            if invocation is None or service not in _SERVICES:
                return inner(stubber, event_name, request, **more)
            invocation.requests += 1
            chance = self._chance(invocation.identity, invocation.requests)
            if self._late and chance.random() < self.rates.abandoned:
                self._finish(*self._late.pop())
            if invocation.requests == invocation.dies_at:
                if chance.random() < 0.5:
                    inner(stubber, event_name, request, **more)
                raise Killed
            roll = chance.random()
            if roll >= self.rates.refused + self.rates.lost:
                return inner(stubber, event_name, request, **more)
            kind = "refused"
            if roll >= self.rates.refused:
                kind = "lost"
                inner(stubber, event_name, request, **more)
            self.counts[f"{kind} {service}"] += 1
            if kind == "lost" and chance.random() < 0.5:
                raise ConnectionClosedError(endpoint_url=request.url)
            told = _THROTTLED if kind == "refused" and chance.random() < 0.5 else _BROKEN
            status, body = told[service]
            return AWSResponse(request.url, status, HTTPHeaders(), MockRawResponse(body))

        return answer

    def _finish(self, function: LambdaFunction, event: Any) -> None:
        """Run an abandoned invocation to its end, undisturbed; nobody hears its answer."""
        self.counts["finished late"] += 1
        module, name = str(function.handler).rsplit(".", 1)
        context = LambdaContext(
            function.function_name, int(function.memory_size or 128), function.function_arn
        )
        held = getattr(self._here, "invocation", None)
        self._here.invocation = None
        try:
            with redirect_stdout(StringIO()):
                getattr(importlib.import_module(module), name)(_as_left(event), context)
        except Exception:  # noqa: BLE001  nobody waits for it; what it wrote is what counts
            self.counts["failed late"] += 1
        finally:
            self._here.invocation = held


def _as_left(event: Any) -> Any:
    """Return the event of a collector that was slow: it reads less, so that it writes otherwise."""
    told = json.loads(json.dumps(event))
    if "item" in told:
        told["item"]["budget"] = {"bytes": 64, "seconds": 1, "requests": 100}
        told["retry_count"] = 9
    return told


def _patient(clock: Any) -> Any:
    return SimpleNamespace(**{**vars(clock), "sleep": lambda _seconds: None})


def _failed(error: str, message: str) -> tuple[str, bool, str]:
    return json.dumps({"errorType": error, "errorMessage": message, "stackTrace": []}), True, ""
