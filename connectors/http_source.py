"""Reading over HTTP as every connector does it: budgets, typed errors, patience with the busy.

Only what a retry can cure is retried, and only reading requests are made. Answers are read in
pieces and cut off at a ceiling, so that a huge answer costs no memory.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx

from connectors.allowance import Allowance
from connectors.protocol import (
    ConnectorError,
    CursorExpiredError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
    TransientError,
)

MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
_PIECE: Final = 64 * 1024
_MAX_PAUSE_S: Final = 30.0
_FIRST_PAUSE_S: Final = 0.5
_TOLD: Final = 300
"""So many characters of an error answer are told."""
_MAX_EXPLAINED: Final = 64 * 1024

Params = Mapping[str, str | int]
Explain = Callable[[int, bytes], ConnectorError | None]
"""What a service means by a status and the body of its error answer, where it says it itself."""


class AnswerTooLargeError(ConnectorError):
    """An answer beyond the ceiling: ask for less at a time."""


@dataclass(slots=True)
class HttpSource:
    """One service. `client` carries address, credentials and timeouts; `pause` sleeps seconds.

    Raises the errors of `connectors.protocol`; `what` names the service in them.
    """

    client: httpx.Client
    what: str
    allowance: Allowance
    pause: Callable[[float], None]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    tries: int = 3
    max_bytes: int = MAX_ANSWER_BYTES
    explain: Explain | None = None

    def get(self, path: str, params: Params | None = None) -> bytes:
        """Return a whole answer."""
        return self._patiently(lambda: self._once(path, params))

    def get_json(self, path: str, params: Params | None = None) -> Any:
        """Return an answer's JSON value; raises `MalformedAnswerError`."""
        return read_json(self.get(path, params), f"{self.what} {path}")

    @contextmanager
    def stream(self, path: str, params: Params | None = None) -> Iterator[Iterator[bytes]]:
        """Open an endless answer (a watch) and yield its pieces as they come."""
        with self._opened(path, params) as answer:
            yield self._pieces(answer)

    def _once(self, path: str, params: Params | None) -> bytes:
        with self._opened(path, params) as answer:
            parts: list[bytes] = []
            size = 0
            for part in self._pieces(answer):
                parts.append(part)
                size += len(part)
                if size > self.max_bytes:
                    raise AnswerTooLargeError(
                        f"{self.what} {path}: more than {self.max_bytes} bytes in one answer; "
                        "ask for a shorter window or fewer items a page"
                    )
            return b"".join(parts)

    @contextmanager
    def _opened(self, path: str, params: Params | None) -> Iterator[httpx.Response]:
        self.allowance.take_request(f"{self.what} {path}")
        try:
            with self.client.stream("GET", path, params=dict(params or {})) as answer:
                if answer.status_code >= 300:
                    self._refuse(answer, path)
                yield answer
        except httpx.InvalidURL as error:
            raise ConnectorError(f"{self.what} {path}: no valid address ({error})") from error
        except httpx.ConnectError as error:
            raise SourceUnreachableError(
                f"{self.what} {path}: {error}; is it running, and is this its address?"
            ) from error
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise SourceUnreachableError(f"{self.what} {path}: {reason}") from error

    def _pieces(self, answer: httpx.Response) -> Iterator[bytes]:
        for part in answer.iter_bytes(_PIECE):
            self.allowance.take_bytes(len(part))
            yield part

    def _patiently(self, ask: Callable[[], bytes]) -> bytes:
        for number in range(1, self.tries + 1):
            try:
                return ask()
            except TransientError as error:
                wanted = getattr(error, "retry_after_s", None)
                wait = min(_MAX_PAUSE_S, wanted or _FIRST_PAUSE_S * 2 ** (number - 1))
                if number == self.tries or wait > self.allowance.seconds_left:
                    raise
                self.pause(wait)
        raise SourceUnreachableError(f"{self.what}: not asked at all; allow at least one try")

    def _refuse(self, answer: httpx.Response, path: str) -> None:
        status = answer.status_code
        body = _beginning(answer)
        meant = None if self.explain is None else self.explain(status, body)
        if meant is not None:
            raise type(meant)(f"{self.what} {path}: HTTP {status}: {meant}")
        where = f"{self.what} {path}: HTTP {status}{_told(body)}"
        if status == 429 or status >= 500:
            raise SourceBusyError(where, self._retry_after(answer))
        if status in (401, 403):
            raise SourceRefusedError(f"{where}; check the token and what it may read")
        if status == 410:
            raise CursorExpiredError(f"{where}; list again from the start")
        if status == 404:
            raise SourceAbsentError(where)
        raise MalformedAnswerError(f"{where}; is this the right service and version?")

    def _retry_after(self, answer: httpx.Response) -> float | None:
        """Read `Retry-After`, seconds or an HTTP date (RFC 9110, section 10.2.3)."""
        text = answer.headers.get("retry-after", "").strip()
        if text.isdigit():
            return float(text)
        try:
            return max(0.0, (parsedate_to_datetime(text) - self.now()).total_seconds())
        except (TypeError, ValueError):
            return None


def read_json(body: bytes, what: str) -> Any:
    """Return the JSON value of an answer; raises `MalformedAnswerError`. Bad UTF-8 is replaced."""
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError(f"{what}: the answer is no JSON ({error})") from error


def _beginning(answer: httpx.Response) -> bytes:
    """Return the beginning of an error answer; what came of one that breaks off."""
    held = b""
    try:
        for piece in answer.iter_bytes(4096):
            held += piece
            if len(held) >= _MAX_EXPLAINED:
                break
    except httpx.HTTPError:
        pass
    return held[:_MAX_EXPLAINED]


def _told(body: bytes) -> str:
    """Return the beginning of an error answer, on one line."""
    text = " ".join(body[: 4 * _TOLD].decode("utf-8", "replace").split())
    return f" ({text[:_TOLD]})" if text else ""
