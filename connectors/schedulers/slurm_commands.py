"""Slurm asked through its own programs, on a login node or the controller."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from connectors.allowance import Allowance
from connectors.command import CommandFailedError, CommandRunner
from connectors.protocol import SourceAbsentError, SourceUnreachableError
from connectors.schedulers.attempt import Attempt
from connectors.schedulers.slurm_record import SACCT_FIELDS, read_sacct_text, read_scontrol
from connectors.site import SlurmCommands
from engine.model.hostlist import compact_hostlist

_STEP_FIELDS = (
    "JobID", "State", "ExitCode", "DerivedExitCode", "Submit", "Start", "End", "Elapsed",
    "Timelimit", "NodeList", "User", "Reason", "JobName",
)  # fmt: skip
_ABSENT = ("Invalid job id", "Invalid node name", "not found")
_DOWN = ("Unable to contact", "Connection refused", "Connection timed out", "timed out",
         "Communication connection failure", "Socket timed out")  # fmt: skip


_DROPPED = re.compile(
    rb"^\s*(?:Command|WorkDir|Comment|AdminComment|SystemComment|Extra|BatchScript|SubmitLine)="
)
_NEW_LINE = re.compile(rb"^(?:JobId=|\s+[A-Z][A-Za-z:/]*=|\s*$)")
"""A line of `scontrol show job` that begins a field: others go on with the one before."""


@dataclass(slots=True)
class SlurmPrograms:
    """`sacct` and `scontrol` of one cluster."""

    settings: SlurmCommands
    runner: CommandRunner
    allowance: Allowance
    cluster: str

    def attempts(self, job: str) -> list[Attempt]:
        """Return all attempts that accounting knows of, else what the controller knows."""
        text = self._run(self._sacct(job, SACCT_FIELDS, with_steps=False))
        found = read_sacct_text(text.decode("utf-8", "replace"), cluster=self.cluster)
        return found or read_scontrol(
            self.live(job).decode("utf-8", "replace"), cluster=self.cluster
        )

    def accounting(self, job: str) -> bytes:
        """Return the job with its steps and its earlier attempts."""
        return self._run(self._sacct(job, _STEP_FIELDS, with_steps=True))

    def live(self, job: str) -> bytes:
        """Return what the controller still holds; raises `SourceAbsentError` once it forgot."""
        return _kept_lines(self._run([self.settings.scontrol, "show", "job", job]))

    def nodes(self, names: Sequence[str]) -> bytes:
        """Return the state of nodes."""
        return self._run([self.settings.scontrol, "show", "node", compact_hostlist(list(names))])

    def describe_source(self) -> str:
        """Return which Slurm answers; raises `ConnectorError`s where none does."""
        version = self._run([self.settings.sacct, "--version"]).decode("utf-8", "replace").strip()
        ping = self._run([self.settings.scontrol, "ping"]).decode("utf-8", "replace")
        controllers = " ".join(ping.split())
        if " is UP" not in controllers:
            raise SourceUnreachableError(f"{self.settings.scontrol} ping: {controllers}")
        return f"{version}; {controllers}"

    def _sacct(self, job: str, fields: Sequence[str], *, with_steps: bool) -> list[str]:
        steps = [] if with_steps else ["--allocations"]
        form = ",".join(fields)
        return [
            self.settings.sacct, "--duplicates", "--parsable2", *steps, f"--format={form}",
            f"--jobs={job}",
        ]  # fmt: skip

    def _run(self, argv: list[str]) -> bytes:
        self.allowance.take_request(argv[0])
        timeout_s = min(self.settings.timeout_s, self.allowance.seconds_left)
        try:
            out = self.runner.run(argv, timeout_s=timeout_s)
        except CommandFailedError as error:
            told = str(error)
            if any(each in told for each in _ABSENT):
                raise SourceAbsentError(told) from error
            if any(each in told for each in _DOWN):
                raise SourceUnreachableError(told) from error
            raise
        self.allowance.take_bytes(len(out))
        return out


def _kept_lines(text: bytes) -> bytes:
    """Return a controller's record without what may hold secrets, over several lines too."""
    kept: list[bytes] = []
    is_dropped = False
    for line in text.splitlines(keepends=True):
        if _NEW_LINE.match(line):
            is_dropped = _DROPPED.match(line) is not None
        if not is_dropped:
            kept.append(line)
    return b"".join(kept)
