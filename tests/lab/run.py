"""One run: nodes, a training job on them, an injector outside of it, and a bundle at the end.

The injector is this process: it prepares data and settings, waits until a log shows a step, and
then acts on processes, mounts or links. It writes nothing into the job's logs.
"""

import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.machine import Group, Network, boot_seconds, kernel_lines, utc_now

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "program"
VENV = Path(os.environ.get("ROOTRANK_LAB_VENV", ROOT / ".venv-lab"))
PYTHON = VENV / "bin" / "python"
COUNTER = itertools.count(1)
NAMES = ("node-{:03d}", "gpu-{:02d}", "worker{:d}", "c12n{:02d}", "hgx-a{:02d}")


@dataclass
class Truth:
    """What the injector did; nobody else writes it."""

    kind: str
    seed: int
    cause: str = ""
    ranks: list[int] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    at: str = ""
    ended_by_lab: bool = False


@dataclass
class Agent:
    """One launcher process on one node."""

    node: int
    process: subprocess.Popen[bytes]
    log: Path


class Run:
    """The tools that a kind has at hand; use as a context manager."""

    def __init__(self, kind: str, seed: int, index: int):
        self.kind, self.seed, self.index = kind, seed, index
        self.rng = random.Random(f"{kind}/{seed}/{index}")
        self.truth = Truth(kind, seed)
        self.work = Path(tempfile.mkdtemp(prefix="rr-"))
        self.work.chmod(0o755)
        self.job_id = str(self.rng.randrange(40_000, 900_000))
        self.names: list[str] = []
        self.per_node = 0
        self.network: Network | None = None
        self.groups: list[Group] = []
        self.agents: list[Agent] = []
        self.pids: set[int] = set()
        self.state: str | None = None
        self.exit_code: str | None = None
        self.scheduler = "none"
        self.start_at = self.end_at = ""
        self.since = boot_seconds()
        self.extra_evidence: list[dict[str, Any]] = []
        self.time_limit: str | None = None
        self._boxes: list[Any] = []

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self.agents:
            if agent.process.poll() is None:
                agent.process.kill()
        for group in self.groups:
            group.close()
        for close in reversed(self._boxes):
            close()
        if self.network:
            self.network.close()
        shutil.rmtree(self.work, ignore_errors=True)

    @property
    def more_text(self) -> str:
        """What was collected besides the job's own files."""
        return "\n".join(str(each["text"]) for each in self.extra_evidence)

    @property
    def world(self) -> int:
        """Ranks in all."""
        return len(self.names) * self.per_node

    def at_end(self, close: Any) -> None:
        """Call this when the run is torn down."""
        self._boxes.append(close)

    def nodes(self, count: int = 1, per_node: int | None = None) -> None:
        """Make the nodes; the size varies with the run unless it is given."""
        first = self.rng.randrange(1, 40)
        form = self.rng.choice(NAMES)
        self.names = [form.format(first + index) for index in range(count)]
        sizes = (2, 3, 4) if count == 1 else (1, 2)
        self.per_node = per_node or sizes[self.index % len(sizes)]
        tag = f"rr{os.getpid() % 0x1000:03x}{next(COUNTER):03x}"
        self.network = Network(tag, self.names)
        self.groups = [Group(f"job_{self.job_id}/{name}") for name in self.names]

    def victim(self, *, first: int = 0) -> int:
        """Choose a rank that the fault happens to."""
        return first + (self.rng.randrange(self.world - first))

    def node_of(self, rank: int) -> int:
        """Return the index of a rank's node."""
        return rank // self.per_node

    def blame(self, cause: str, ranks: list[int] | None = None, nodes: Any = None) -> None:
        """Record what was injected, where and when."""
        self.truth.cause, self.truth.at = cause, utc_now()
        self.truth.ranks = sorted(ranks or [])
        chosen = (
            nodes if nodes is not None else sorted({self.node_of(each) for each in ranks or []})
        )
        self.truth.nodes = [self.names[each] for each in chosen]

    # The job's files

    def data(self, records: int = 40, width: int = 16, **extra: Any) -> None:
        """Write the program and one shard of JSON records a rank."""
        shutil.copy(PROGRAMS / "train.py", self.work / "train.py")
        folder = self.work / "data"
        folder.mkdir(exist_ok=True)
        for rank in range(self.world):
            rows = [
                {"text": "a" * self.rng.randrange(3, 30), "label": 1.0,
                 "features": [round(self.rng.random(), 3) for _ in range(width)], **extra}
                for _ in range(records)
            ]  # fmt: skip
            self.write_shard(rank, rows)
        manifest = {"records": [records] * self.world}
        (folder / "manifest.json").write_text(json.dumps(manifest))

    def shard(self, rank: int) -> Path:
        """Return the path of a rank's data."""
        return self.work / "data" / f"shard-{rank}.jsonl"

    def read_shard(self, rank: int) -> list[dict[str, Any]]:
        """Return a rank's records."""
        return [json.loads(line) for line in self.shard(rank).read_text().splitlines()]

    def write_shard(self, rank: int, rows: list[dict[str, Any]]) -> None:
        """Replace a rank's records."""
        self.shard(rank).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def edit_record(self, rank: int, number: int, **fields: Any) -> None:
        """Change fields of one record; a field set to None is removed."""
        rows = self.read_shard(rank)
        rows[number] |= fields
        rows[number] = {key: value for key, value in rows[number].items() if value is not None}
        self.write_shard(rank, rows)

    def spoil_line(self, rank: int, number: int, text: str) -> None:
        """Replace one line of a shard by text."""
        lines = self.shard(rank).read_text().splitlines()
        lines[number] = text
        self.shard(rank).write_text("\n".join(lines) + "\n")

    # Starting and watching

    def start(
        self,
        *options: str,
        only: list[int] | None = None,
        env: dict[str, str] | None = None,
        setup: dict[int, str] | str = "",
        torchrun: tuple[str, ...] = (),
        prefix: tuple[str, ...] = (),
        command: list[str] | None = None,
        style: str | None = None,
    ) -> None:
        """Start the launcher on each node (or `only` on some)."""
        self.start_at = self.start_at or utc_now()
        style = style or ("stamped", "all", "plain")[self.index % 3]
        for node in only if only is not None else range(len(self.names)):
            words = command or [
                str(VENV / "bin" / "torchrun"), *self._launch_options(node), *torchrun,
                "train.py", "--log-style", style, *options,
            ]  # fmt: skip
            shell = setup if isinstance(setup, str) else setup.get(node, "")
            self._spawn(node, [*prefix, *words], env or {}, shell)

    def _launch_options(self, node: int) -> list[str]:
        words = ["--nproc-per-node", str(self.per_node)]
        form = ("merged", "tee", "split")[self.index % 3]
        if form != "merged":
            folder = self.work / "logs" / self.names[node]
            switch = "--tee" if form == "tee" else "--redirects"
            words += [switch, "3", "--log-dir", str(folder)]
        if len(self.names) == 1:
            return [*words, "--standalone"] if self.index % 2 else words
        words += ["--nnodes", str(len(self.names))]
        if self.index % 2:
            words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{self.names[0]}:29400"]
            return [*words, "--rdzv-id", self.job_id, "--rdzv-conf", "join_timeout=20"]
        words += ["--node-rank", str(node), "--master-addr", self.names[0]]
        return [*words, "--master-port", "29500"]

    def _spawn(self, node: int, words: list[str], env: dict[str, str], setup: str) -> None:
        assert self.network is not None
        log = self.work / f"{self.names[node]}.log"
        inner = f'hostname {self.names[node]}\n{setup}\nexec "$@"'
        space = self.network.spaces[node]
        outer = (
            f"echo $$ > {self.groups[node].path}/cgroup.procs\n"
            f"exec ip netns exec {space} unshare --uts sh -c '{inner}' sh \"$@\""
        )
        base = {
            "PATH": f"{VENV}/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
            "HOSTNAME": self.names[node],
            "GLOO_SOCKET_IFNAME": "eth0" if len(self.names) > 1 else "lo",
        }  # fmt: skip
        with log.open("ab") as sink:
            process = subprocess.Popen(
                ["sh", "-c", outer, "sh", *words], cwd=self.work, env=base | env, stdout=sink,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        self.agents.append(Agent(node, process, log))

    def texts(self) -> str:
        """Return everything printed so far."""
        files = [*self.work.glob("*.log"), *self.work.glob("logs/**/*.log")]
        return "\n".join(each.read_text(errors="replace") for each in files)

    def wait_for(self, pattern: str, within: float = 60) -> bool:
        """Wait until the logs show a line; False where the job ended first."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            if re.search(pattern, self.texts()):
                self.note_pids()
                return True
            if all(each.process.poll() is not None for each in self.agents):
                return False
            time.sleep(0.15)
        return False

    def wait_step(self, step: int | None = None) -> None:
        """Wait until training is under way."""
        step = step or self.rng.randrange(3, 8)
        if not self.wait_for(rf"step {step}/"):
            raise RuntimeError(f"step {step} was not reached:\n{self.texts()[-2000:]}")

    def ranks_pids(self) -> dict[int, int]:
        """Return the main process of each rank."""
        seen: dict[int, dict[int, int]] = {}
        for pid in [pid for group in self.groups for pid in group.pids()]:
            try:
                environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                parent = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
                words = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            rank = next((each[5:] for each in environ if each.startswith(b"RANK=")), None)
            if rank is not None and b".py" in words:
                seen.setdefault(int(rank), {})[pid] = parent
        return {
            rank: next(pid for pid, parent in pids.items() if parent not in pids)
            for rank, pids in seen.items()
        }

    def note_pids(self) -> None:
        """Remember all processes, for the kernel's lines about them."""
        for group in self.groups:
            self.pids.update(group.pids())

    def children_of(self, pid: int) -> list[int]:
        """Return the direct children of a process."""
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in text.split()]

    def send(self, rank: int, number: int) -> None:
        """Send a signal to one rank."""
        self.note_pids()
        os.kill(self.ranks_pids()[rank], number)

    def send_agent(self, node: int, number: int) -> None:
        """Send a signal to a node's launcher."""
        os.kill(self.agents[node].process.pid, number)

    def kill_node(self, node: int) -> None:
        """End everything on a node at once, as a power cut does."""
        for pid in self.groups[node].pids():
            os.kill(pid, signal.SIGKILL)

    def finish(self, within: float = 45) -> None:
        """Wait for the end; what still runs then is ended, and the truth says so."""
        end = time.monotonic() + within
        while time.monotonic() < end:
            self.note_pids()
            if all(each.process.poll() is not None for each in self.agents):
                break
            time.sleep(0.2)
        codes = [each.process.poll() for each in self.agents]
        self.end_at = utc_now()
        if None in codes:
            self.truth.ended_by_lab = True
        bad = [code for code in codes if code]
        if self.state is None:
            ended = "FAILED" if bad else "COMPLETED"
            self.state = ended if bad or None not in codes else "CANCELLED"
        if self.exit_code is None and None not in codes:
            code = bad[0] if bad else 0
            self.exit_code = str(code if code >= 0 else 128 - code)

    def kernel_log(self) -> list[str]:
        """Return the kernel's words about this run."""
        return kernel_lines(f"job_{self.job_id}", self.pids, self.since)
