"""The bucket of a state folder, read where it lies: nothing is loaded that nobody asks for."""

from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError


class FolderBucket:
    """What reading results needs of an S3 client, over the `s3` folder of a state folder."""

    def __init__(self, state: Path):
        self._root = (state / "s3").resolve()

    def get_object(self, *, Bucket: str, Key: str, **_more: Any) -> dict[str, Any]:  # noqa: N803
        """Return an object as S3 does; raises `ClientError` with `NoSuchKey` where none is."""
        path = (self._root / Key).resolve()
        try:
            if not path.is_relative_to(self._root):
                raise FileNotFoundError(Key)
            body = path.open("rb")
        except (OSError, ValueError) as error:
            answer: Any = {"Error": {"Code": "NoSuchKey", "Message": f"{Bucket}/{Key}: {error}"}}
            raise ClientError(answer, "GetObject") from error
        return {"Body": body}
