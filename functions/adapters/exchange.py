"""What a runner outside fetches and leaves, over addresses that are good for one object each."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import httpx

from connectors.protocol import ConnectorError, TransientError
from functions.adapters.keys import EVIDENCE

MAX_BYTES: Final = 64 * 1024 * 1024
_TRIES: Final = 4
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class ExchangeBusyError(TransientError):
    """The store did not answer, or asks for patience."""


class ExchangeRefusedError(ConnectorError):
    """The store refuses: an address that has expired, or was made for something else."""


@dataclass(slots=True, frozen=True)
class Exchange:
    """Objects by address. Redirects are not followed; `pause` sleeps seconds."""

    client: httpx.Client
    pause: Callable[[float], None] = time.sleep

    def get(self, url: str) -> bytes:
        """Return an object; raises `ExchangeRefusedError`, `ExchangeBusyError`."""
        answer = self._asked("GET", url, b"", {})
        if answer.status_code != 200:
            raise _refusal("read", answer)
        return answer.content

    def put_once(
        self, url: str, body: bytes, *, content_type: str, lifetime: str = EVIDENCE
    ) -> bool:
        """Write an object that is not there yet; False where it is there already."""
        # Signed with the address, all three; the tag as `keys.lifetime_tag` has it.
        headers = {
            "Content-Type": content_type,
            "If-None-Match": "*",
            "x-amz-tagging": f"lifetime={lifetime}",
        }
        answer = self._asked("PUT", url, body, headers)
        if answer.status_code == 412:
            return False
        if answer.status_code != 200:
            raise _refusal("write", answer)
        return True

    def _asked(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ExchangeRefusedError(f"{parts.hostname}: addresses of objects must be https")
        for number in range(1, _TRIES + 1):
            try:
                answer = self.client.request(method, url, content=body, headers=headers)
            except httpx.HTTPError as error:
                # The address itself lets anyone in, so it is never told.
                trouble = f"{parts.hostname}: {type(error).__name__}"
            else:
                # 409: two writers at once, of whom S3 lets neither win.
                if answer.status_code < 500 and answer.status_code not in (409, 429):
                    return answer
                trouble = f"{parts.hostname}: HTTP {answer.status_code}"
            if number < _TRIES:
                self.pause(0.5 * 2**number)
        raise ExchangeBusyError(trouble)


def _refusal(verb: str, answer: httpx.Response) -> ExchangeRefusedError:
    return ExchangeRefusedError(
        f"{answer.url.host}: HTTP {answer.status_code}; the address to {verb} this object may have "
        "expired (an hour): the workflow has gone on without it"
    )


def open_exchange() -> Exchange:
    """Return the exchange of this process; proxies of the environment are used."""
    return Exchange(httpx.Client(timeout=httpx.Timeout(60, connect=10), follow_redirects=False))
