"""The bucket: objects written once, read whole or streamed, and a prefix of it as a blob source."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn

from connectors.protocol import ConnectorError
from connectors.static import Blob, BlobReader
from functions.adapters.faults import AWS_ERRORS, AwsError, StoreBusyError, error_code, is_busy
from functions.adapters.keys import lifetime_tag

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ABSENT: Final = frozenset({"NoSuchKey", "404", "NotFound", "NoSuchBucket", "NoSuchVersion"})
_NOTHING_MORE: Final[Mapping[str, str]] = {}
_EXISTS: Final = frozenset({"PreconditionFailed", "412"})


class ObjectMissingError(ConnectorError):
    """No object under this key."""


class ObjectRefusedError(ConnectorError):
    """The bucket refuses the request and a retry will not help."""


class ObjectChangedError(ConnectorError):
    """An object is no longer what was listed."""


class ObjectConflictError(ConnectorError):
    """Another content is already stored under a key that is written once."""


@dataclass(slots=True, frozen=True)
class StoredObject:
    """An object by key, with its version where the bucket keeps versions."""

    key: str
    version: str | None
    sha256: str
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class ListedObject:
    """An object as a listing tells of it; the ETag changes with its content."""

    key: str
    size: int
    etag: str


@dataclass(slots=True, frozen=True)
class ObjectStore:
    """One bucket. Raises `StoreBusyError` where a retry may help, else `ConnectorError`s."""

    client: "S3Client"
    bucket: str

    def put_once(
        self,
        key: str,
        body: bytes,
        *,
        content_type: str,
        metadata: Mapping[str, str] = _NOTHING_MORE,
    ) -> StoredObject:
        """Write an object that must not exist; the same bytes again are no conflict.

        Raises `ObjectConflictError` when other bytes are already there: the first writer wins.
        """
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        try:
            answer = self.client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                IfNoneMatch="*",
                Metadata={**metadata, "sha256": digest},
                Tagging=lifetime_tag(key),
            )
        except AWS_ERRORS as error:
            if error_code(error) not in _EXISTS:
                self._refuse(error, "write", key)
            held, stored = self.get(key)
            if held == body:
                return stored
            raise ObjectConflictError(
                f"s3://{self.bucket}/{key} is written already with other content"
            ) from error
        return StoredObject(key, answer.get("VersionId"), digest)

    def get(self, key: str, version: str | None = None) -> tuple[bytes, StoredObject]:
        """Return an object's bytes; raises `ObjectMissingError`."""
        try:
            if version is None:
                answer = self.client.get_object(Bucket=self.bucket, Key=key)
            else:
                answer = self.client.get_object(Bucket=self.bucket, Key=key, VersionId=version)
            body = answer["Body"].read()
        except AWS_ERRORS as error:
            self._refuse(error, "read", key)
        digest = "sha256:" + hashlib.sha256(body).hexdigest()
        told = answer.get("Metadata", {})
        return body, StoredObject(key, answer.get("VersionId"), digest, told)

    def get_listed(self, listed: ListedObject) -> bytes:
        """Return the bytes that were listed; raises `ObjectChangedError` where others are there."""
        try:
            answer = self.client.get_object(Bucket=self.bucket, Key=listed.key, IfMatch=listed.etag)
            return answer["Body"].read()
        except AWS_ERRORS as error:
            if error_code(error) in _EXISTS:
                raise ObjectChangedError(f"{self.uri(listed.key)} was changed") from error
            self._refuse(error, "read", listed.key)

    def open(self, key: str) -> BlobReader:
        """Open an object for reading in pieces; raises `ObjectMissingError`."""
        try:
            return _Body(self.client.get_object(Bucket=self.bucket, Key=key)["Body"], self, key)
        except AWS_ERRORS as error:
            self._refuse(error, "read", key)

    def list_objects(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield `(key, size)` of every object below `prefix`, sorted by key."""
        for each in self.list_versions(prefix):
            yield each.key, each.size

    def list_versions(self, prefix: str) -> Iterator[ListedObject]:
        """Yield every object below `prefix` with its ETag, sorted by key."""
        try:
            for page in self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=prefix
            ):
                for entry in page.get("Contents", []):
                    yield ListedObject(entry["Key"], entry["Size"], entry["ETag"])
        except AWS_ERRORS as error:
            self._refuse(error, "list", prefix)

    def get_url(self, key: str, *, expires_s: int) -> str:
        """Return an address that anyone may read this one object from, for so many seconds."""
        return self.client.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=expires_s
        )

    def put_once_url(self, key: str, *, content_type: str, expires_s: int) -> str:
        """Return an address that takes this one object, once.

        Type, `If-None-Match: *` and the tag are signed: without these headers S3 refuses.
        """
        wanted = {
            "Bucket": self.bucket,
            "Key": key,
            "ContentType": content_type,
            "IfNoneMatch": "*",
            "Tagging": lifetime_tag(key),
        }
        return self.client.generate_presigned_url("put_object", Params=wanted, ExpiresIn=expires_s)

    def uri(self, key: str) -> str:
        """Return the physical location of a key."""
        return f"s3://{self.bucket}/{key}"

    def _refuse(self, error: AwsError, verb: str, key: str) -> NoReturn:
        where = f"s3://{self.bucket}/{key}"
        if error_code(error) in _ABSENT:
            raise ObjectMissingError(f"{where} does not exist") from error
        if is_busy(error):
            raise StoreBusyError(f"cannot {verb} {where} now ({error_code(error)})") from error
        raise ObjectRefusedError(
            f"cannot {verb} {where} ({error_code(error)}); check the function's policy"
        ) from error


@dataclass(slots=True)
class _Body:
    """A streamed body whose network failures are told as ours."""

    body: BlobReader
    store: ObjectStore
    key: str

    def read(self, size: int, /) -> bytes:
        try:
            return self.body.read(size)
        except AWS_ERRORS as error:
            raise StoreBusyError(f"{self.store.uri(self.key)} broke off ({error})") from error

    def close(self) -> None:
        self.body.close()


@dataclass(slots=True, frozen=True)
class PrefixSource:
    """A prefix of the bucket as the static connector's `BlobSource`."""

    store: ObjectStore
    prefix: str

    def list_blobs(self) -> list[Blob]:
        """Return the objects below the prefix, sorted by path."""
        start = len(self.prefix)
        blobs = [
            Blob(key[start:], size)
            for key, size in self.store.list_objects(self.prefix)
            if key[start:] and not key.endswith("/")
        ]
        return sorted(blobs, key=lambda blob: blob.path)

    def open_blob(self, path: str) -> BlobReader:
        """Open one object by its path below the prefix."""
        return self.store.open(self.prefix + path)
