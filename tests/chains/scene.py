"""Builds incidents from literals: who said what at which minute, in each program's own format.

Names and clocks are parameters of a scene, so that every incident can be told again under other
names, at another time and without one of its sources.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

START = datetime(2026, 3, 1, 10, 0, 0, tzinfo=UTC)
PER_NODE = 2
# [rank1]: ..., [PG ID 0 PG GUID 0(default_pg) Rank 1] ..., comm 0x55d0 rank 1 nranks 4,
# "  rank      : 1 (local_rank: 1)"; what is not a global rank starts with a letter or "_".
_RANK = re.compile(r"(\[rank|(?<![\w])[Rr]ank *:? )(\d+)\b")


@dataclass
class Scene:
    """One attempt: two nodes of two ranks for an hour, unless the incident says otherwise."""

    start: datetime = START
    prefix: str = "node-"
    workload: dict[str, Any] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    end_minute: float = 60
    node_count: int = 2
    user: str = "alice"
    uid: int = 1000
    swaps_ranks: bool = False

    # --- names and times --------------------------------------------------------------------

    def node(self, number: int) -> str:
        """The name of a node, counted from 1."""
        return f"{self.prefix}{number:03d}"

    def at(self, minute: float) -> datetime:
        """A moment, in minutes after the start."""
        return self.start + timedelta(minutes=minute)

    def glog(self, minute: float, level: str = "E") -> str:
        """A stamp as C++ of PyTorch writes it: no year, month without its zero."""
        when = self.at(minute)
        return f"{level}{when.month}{when:%d %H:%M:%S}.000000000"

    def job(self, state: str = "FAILED", exit_code: str = "1:0", **more: Any) -> None:
        """What the scheduler says of the attempt."""
        self.workload = {
            "scheduler": "slurm", "job_id": "4100", "name": "llm", "user": self.user,
            "state": self.renamed(state), "exit_code": exit_code, **more,
        }  # fmt: skip

    def rank(self, number: int) -> int:
        """The name of a rank: its own number, or that of its neighbour on the node."""
        return number ^ 1 if self.swaps_ranks else number

    def renamed(self, text: str) -> str:
        """Text under this scene's ranks, user and uid; it is written for rank N and uid 1000."""
        if self.swaps_ranks:
            text = _RANK.sub(lambda match: f"{match[1]}{self.rank(int(match[2]))}", text)
        text = re.sub(r"\b(uid[ =_]|CANCELLED by )1000\b", rf"\g<1>{self.uid}", text)
        return text.replace("/home/user/", f"/home/{self.user}/")

    # --- files ------------------------------------------------------------------------------

    def add(self, source: str, text: str, **labels: Any) -> None:
        """Add one file."""
        self.files.append({"source": source, "text": text.rstrip("\n") + "\n", **labels})

    def kernel(self, number: int, *lines: tuple[float, str]) -> None:
        """The kernel log of one node, with a line of everyday life on both sides."""
        told = [(1.0, "systemd: Started Session 7."), *lines,
                (self.end_minute + 1, "systemd: Session 7 closed.")]  # fmt: skip
        name = self.node(number)
        self.add(
            "syslog",
            "\n".join(
                f"{self.at(minute):%Y-%m-%dT%H:%M:%S.%f}+00:00 {name} kernel: {text}"
                for minute, text in told
            ),
            node=name,
        )

    def control(self, *lines: tuple[float, str]) -> None:
        """The controller's log of Slurm, which no node owns."""
        self.add("syslog", "\n".join(f"[{self.at(m):%Y-%m-%dT%H:%M:%S}.000] {t}" for m, t in lines))

    def app(self, *lines: str, **labels: Any) -> None:
        """What the job printed."""
        self.add("applog", "\n".join(lines), **labels)

    def kubectl(self, text: str) -> None:
        """Output of kubectl, captured at the end."""
        captured = f"{self.at(self.end_minute):%Y-%m-%dT%H:%M:%SZ}"
        self.add("kubernetes", text, captured_at=captured)

    # --- lines of the job -------------------------------------------------------------------

    def placement(self) -> list[str]:
        """NCCL's own lines: which rank sits on which device of which node."""
        ranks = range(PER_NODE * self.node_count)
        return [
            f"{self.node(1 + r // PER_NODE)}:{700 + r}:{700 + r} [{r % PER_NODE}] NCCL INFO comm "
            f"0x55d0 rank {r} nranks {len(ranks)} cudaDev {r % PER_NODE} nvmlDev {r % PER_NODE} "
            f"busId {1 + r % PER_NODE}0000 commId 0x1a - Init COMPLETE"
            for r in ranks
        ]

    def steps(self, until: float, every: float = 1) -> list[str]:
        """A logger's steps, one a minute."""
        lines, minute, step = [], 2.0, 10
        while minute <= until:
            lines.append(f"{self.at(minute):%Y-%m-%d %H:%M:%S},000 INFO step={step} loss=2.31")
            minute, step = minute + every, step + 10
        return lines

    def raised(self, rank: int, minute: float, error: str) -> list[str]:
        """A traceback of one rank, stamped by the logger of its first line."""
        head = f"[rank{rank}]: "
        return [
            f"{head}{self.at(minute):%Y-%m-%d %H:%M:%S},000 ERROR training stops",
            f"{head}Traceback (most recent call last):",
            f'{head}  File "/home/user/train.py", line 210, in <module>',
            f"{head}    main()",
            f"{head}{error}",
        ]

    def elastic(self, rank: int, minute: float, code: int = 1) -> list[str]:
        """The launcher's table of who failed first."""
        when, local = self.at(minute), rank % PER_NODE
        return [
            "============================================================",
            "train.py FAILED",
            "------------------------------------------------------------",
            "Failures:",
            "  <NO_OTHER_FAILURES>",
            "------------------------------------------------------------",
            "Root Cause (first observed failure):",
            "[0]:",
            f"  time      : {when:%Y-%m-%d_%H:%M:%S}",
            f"  host      : {self.node(1 + rank // PER_NODE)}",
            f"  rank      : {rank} (local_rank: {local})",
            f"  exitcode  : {code} (pid: {700 + rank})",
            "  error_file: <N/A>",
            "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/",
            "============================================================",
        ]

    def waited(
        self, ranks: list[int], minute: float, *, seq: int = 808, op: str = "ALLREDUCE",
        timeout_s: int = 600, enqueued: dict[int, int] | None = None, size: int = 4096,
    ) -> list[str]:  # fmt: skip
        """Watchdog timeouts; `enqueued` where a rank's counter differs from the operation."""
        lines = []
        for rank in ranks:
            last = (enqueued or {}).get(rank, seq)
            head = f"[rank{rank}]:[{self.glog(minute)} ProcessGroupNCCL.cpp"
            group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
            if last >= seq:
                lines.append(
                    f"{head}:616] {group} Watchdog caught collective operation timeout: WorkNCCL("
                    f"SeqNum={seq}, OpType={op}, NumelIn={size}, NumelOut={size}, Timeout(ms)="
                    f"{timeout_s * 1000}) ran for {timeout_s * 1000 + 70} milliseconds before "
                    "timing out."
                )
            lines.append(
                f"{head}:1785] {group} Exception (either an error or timeout) detected by watchdog "
                f"at work: {last}, last enqueued NCCL work: {last}, last completed NCCL work: "
                f"{min(last, seq - 1)}."
            )
        return lines

    def closed(self, ranks: list[int], by: int) -> list[str]:
        """Peers that lost a connection to a node."""
        return [
            f"{self.node(1 + r // PER_NODE)}:{700 + r}:{760 + r} [{r % PER_NODE}] "
            "misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer "
            f"{self.node(by)}<39012>"
            for r in ranks
        ]

    def crash(self, rank: int, minute: float, error: str, code: int = 1) -> list[str]:
        """A rank that raises, the launcher that reports it, and the peers that lose it."""
        others = [r for r in range(PER_NODE * self.node_count) if r // PER_NODE != rank // PER_NODE]
        return [
            *self.raised(rank, minute, error),
            *self.closed(others, 1 + rank // PER_NODE),
            *self.elastic(rank, minute + 0.1, code),
        ]

    # --- bundle -----------------------------------------------------------------------------

    def write(self, folder: Path, without: str = "") -> Path:
        """Write the bundle, without one source if so wanted."""
        if not self.workload:
            self.job()
        evidence = []
        for number, file in enumerate(self.files):
            if file["source"] == without:
                continue
            labels = {k: v for k, v in file.items() if k not in ("text",)}
            path = f"{number:02d}-{file['source']}.txt"
            (folder / path).write_text(self.renamed(file["text"]), encoding="utf-8")
            evidence.append({"path": path, **labels})
        end = self.at(self.end_minute)
        workload = {
            "start": f"{self.start:%Y-%m-%dT%H:%M:%SZ}", "end": f"{end:%Y-%m-%dT%H:%M:%SZ}",
            "nodes": [self.node(n + 1) for n in range(self.node_count)],
            "world_size": PER_NODE * self.node_count, **self.workload,
        }  # fmt: skip
        document = {"workload": workload, "evidence": evidence}
        (folder / "workload.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
        return folder


@dataclass(frozen=True)
class Told:
    """What a verdict must say: one of these domains, exactly these nodes, at most this sure."""

    domain: str | tuple[str, ...]
    nodes: tuple[int, ...] = ()
    level: str = ""
    symptom: str = ""

    @property
    def domains(self) -> tuple[str, ...]:
        """The accepted domains."""
        return (self.domain,) if isinstance(self.domain, str) else self.domain


@dataclass(frozen=True)
class Incident:
    """A chain and its near miss, told by one function."""

    name: str
    tell: Callable[[Scene, bool], None]
    chain: Told
    twin: Told
    node_count: int = 2
    minutes: float = 60

    def scene(self, *, twin: bool = False, **names: Any) -> Scene:
        """The scene, under these names and times."""
        scene = Scene(node_count=self.node_count, end_minute=self.minutes, **names)
        self.tell(scene, twin)
        return scene


INCIDENTS: dict[str, Incident] = {}


def incident(
    chain: Told, twin: Told, *, node_count: int = 2, minutes: float = 60
) -> Callable[[Callable[[Scene, bool], None]], Callable[[Scene, bool], None]]:
    """Register a chain; the function tells its near miss where `twin` is true."""

    def register(tell: Callable[[Scene, bool], None]) -> Callable[[Scene, bool], None]:
        assert tell.__name__ not in INCIDENTS
        INCIDENTS[tell.__name__] = Incident(tell.__name__, tell, chain, twin, node_count, minutes)
        return tell

    return register


UNKNOWN = Told("unknown")
