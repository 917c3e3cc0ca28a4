"""Slurm asked through slurmrestd, from v0.0.37 on. The newest version that it serves is used.

slurmrestd answers an unknown job with HTTP 404, 500 or 200 and an `errors` list, depending on the
release; error numbers are Slurm's (slurm/slurm_errno.h).
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from connectors.http_source import HttpSource, read_json
from connectors.protocol import (
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceNotConfiguredError,
    SourceRefusedError,
)
from connectors.schedulers.attempt import Attempt
from connectors.schedulers.slurm_record import read_jobs_json

OLDEST: Final = 37
_VERSION = re.compile(r"/slurmdb/(v0\.0\.(\d{1,4}))/job/")
_INVALID_JOB: Final = 2017
_INVALID_NODE: Final = 2009
_DENIED: Final = (1007, 2002, 9)
_MAX_NODES: Final = 64
"""So many nodes are asked for one by one; of a larger job the whole list is taken."""


@dataclass(slots=True)
class SlurmService:
    """slurmrestd of one cluster."""

    source: HttpSource
    cluster: str
    versions: tuple[str, ...] = ()
    _version: str = ""

    def attempts(self, job: str) -> list[Attempt]:
        """Return all attempts that accounting knows of, else what the controller knows."""
        document = self._accounting(job)
        found = read_jobs_json(document, cluster=self.cluster)
        return found or read_jobs_json(
            read_json(self.live(job), self.source.what), cluster=self.cluster
        )

    def accounting(self, job: str) -> bytes:
        """Return the job with its steps and its earlier attempts, as slurmrestd says it."""
        return json.dumps(self._accounting(job)).encode()

    def live(self, job: str) -> bytes:
        """Return what the controller still holds; raises `SourceAbsentError` once it forgot."""
        return json.dumps(self._get(f"/slurm/{self.version}/job/{_number(job)}")).encode()

    def nodes(self, names: Sequence[str]) -> bytes:
        """Return the state of nodes."""
        wanted = sorted(set(names))
        paths = [f"/slurm/{self.version}/node/{quote(name, safe='')}" for name in wanted]
        if len(wanted) > _MAX_NODES:
            paths = [f"/slurm/{self.version}/nodes"]
        found: list[Any] = []
        for path in paths:
            try:
                document = self._get(path)
            except SourceAbsentError:
                continue
            found += [
                node
                for node in document.get("nodes") or ()
                if isinstance(node, dict) and node.get("name") in set(wanted)
            ]
        return json.dumps({"nodes": found}).encode() if found else b""

    def describe_source(self) -> str:
        """Return which Slurm answers; raises `ConnectorError`s where none does."""
        document = self._get(f"/slurm/{self.version}/ping")
        pings = document.get("pings") or document.get("ping") or ()
        told = [str(each.get("pinged", each.get("status", ""))) for each in pings]
        release = _release(document)
        return f"slurmrestd {self.version}, Slurm {release}; controllers: {', '.join(told)}"

    @property
    def version(self) -> str:
        """The newest version that slurmrestd serves and the site allows."""
        if not self._version:
            self._version = self._choose()
        return self._version

    def _choose(self) -> str:
        if len(self.versions) == 1:
            return self.versions[0]
        try:
            body = self.source.get("/openapi/v3")
        except SourceAbsentError:
            body = self.source.get("/openapi.json")
        served = {
            match[1]: int(match[2])
            for match in _VERSION.finditer(body.decode("utf-8", "replace"))
            if int(match[2]) >= OLDEST
        }
        allowed = {v: n for v, n in served.items() if not self.versions or v in self.versions}
        if not allowed:
            raise SourceNotConfiguredError(
                f"{self.source.what}: serves {', '.join(sorted(served)) or 'no slurmdb API'}, "
                f"wanted {', '.join(self.versions) or f'v0.0.{OLDEST} or newer'}; "
                "start slurmrestd with -s openapi/slurmctld,openapi/slurmdbd"
            )
        return max(allowed, key=lambda each: allowed[each])

    def _accounting(self, job: str) -> dict[str, Any]:
        return self._get(f"/slurmdb/{self.version}/job/{_number(job)}")

    def _get(self, path: str) -> dict[str, Any]:
        try:
            document = self.source.get_json(path)
        except SourceBusyError as error:
            # Older releases answer 500 for a job that does not exist.
            if str(_INVALID_JOB) in str(error) or "Invalid job id" in str(error):
                raise SourceAbsentError(str(error)) from error
            raise
        if not isinstance(document, dict):
            raise MalformedAnswerError(f"{self.source.what} {path}: the answer is no object")
        for told in document.get("errors") or ():
            self._refuse(told, path)
        return document

    def _refuse(self, told: Any, path: str) -> None:
        record = told if isinstance(told, Mapping) else {}
        number = record.get("error_number", record.get("errno"))
        text = f"{self.source.what} {path}: {record.get('description') or record.get('error')}"
        if number in (_INVALID_JOB, _INVALID_NODE) or "Nothing found" in text:
            raise SourceAbsentError(text)
        if number in _DENIED:
            raise SourceRefusedError(f"{text}; check user and token")
        raise SourceBusyError(text)


def _number(job: str) -> str:
    """Return the id that slurmrestd takes: of an array's task or a het part, the whole job's."""
    return re.split(r"[_+]", job, maxsplit=1)[0]


def _release(document: Mapping[str, Any]) -> str:
    meta = document.get("meta")
    known: Any = meta if isinstance(meta, Mapping) else {}
    slurm = known.get("slurm") or known.get("Slurm") or {}
    return str(slurm.get("release", "unknown")) if isinstance(slurm, Mapping) else "unknown"
