"""The bytes of sessions in the bucket: named by content, read in ranges, sent to a signed URL."""

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from connectors.static import BlobReader
from functions.adapters.faults import AWS_ERRORS, StoreBusyError, error_code, is_busy
from functions.adapters.object_store import ObjectMissingError, ObjectRefusedError, ObjectStore

SESSIONS: Final = "sessions"
"""First key segment of what callers gave to sessions; no tenant may be called so."""
URL_SECONDS: Final = 900


@dataclass(slots=True, frozen=True)
class SignedUpload:
    """Where to send bytes, with which headers, and until when (seconds from now)."""

    url: str
    headers: dict[str, str]
    seconds: int


class UploadSigner(Protocol):
    """Lets one caller put one object of known size and content."""

    def sign(self, key: str, *, sha256: str, size: int) -> SignedUpload:
        """Return the way in; nothing else can be put through it."""


def blob_key(attempt_key: str, session: str, sha256: str) -> str:
    """Return the key of a chunk's bytes, raw as they came."""
    return f"{SESSIONS}/{attempt_key}/{session}/{sha256}"


def extracted_key(attempt_key: str, session: str, name: str) -> str:
    """Return the key of what extraction found in one run of a session's bytes."""
    return f"{SESSIONS}/{attempt_key}/{session}/extracted-{name}.jsonl.zst"


@dataclass(slots=True, frozen=True)
class SessionBlobs:
    """A bucket's blobs by range."""

    store: ObjectStore

    def open_range(self, key: str, start: int, size: int) -> BlobReader:
        """Open `size` bytes from `start`; raises `ObjectMissingError`."""
        try:
            answer = self.store.client.get_object(
                Bucket=self.store.bucket, Key=key, Range=f"bytes={start}-{start + size - 1}"
            )
        except AWS_ERRORS as error:
            where = self.store.uri(key)
            if error_code(error) in ("NoSuchKey", "404", "NotFound"):
                raise ObjectMissingError(f"{where} does not exist") from error
            if is_busy(error):
                raise StoreBusyError(f"cannot read {where} now ({error_code(error)})") from error
            raise ObjectRefusedError(f"cannot read {where} ({error_code(error)})") from error
        return answer["Body"]

    def sizes(self, attempt_key: str, session: str) -> dict[str, int]:
        """Return the size of every blob of a session by its SHA-256, read consistently."""
        prefix = f"{SESSIONS}/{attempt_key}/{session}/"
        return dict(self._named(prefix))

    def _named(self, prefix: str) -> Iterator[tuple[str, int]]:
        for key, size in self.store.list_objects(prefix):
            name = key.removeprefix(prefix)
            if len(name) == 64:
                yield name, size


@dataclass(slots=True, frozen=True)
class S3Signer:
    """Signs a PUT that S3 checks: exact length, SHA-256 of the content, and nothing there yet."""

    store: ObjectStore

    def sign(self, key: str, *, sha256: str, size: int) -> SignedUpload:
        """Return a URL whose signature covers the length, the checksum and `If-None-Match`."""
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        url = self.store.client.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self.store.bucket,
                "Key": key,
                "ContentLength": size,
                "ChecksumSHA256": checksum,
                "IfNoneMatch": "*",
            },
            ExpiresIn=URL_SECONDS,
        )
        headers = {
            "Content-Length": str(size),
            "If-None-Match": "*",
            "x-amz-checksum-sha256": checksum,
        }
        return SignedUpload(url, headers, URL_SECONDS)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes as hexadecimal text."""
    return hashlib.sha256(data).hexdigest()
