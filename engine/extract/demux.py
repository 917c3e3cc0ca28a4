"""Whose line it is: rank, process and pod prefixes that launchers and shippers put before it.

A node never comes from text. A host named in a prefix is a pointer, or picks one of the nodes
that the label gives.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from engine.model.stream import StreamLabel

_PREFIX_CHARS: Final = frozenset("[(0123456789 \t") | frozenset("p")
_MAX_PREFIXES: Final = 6
_HEAD_CHARS: Final = 240

# A stamp that stands before a prefix: 2020-05-05T16:13:44.880Z: [1,12]<stdout>:...
_STAMP: Final = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
    r"(?:std(?:out|err) [FP] )?"  # the container runtime interface's log files
)
_RANK: Final = re.compile(r"\[rank ?(\d{1,7})\]:? ?")  # [rank3]: Traceback, [rank3]:[E1103 ...
_MPI: Final = re.compile(r"\[\d{1,6},(\d{1,7})\]<std(?:out|err|diag)> ?: ?")  # [1,3]<stderr>:
_LOCAL: Final = re.compile(r"\[default(\d{1,4})\]: ?")  # torchrun --tee
_RAY: Final = re.compile(  # (RayTrainWorker pid=123, ip=10.0.0.1)
    r"\(([\w.:<>\- ]{0,80}?) ?pid=(\d{1,9})(?:, ip=([\w.:\-]{1,64}))?\)"
    r"(?: \[repeated \d+x[^\]]{0,60}\])? ?"
)
_POD: Final = re.compile(r"\[?pod/([\w.\-]{1,253})/([\w.\-]{1,63})\]?:? ?")  # kubectl logs --prefix
_BRACKETED: Final = {"r": _RANK, "d": _LOCAL, "p": _POD}  # by what follows the bracket
_SRUN: Final = re.compile(r" {0,6}(\d{1,7}): ?")  # srun --label
_NCCL: Final = re.compile(  # node-1:124029:124329 [3] NCCL INFO
    r"([A-Za-z0-9][\w.\-]{0,200}):(\d{1,9}):(\d{1,9}) \[(\d{1,3})\] "
)
_SYSLOG: Final = re.compile(  # Mar  6 20:00:14 node-1 kernel: ..., or with an ISO stamp
    r"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r" ([\w.\-:]{1,128}) ([\w./\-@]{1,128})(?:\[(\d{1,9})\])?: ?"
)
# A rank that the line itself names: [Rank 3], [rank: 0], [PG ID 0 PG GUID 0(default_pg) Rank 1]
_NAMED_RANK: Final = re.compile(r"\[(?:PG [^\]\n]{0,120} )?[Rr]ank:? (\d{1,7})\]")
_HOST: Final = re.compile(r"([A-Za-z0-9][\w.\-]{0,127}): ?")  # pdsh: node-1: text
_SRUN_SHARE: Final = 9  # tenths of the first lines


@dataclass(slots=True, frozen=True)
class Identity:
    """Who wrote a line. `key` tells the streams of one file apart; `body` is where text starts.

    `lead` is the first marker when the line starts with it: other lines of the same identity
    start with the same characters.
    """

    key: str = ""
    rank: int | None = None
    local_rank: int | None = None
    pid: int | None = None
    pod: str = ""
    host: str = ""
    cuda_device: int | None = None
    body: int = 0
    lead: str = ""


class _Found:
    """What the prefixes of one line say, gathered from left to right."""

    __slots__ = ("cuda_device", "host", "keys", "local_rank", "pid", "pod", "rank")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.rank: int | None = None
        self.local_rank: int | None = None
        self.pid: int | None = None
        self.cuda_device: int | None = None
        self.pod = self.host = ""

    def take(self, match: re.Match[str]) -> None:
        pattern = match.re
        if pattern is _RANK or pattern is _MPI or pattern is _SRUN:
            self.rank = int(match[1])
            self.keys.append(f"rank{match[1]}")
        elif pattern is _LOCAL:
            self.local_rank = int(match[1])
            self.keys.append(f"local{match[1]}")
        elif pattern is _POD:
            self.pod = match[1]
            self.keys.append(f"pod{match[1]}/{match[2]}")
        elif pattern is _RAY:
            self.pid, self.host = int(match[2]), match[3] or self.host
            self.keys.append(f"ray{match[2]}@{match[3] or ''}")
        elif pattern is _NCCL:
            self.host, self.pid, self.cuda_device = match[1], int(match[2]), int(match[4])
            if not self.keys:
                self.keys.append(f"nccl{match[1]}:{match[2]}")


class Demultiplexer:
    """Reads identities of one stream; `head` decides whether bare `3: ` prefixes are ranks."""

    def __init__(self, label: StreamLabel, head: str) -> None:
        self._label = label
        self._is_syslog = label.source == "syslog"
        self._srun = not self._is_syslog and _has_srun_labels(label, head)
        self._hosts = frozenset() if self._srun else _pdsh_hosts(label, head)

    @property
    def has_srun(self) -> bool:
        """Whether bare `3: ` prefixes are ranks here."""
        return self._srun

    @property
    def has_hosts(self) -> bool:
        """Whether a parallel shell put hosts before the lines."""
        return bool(self._hosts)

    def read(self, text: str) -> Identity:
        """The identity of one line."""
        if self._is_syslog:
            return _read_syslog(text)
        if self._hosts and (match := _HOST.match(text)) and match[1] in self._hosts:
            return self._behind_host(text, match)
        if not text or text[0] not in _PREFIX_CHARS:
            return self._named(text, Identity()) if text else Identity()
        return self._named(text, self._prefixes(text))

    def _behind_host(self, text: str, match: re.Match[str]) -> Identity:
        rest = text[match.end() :]
        inner = self._named(rest, self._prefixes(rest)) if rest else Identity()
        return replace(
            inner,
            key=f"host{match[1]}|{inner.key}",
            host=match[1],
            body=match.end() + inner.body,
            lead=match[0].rstrip(" "),
        )

    def _prefixes(self, text: str) -> Identity:
        found = _Found()
        place, lead = 0, ""
        for _ in range(_MAX_PREFIXES):
            match = self._marker(text, place, first=not found.keys)
            if match is None:
                break
            found.take(match)
            if place == 0 and found.keys:
                lead = match[0].rstrip(" ")
            place = match.end()
        if "NCCL" in text and (match := _NCCL.match(text, place)):
            found.take(match)
        key = "|".join(dict.fromkeys(found.keys))
        return Identity(
            key, found.rank, found.local_rank, found.pid, found.pod, found.host,
            found.cuda_device, place, lead,
        )  # fmt: skip

    def _marker(self, text: str, place: int, *, first: bool) -> re.Match[str] | None:
        """The prefix at `place`; a stamp counts only where another prefix follows it."""
        char = text[place : place + 1]
        if char == "[":
            following = text[place + 1 : place + 2]
            if not following.isdigit():
                pattern = _BRACKETED.get(following)
                return pattern.match(text, place) if pattern else None
            if match := _MPI.match(text, place):
                return match
        elif char == "(":
            return _RAY.match(text, place)
        elif char == "p":
            return _POD.match(text, place)
        elif not (char.isdigit() or char == " "):
            return None
        elif self._srun and first and (match := _SRUN.match(text, place)):
            return match
        match = _STAMP.match(text, place)
        return match if match and self._stands_before_prefix(text, match.end()) else None

    def _stands_before_prefix(self, text: str, place: int) -> bool:
        char = text[place : place + 1]
        return (
            (char == "[" and bool(_RANK.match(text, place) or _MPI.match(text, place)
                                  or _LOCAL.match(text, place) or _POD.match(text, place)))
            or (char == "(" and bool(_RAY.match(text, place)))
            or (char == "p" and bool(_POD.match(text, place)))
            or ("NCCL" in text and bool(_NCCL.match(text, place)))
            or (self._srun and bool(_SRUN.match(text, place)))
        )  # fmt: skip

    def _named(self, text: str, identity: Identity) -> Identity:
        if identity.rank is not None or "ank" not in text[:_HEAD_CHARS]:
            if identity.key or "NCCL" not in text or not (match := _NCCL.match(text)):
                return identity
            return Identity(
                f"nccl{match[1]}:{match[2]}", pid=int(match[2]), host=match[1],
                cuda_device=int(match[4]),
            )  # fmt: skip
        match = _NAMED_RANK.search(text, 0, _HEAD_CHARS)
        if not match:
            return identity
        return Identity(
            identity.key, int(match[1]), identity.local_rank, identity.pid, identity.pod,
            identity.host, identity.cuda_device, identity.body, identity.lead,
        )  # fmt: skip


def _read_syslog(text: str) -> Identity:
    match = _SYSLOG.match(text)
    if not match:
        return Identity()
    tag = match[2] if match[3] is None else f"{match[2]}[{match[3]}]"
    return Identity(f"{match[1]} {tag}", host=match[1], body=match.end())


def _has_srun_labels(label: StreamLabel, head: str) -> bool:
    """Whether lines start with `srun --label` task numbers: nearly all of them, or of known ranks.

    A counter or an epoch at the line start looks the same; a label with several ranks decides.
    """
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    found = [int(match[1]) for line in lines if (match := _SRUN.match(line))]
    if len(label.ranks) > 1:
        known = set(label.ranks)
        return bool(found) and sum(1 for rank in found if rank in known) * 2 >= len(lines)
    return len(found) >= 4 and len(found) * 10 >= len(lines) * _SRUN_SHARE


def _pdsh_hosts(label: StreamLabel, head: str) -> frozenset[str]:
    """The hosts that a parallel shell puts before each line: the label's own, nearly everywhere."""
    if len(label.nodes) < 2:
        return frozenset()
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    found = [match[1] for line in lines if (match := _HOST.match(line))]
    known = {host for host in found if host in label.nodes or host.split(".")[0] in label.nodes}
    named = sum(1 for host in found if host in known)
    return frozenset(known | set(label.nodes)) if named * 2 >= len(lines) > 0 else frozenset()
