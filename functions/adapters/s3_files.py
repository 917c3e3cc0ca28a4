"""A prefix of any bucket as the files connector reads it: listed, and read by byte ranges."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import boto3
from botocore.config import Config

from connectors.protocol import (
    ConnectorError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceRefusedError,
    SourceUnreachableError,
)
from connectors.telemetry.file_store import MAX_FILES, StoredFile
from engine.model.moment import to_us
from functions.adapters.faults import AWS_ERRORS, AwsError, error_code, is_busy
from functions.adapters.patience import patiently

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_ABSENT: Final = frozenset({"NoSuchKey", "NoSuchBucket", "404", "NotFound", "NoSuchVersion"})
_REPLACED: Final = frozenset({"PreconditionFailed", "412", "InvalidRange", "416"})
_REFUSED: Final = frozenset({"AccessDenied", "403", "Forbidden", "InvalidAccessKeyId",
                             "SignatureDoesNotMatch", "ExpiredToken"})  # fmt: skip


@dataclass(slots=True, frozen=True)
class BucketFiles:
    """The objects below `prefix`, whose paths are relative to it. `pause` sleeps seconds."""

    client: "S3Client"
    bucket: str
    prefix: str
    pause: Callable[[float], None] = time.sleep

    @property
    def shown(self) -> str:
        """The place as people write it."""
        return f"s3://{self.bucket}/{self.prefix}"

    def list_files(self, prefix: str) -> list[StoredFile]:
        """Return the objects whose path begins with `prefix`."""
        return patiently(lambda: self._listed(prefix), self.pause)

    def _listed(self, prefix: str) -> list[StoredFile]:
        found: list[StoredFile] = []
        start = len(self.prefix)
        try:
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix + prefix
            )
            for page in pages:
                for entry in page.get("Contents", []):
                    path = entry["Key"][start:]
                    if not path or path.endswith("/"):
                        continue
                    modified = to_us(entry["LastModified"])
                    found.append(StoredFile(path, entry["Size"], modified, entry["ETag"] + path))
                if len(found) > MAX_FILES:
                    raise SourceRefusedError(
                        f"{self.shown}: more than {MAX_FILES} objects begin with {prefix!r}; "
                        "give a narrower pattern"
                    )
        except AWS_ERRORS as error:
            self._refuse(error, prefix)
        return sorted(found, key=lambda each: each.path)

    def read_range(self, file: StoredFile, start: int, length: int) -> bytes:
        """Return bytes of the object that was listed, never of one that replaced it."""
        try:
            answer = self.client.get_object(
                Bucket=self.bucket,
                Key=self.prefix + file.path,
                Range=f"bytes={start}-{start + length - 1}",
                IfMatch=file.identity.removesuffix(file.path),
            )
            body = answer["Body"].read()
        except AWS_ERRORS as error:
            self._refuse(error, file.path)
        if len(body) > length:
            raise MalformedAnswerError(f"{self.shown}{file.path}: ranges are not honoured")
        return body

    def _refuse(self, error: AwsError, path: str) -> NoReturn:
        raise _told(error, f"{self.shown}{path}") from error


def _told(error: AwsError, where: str) -> ConnectorError:
    code = error_code(error)
    if code in _ABSENT:
        return SourceAbsentError(f"{where} does not exist")
    if code in _REPLACED:
        return SourceAbsentError(f"{where} was replaced while it was read")
    if code in _REFUSED:
        return SourceRefusedError(f"{where}: {code}; check s3:GetObject and s3:ListBucket")
    if is_busy(error):
        return SourceBusyError(f"{where}: {code}")
    return SourceUnreachableError(f"{where}: {code}")


def open_bucket(root: str, client: "S3Client | None" = None) -> BucketFiles:
    """Return the files below `s3://bucket/prefix`, with the credentials of this process."""
    bucket, _, prefix = root.removeprefix("s3://").partition("/")
    made = client or boto3.client(
        "s3",
        config=Config(
            retries={"mode": "standard", "max_attempts": 3},
            max_pool_connections=16,
            connect_timeout=5,
            read_timeout=30,
        ),
    )
    return BucketFiles(made, bucket, prefix.rstrip("/") + "/" if prefix else "")
