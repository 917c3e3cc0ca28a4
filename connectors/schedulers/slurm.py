"""The Slurm connector: what accounting and the controller say about a job and its nodes."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from connectors.allowance import Allowance
from connectors.parts import Part, open_parts
from connectors.protocol import (
    ByteStream,
    Capabilities,
    Collected,
    ConnectorError,
    Probe,
    SourceAbsentError,
    probe_status,
)
from connectors.schedulers.attempt import Attempt, pick_attempt
from engine.model.plan import Budget, PlanItem
from engine.model.stream import StreamLabel
from engine.model.workload import Workload

NAME: Final = "slurm"
_JOB = re.compile(r"^\d{1,10}(?:[_+]\d{1,10})?$")
_LAG_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0)
"""Accounting follows the controller by seconds (measured on 22.05)."""


class InvalidJobError(ConnectorError):
    """A job id that no Slurm gives: it is not passed on to a program or address."""


class SlurmBackend(Protocol):
    """One way to ask Slurm: its programs, or slurmrestd."""

    def attempts(self, job: str) -> list[Attempt]:
        """Return all attempts of a job, by start."""

    def accounting(self, job: str) -> bytes:
        """Return job, steps and earlier attempts."""

    def live(self, job: str) -> bytes:
        """Return what the controller still holds."""

    def nodes(self, names: Sequence[str]) -> bytes:
        """Return the state of nodes."""

    def describe_source(self) -> str:
        """Return which Slurm answers."""


@dataclass(slots=True)
class SlurmConnector:
    """One cluster. `backend_for` makes the backend of one item's allowance."""

    cluster: str
    target: str
    backend_for: Callable[[Allowance], SlurmBackend]
    clock: Callable[[], float]
    pause: Callable[[float], None]
    budget: Budget = field(default_factory=Budget)
    name: str = NAME

    @property
    def capabilities(self) -> Capabilities:
        """Scheduler records, as long as accounting keeps them."""
        return Capabilities(sources=("scheduler",), trust="platform", resumes=True)

    def probe(self) -> Probe:
        """Ask which Slurm answers."""
        try:
            detail = self._backend(Budget(requests=8, seconds=30)).describe_source()
        except ConnectorError as error:
            return Probe(NAME, self.target, probe_status(error), str(error))
        would = ("accounting of the job, its steps and attempts", "the controller's record",
                 "state and reason of the job's nodes")  # fmt: skip
        return Probe(NAME, self.target, "ok", detail, would)

    def describe(self, workload: Workload) -> Attempt | None:
        """Return the attempt that an event means, once accounting knows its end; None if never.

        Waits a few seconds for accounting; then what is known is returned as it is.
        """
        backend = self._backend(self.budget)
        found: Attempt | None = None
        for pause_s in (*_LAG_PAUSES_S, None):
            try:
                everything = backend.attempts(_checked(workload.job_id))
            except SourceAbsentError:
                everything = []
            own = [each for each in everything if each.workload.job_id == workload.job_id]
            found = pick_attempt(own, workload)
            if (found is not None and found.is_over) or pause_s is None:
                break
            self.pause(pause_s)
        return found

    def open_streams(
        self, item: PlanItem, workload: Workload, collected: Collected
    ) -> Iterator[ByteStream]:
        """Yield accounting, the controller's record and the nodes' states, where they exist."""
        job = _checked(workload.job_id)
        allowance = Allowance(item.budget, self.clock)
        backend = self.backend_for(allowance)
        parts = [
            Part(_label("accounting"), lambda: backend.accounting(job)),
            Part(_label("controller"), lambda: backend.live(job)),
        ]
        if workload.nodes:
            parts.append(Part(_label("nodes"), lambda: backend.nodes(workload.nodes)))
        try:
            yield from open_parts(parts, cursor=item.cursor, collected=collected)
        finally:
            collected.requests += allowance.requests

    def _backend(self, budget: Budget) -> SlurmBackend:
        return self.backend_for(Allowance(budget, self.clock))


def _label(name: str) -> StreamLabel:
    return StreamLabel(f"slurm/{name}", "scheduler", "platform")


def _checked(job: str) -> str:
    if not _JOB.match(job):
        raise InvalidJobError(f"{job!r} is no Slurm job id (410050, 410050_7 or 410050+1)")
    return job
