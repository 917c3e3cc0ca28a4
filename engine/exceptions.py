"""Generic Python tracebacks: which of them tell a cause, and which only pass one on.

A traceback whose lines a more specific symptom also matched is that symptom told twice. One that
was raised by the machinery between ranks reports that somebody else failed.
"""

from array import array
from bisect import bisect_left
from dataclasses import replace
from typing import Final

from engine.meanings import Meanings
from engine.model.observation import Observation, Origin, Sample
from engine.rulebook.book import SymptomDef

GENERIC: Final = "python_exception"
# Raised by launchers, stores and process groups when another process or the job itself ended.
_CASCADE_NAMES: Final = frozenset(
    {
        "BrokenPipeError", "BrokenProcessPool", "CalledProcessError", "ChildFailedError",
        "ConnectionAbortedError", "ConnectionRefusedError", "ConnectionResetError",
        "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "EOFError",
        "HorovodInternalError", "HostsUpdatedInterrupt", "KeyboardInterrupt", "NCCLError",
        "ProcessExitedException", "ProcessRaisedException", "RayActorError", "RayTaskError",
        "RendezvousClosedError", "RendezvousConnectionError", "RendezvousTimeoutError",
        "SignalException", "SystemExit", "WorkerCrashedError",
    }
)  # fmt: skip
# Raised inside the process groups and launchers these mean that a peer or a store did not answer;
# a TypeError there would still be the caller's mistake, and so is what FSDP, DTensor and the
# other libraries of torch.distributed refuse.
_MACHINERY_NAMES: Final = frozenset(
    {"ConnectionError", "OSError", "RuntimeError", "TimeoutError", "Error"}
)
_MACHINERY_PATHS: Final = (
    "torch/distributed/c10d", "torch/distributed/constants", "torch/distributed/distributed_c10d",
    "torch/distributed/elastic/", "torch/distributed/launch", "torch/distributed/rendezvous",
    "torch/distributed/rpc/", "torch/distributed/run.py", "torchelastic/", "horovod/", "mpi4py/",
)  # fmt: skip
_CASCADE_TEXTS: Final = (
    "Connection closed by peer", "Connection reset by peer", "Socket Timeout", "store->get",
    "NCCL communicator was aborted", "ncclRemoteError", "remote process exited",
    "Broken pipe", "watchdog thread terminated", "aborted from rank", "Timed out waiting",
    "exited unexpectedly", "got signal: ", "wait timeout after",
)  # fmt: skip
_SPECIFIC_ROLES: Final = frozenset({"root", "lean_root", "ambiguous", "secondary", "confirm"})


class Exceptions:
    """Reads generic exceptions in the light of everything else that was seen."""

    def __init__(self, observations: list[Observation], meanings: Meanings) -> None:
        self._claims: dict[str, array[int]] = {}  # of each file start, end, start, end ...
        self._united: dict[str, tuple[list[int], list[int]]] = {}
        self._secondary: SymptomDef | None = None
        uris = {item.stream for item in observations if item.symptom == GENERIC}
        if uris:
            self._gather(observations, meanings, uris)
        meaning = meanings.get(GENERIC)
        if meaning is not None:
            self._secondary = replace(meaning, role="secondary", tier=6, proof="inferred")

    def _gather(self, observations: list[Observation], meanings: Meanings, uris: set[str]) -> None:
        for observation in observations:
            if observation.symptom == GENERIC or observation.stream not in uris:
                continue
            meaning = meanings.get(observation.symptom)
            if meaning is None or meaning.role not in _SPECIFIC_ROLES:
                continue
            first = observation.first.origin
            self._claim(first)
            if observation.count == 1:
                continue
            for sample in (*observation.samples, observation.last):
                if sample.origin != first:
                    self._claim(sample.origin)

    def _claim(self, origin: Origin) -> None:
        spans = self._claims.get(origin.uri)
        if spans is None:
            spans = self._claims[origin.uri] = array("q")
        spans.append(origin.byte_offset)
        spans.append(origin.byte_offset + origin.byte_length)

    def is_claimed(self, observation: Observation) -> bool:
        """Whether a more specific symptom matched lines of every sighting."""
        return all(self._overlaps(sample) for sample in (observation.first, observation.last))

    def _overlaps(self, sample: Sample) -> bool:
        """Whether a claim reaches into the bytes of a sighting."""
        uri = sample.origin.uri
        if uri not in self._united:
            self._united[uri] = _united(self._claims.get(uri))
        starts, ends = self._united[uri]
        end = sample.origin.byte_offset + sample.origin.byte_length
        last = bisect_left(starts, end) - 1
        return last >= 0 and ends[last] > sample.origin.byte_offset

    def reading(self, observation: Observation, meaning: SymptomDef) -> SymptomDef:
        """Return the meaning of one generic exception: a cause, or a messenger."""
        if self._secondary is not None and is_messenger(observation.fields):
            return self._secondary
        return meaning


def _united(spans: "array[int] | None") -> tuple[list[int], list[int]]:
    """Starts and ends of the stretches that spans cover, apart from one another and ascending."""
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(zip(spans[::2], spans[1::2], strict=True)) if spans else ():
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return starts, ends


def is_messenger(fields: dict[str, str]) -> bool:
    """Whether an exception reports that something else failed, or does not say what it is.

    Of a traceback that others' lines cut short only the header is left: any error looks so.
    """
    if not fields.get("exception"):
        return True
    name = fields.get("exception", "").rsplit(".", 1)[-1]
    if name in _CASCADE_NAMES:
        return True
    error = fields.get("error", "")
    if any(text in error for text in _CASCADE_TEXTS):
        return True
    path = fields.get("frame_file", "").replace("\\", "/")
    return name in _MACHINERY_NAMES and any(part in path for part in _MACHINERY_PATHS)
