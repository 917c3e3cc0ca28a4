"""Signed uploads on loopback: the same promise as S3's, kept by this process."""

import base64
import hashlib
import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from connectors.protocol import ConnectorError
from functions.adapters.object_store import ObjectStore
from functions.adapters.session_blobs import URL_SECONDS, SignedUpload

_IN_MEMORY: Final = 8 << 20


class UploadError(Exception):
    """An upload that is refused."""

    def __init__(self, status: int, detail: str, todo: str):
        super().__init__(detail)
        self.status = status
        self.todo = todo


@dataclass(slots=True, frozen=True)
class Grant:
    """The right to put one object."""

    key: str
    sha256: str
    size: int
    until: float


@dataclass(slots=True)
class LocalUploads:
    """Grants of this process, by their secret."""

    PATH: ClassVar[str] = "/uploads/"

    store: ObjectStore
    address: str = ""
    _grants: dict[str, Grant] = field(default_factory=dict)

    def sign(self, key: str, *, sha256: str, size: int) -> SignedUpload:
        """Return an address that takes exactly these bytes."""
        now = time.monotonic()
        self._grants = {name: each for name, each in self._grants.items() if each.until > now}
        secret = secrets.token_urlsafe(24)
        self._grants[secret] = Grant(key, sha256, size, now + URL_SECONDS)
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        headers = {
            "Content-Length": str(size),
            "If-None-Match": "*",
            "x-amz-checksum-sha256": checksum,
        }
        return SignedUpload(f"{self.address}{self.PATH}{secret}", headers, URL_SECONDS)

    def grant(self, path: str) -> Grant:
        """Return the grant of an address; raises `UploadError`."""
        found = self._grants.get(path.removeprefix(self.PATH))
        if found is None or found.until <= time.monotonic():
            raise UploadError(403, "this address is not valid any more", "announce the chunk again")
        return found

    def put(
        self, grant: Grant, size: int, fill: Callable[[Callable[[bytes], object]], None]
    ) -> None:
        """Take the bytes; raises `UploadError` where they are not the announced ones."""
        if size != grant.size:
            raise UploadError(
                400, f"{size} bytes came, {grant.size} were announced", "send those bytes"
            )
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
            fill(file.write)
            file.seek(0)
            hasher = hashlib.sha256()
            while piece := file.read(1 << 20):
                hasher.update(piece)
            if hasher.hexdigest() != grant.sha256:
                raise UploadError(400, "the SHA-256 is not the announced one", "send those bytes")
            file.seek(0)
            try:
                self.store.put_once(grant.key, file.read(), content_type="application/octet-stream")
            except ConnectorError as error:
                raise UploadError(409, str(error), "nothing; the bytes are there") from error
