"""The `requests` session under prometheus-api-client: budgets, ceilings and typed errors."""

import json
from collections.abc import Callable
from typing import Any, Final

import requests
from requests.adapters import HTTPAdapter

from connectors.allowance import Allowance
from connectors.http_source import MAX_ANSWER_BYTES, AnswerTooLargeError
from connectors.protocol import (
    ConnectorError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
    TransientError,
)

_PIECE: Final = 65_536
_FIRST_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0
_TOLD: Final = 300
_TOO_MUCH: Final = ("too many samples", "maximum resolution", "maximum allowed", "too large")


class MeteredSession(requests.Session):
    """Every request is counted before it is made, and its answer while it comes.

    Proxies and credentials of the environment are not used. Redirects are refused: a token must
    go nowhere else.
    """

    def __init__(
        self,
        what: str,
        allowance: Allowance,
        pause: Callable[[float], None],
        *,
        max_bytes: int = MAX_ANSWER_BYTES,
        tries: int = 3,
    ):
        super().__init__()
        self.trust_env = False
        self.what = what
        self.allowance = allowance
        self.pause = pause
        self.max_bytes = max_bytes
        self.tries = tries
        self.mount("http://", HTTPAdapter(max_retries=0))
        self.mount("https://", HTTPAdapter(max_retries=0))

    def request(self, method: str, url: str, **more: Any) -> requests.Response:  # type: ignore[override]
        """Return a whole answer of status 200; raises the errors of `connectors.protocol`."""
        for number in range(1, self.tries + 1):
            try:
                return self._once(method, url, more)
            except TransientError as error:
                wanted = getattr(error, "retry_after_s", None)
                wait = min(_MAX_PAUSE_S, wanted or _FIRST_PAUSE_S * 2 ** (number - 1))
                if number == self.tries or wait > self.allowance.seconds_left:
                    raise
                self.pause(wait)
        raise SourceUnreachableError(f"{self.what}: not asked at all; allow at least one try")

    def _once(self, method: str, url: str, more: dict[str, Any]) -> requests.Response:
        self.allowance.take_request(self.what)
        given = {**more, "stream": True, "allow_redirects": False}
        try:
            answer = super().request(method, url, **given)
            with answer:
                body = self._body(answer)
        except requests.RequestException as error:
            reason = type(error).__name__
            raise SourceUnreachableError(f"{self.what}: {reason}") from error
        if answer.status_code != 200:
            raise self._refusal(answer, body)
        try:
            json.loads(body)
        except (ValueError, RecursionError) as error:
            raise MalformedAnswerError(f"{self.what}: the answer is no JSON ({error})") from error
        answer._content = body
        return answer

    def _body(self, answer: requests.Response) -> bytes:
        parts: list[bytes] = []
        size = 0
        for part in answer.iter_content(_PIECE):
            self.allowance.take_bytes(len(part))
            size += len(part)
            if size > self.max_bytes:
                raise AnswerTooLargeError(
                    f"{self.what}: more than {self.max_bytes} bytes in one answer"
                )
            parts.append(part)
        return b"".join(parts)

    def _refusal(self, answer: requests.Response, body: bytes) -> ConnectorError:
        status = answer.status_code
        told = _told(body)
        where = f"{self.what}: HTTP {status}{f' ({told})' if told else ''}"
        if status in (401, 403):
            return SourceRefusedError(f"{where}; check the credentials and what they may read")
        if status in (400, 422) and any(each in told for each in _TOO_MUCH):
            return AnswerTooLargeError(where)
        if status == 429 or status >= 500:
            after = answer.headers.get("retry-after", "")
            return SourceBusyError(where, float(after) if after.isdigit() else None)
        if status == 404:
            return SourceAbsentError(f"{where}; is this the address of a Prometheus API?")
        return MalformedAnswerError(f"{where}; is this the right service and version?")


def _told(body: bytes) -> str:
    """Return what Prometheus says of an error, on one line."""
    text = body[:4096].decode("utf-8", "replace")
    try:
        record = json.loads(text)
        text = f"{record['errorType']}: {record['error']}"
    except (ValueError, RecursionError, KeyError, TypeError):
        pass
    return " ".join(text.split())[:_TOLD]
