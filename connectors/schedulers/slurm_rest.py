"""Slurm asked through slurmrestd, from v0.0.37 on. The newest version that it serves is used.

slurmrestd answers an unknown job with HTTP 404, 500 or 200 and an `errors` list, depending on the
release; error numbers are Slurm's (slurm/slurm_errno.h).
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from connectors.http_source import HttpSource, read_json
from connectors.protocol import (
    ConnectorError,
    MalformedAnswerError,
    SourceAbsentError,
    SourceBusyError,
    SourceNotConfiguredError,
    SourceRefusedError,
)
from connectors.schedulers.attempt import Attempt
from connectors.schedulers.slurm_record import read_jobs_json

OLDEST: Final = 37
_PATH = re.compile(r"^/slurmdb/(v0\.0\.(\d{1,4}))/job/")
_ABSENT: Final = (2017, 2018, 9003)
"""Invalid job, invalid node, nothing found (slurm/slurm_errno.h)."""
_DENIED: Final = (1007, 2002, 2010)
"""Not authenticated, access denied, user unknown."""
_AUTH: Final = range(6000, 6020)
_NO_NODE: Final = "Failure to query node"
"""Of an unknown node later releases say this with error 0, `No error`."""
_SERVER_ERROR: Final = 500
_NETWORK_AUTH_REQUIRED: Final = 511
_SOME_JOB: Final = "1"
_MAX_NODES: Final = 64
"""So many nodes are asked for one by one; of a larger job the whole list is taken."""
_JOB: Final = (
    "account", "array", "array_job_id", "array_task_id", "association", "cluster",
    "derived_exit_code", "end_time", "exit_code", "failed_node", "gres_detail", "het",
    "het_job_id", "het_job_offset", "job_id", "job_state", "kill_request_user", "name", "nodes",
    "partition", "restart_cnt", "standard_error", "standard_output", "start_time", "state",
    "state_description", "state_reason", "stderr", "stderr_expanded", "stdout",
    "stdout_expanded", "submit_time", "time", "time_limit", "tres", "tres_alloc_str", "user",
    "user_name",
)  # fmt: skip
_STEP: Final = ("exit_code", "kill_request_user", "nodes", "state", "step", "time")
_NODE: Final = (
    "address", "boot_time", "hostname", "instance_id", "name", "reason", "reason_changed_at",
    "reason_set_by_user", "slurmd_start_time", "state",
)  # fmt: skip
"""What is kept: never scripts, submit lines, comments, commands or directories."""


@dataclass(slots=True)
class SlurmService:
    """slurmrestd of one cluster."""

    source: HttpSource
    cluster: str
    versions: tuple[str, ...] = ()
    _version: str = ""

    def __post_init__(self) -> None:
        self.source.explain = _meant

    def attempts(self, job: str) -> list[Attempt]:
        """Return all attempts that accounting knows of, else what the controller knows.

        22.05 gives no exit codes in accounting; the controller still has them for a while.
        """
        found = read_jobs_json(self._accounting(job), cluster=self.cluster)
        if found and all(each.workload.exit_code or not each.is_over for each in found):
            return found
        try:
            held = read_jobs_json(self._live(job), cluster=self.cluster)
        except SourceAbsentError:
            return found
        return [_with_exit(each, held) for each in found] if found else held

    def accounting(self, job: str) -> bytes:
        """Return the job with its steps and its earlier attempts; raises `SourceAbsentError`."""
        return _written("jobs", [_kept_job(each) for each in self._jobs(self._accounting(job))])

    def live(self, job: str) -> bytes:
        """Return what the controller still holds; raises `SourceAbsentError` once it forgot."""
        return _written("jobs", [_kept_job(each) for each in self._jobs(self._live(job))])

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
                _kept(node, _NODE)
                for node in _records(document.get("nodes"))
                if node.get("name") in set(wanted)
            ]
        return _written("nodes", found) if found else b""

    def describe_source(self) -> str:
        """Return which Slurm answers; raises `ConnectorError`s where none does.

        Accounting is asked first: some releases say of a wrong token there only what it is.
        """
        with suppress(SourceAbsentError):
            self._accounting(_SOME_JOB)
        document = self._get(f"/slurm/{self.version}/ping")
        pings = document.get("pings") or document.get("ping") or ()
        told = [_ping(each) for each in _records(pings)]
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
            for match in map(_PATH.match, _paths(read_json(body, f"{self.source.what} openapi")))
            if match is not None and int(match[2]) >= OLDEST
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

    def _live(self, job: str) -> dict[str, Any]:
        return self._get(f"/slurm/{self.version}/job/{_number(job)}")

    def _jobs(self, document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = _records(document.get("jobs"))
        if not found:
            raise SourceAbsentError(f"{self.source.what}: knows no such job")
        return found

    def _get(self, path: str) -> dict[str, Any]:
        document = self.source.get_json(path)
        if not isinstance(document, dict):
            raise MalformedAnswerError(f"{self.source.what} {path}: the answer is no object")
        for told in document.get("errors") or ():
            text, error = _error_of(told)
            raise (error or SourceBusyError)(f"{self.source.what} {path}: {text}")
        return document


def _meant(status: int, body: bytes) -> ConnectorError | None:
    """Return what slurmrestd says in an error answer, whatever status a release gives it."""
    if status == _NETWORK_AUTH_REQUIRED or b"Authentication" in body[:100]:
        return SourceRefusedError("authentication failed; check user and token")
    try:
        document = json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        return None
    errors = document.get("errors") if isinstance(document, dict) else None
    for told in errors if isinstance(errors, list) else ():
        text, error = _error_of(told)
        if error is None:
            return SourceBusyError(text) if status >= _SERVER_ERROR else None
        return error(text)
    return None


def _error_of(told: Any) -> tuple[str, type[ConnectorError] | None]:
    """Return the text of an entry of `errors` and which of our errors it is; None: any other."""
    record = told if isinstance(told, Mapping) else {}
    number = record.get("error_number", record.get("errno"))
    words = (record.get("description"), record.get("error"))
    text = ": ".join(str(each) for each in words if each) or "an error without words"
    if number in _ABSENT or text.startswith(_NO_NODE):
        return text, SourceAbsentError
    if number in _DENIED or (isinstance(number, int) and number in _AUTH):
        return f"{text}; check user and token", SourceRefusedError
    return text, None


def _with_exit(attempt: Attempt, held: Sequence[Attempt]) -> Attempt:
    """Return an attempt with the exit code that the controller holds of the same one."""
    if attempt.workload.exit_code or not attempt.is_over:
        return attempt
    for each in held:
        is_same = (each.raw_job_id, each.workload.start) == (
            attempt.raw_job_id,
            attempt.workload.start,
        )
        if is_same and each.workload.exit_code:
            known = {"exit_code": each.workload.exit_code}
            return attempt.model_copy(
                update={"workload": attempt.workload.model_copy(update=known)}
            )
    return attempt


def _kept_job(job: Mapping[str, Any]) -> dict[str, Any]:
    kept = _kept(job, _JOB)
    if "steps" in job:
        kept["steps"] = [_kept(each, _STEP) for each in _records(job["steps"])]
    return kept


def _kept(record: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: record[name] for name in names if name in record}


def _written(name: str, items: Sequence[Mapping[str, Any]]) -> bytes:
    return json.dumps({name: list(items)}).encode()


def _paths(document: Any) -> list[str]:
    paths = document.get("paths") if isinstance(document, Mapping) else None
    return [str(path) for path in paths] if isinstance(paths, Mapping) else []


def _ping(told: Mapping[str, Any]) -> str:
    """Return a controller's state: `ping` until 22.05, `pinged` until 25.11, then `status`."""
    name = next((each for each in ("ping", "pinged", "status") if each in told), "")
    return str(told.get(name, "unknown"))


def _records(value: Any) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else []
    return [each for each in found if isinstance(each, Mapping)]


def _number(job: str) -> str:
    """Return the id that slurmrestd takes: of an array's task or a het part, the whole job's."""
    return re.split(r"[_+]", job, maxsplit=1)[0]


def _release(document: Mapping[str, Any]) -> str:
    meta = document.get("meta")
    known: Any = meta if isinstance(meta, Mapping) else {}
    slurm = known.get("slurm") or known.get("Slurm") or {}
    return str(slurm.get("release", "unknown")) if isinstance(slurm, Mapping) else "unknown"
