"""What a run borrows from the machine: namespaces as nodes, memory cgroups, the kernel log.

Everything is named after the run and given back at its end. Traffic stays inside namespaces.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path

MEMORY = Path("/sys/fs/cgroup/memory")
UNIFIED = Path("/sys/fs/cgroup")
DMESG_STAMP = re.compile(r"^\[\s*(\d+\.\d+)\]")
BLOCK_START = "invoked oom-killer"
BLOCK_END = re.compile(r"Killed process \d+|oom_reaper: reaped process")


def run_command(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one short command of the machine."""
    return subprocess.run(words, check=check, capture_output=True, text=True, timeout=30)


def missing_needs(needs: tuple[str, ...]) -> list[str]:
    """Return which of the needs this machine does not meet."""
    return [need for need in needs if not _is_met(need)]


def _is_met(need: str) -> bool:
    if need == "root":
        return os.geteuid() == 0
    if need == "memory cgroup":
        return os.access(MEMORY if MEMORY.is_dir() else UNIFIED / "cgroup.procs", os.W_OK)
    if need == "kernel log":
        return run_command("dmesg", check=False).returncode == 0
    if need.startswith("python:"):
        from tests.lab.run import PYTHON

        code = f"import importlib.util as u, sys; sys.exit(u.find_spec({need[7:]!r}) is None)"
        return run_command(str(PYTHON), "-c", code, check=False).returncode == 0
    return shutil.which(need, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


class Group:
    """A memory cgroup (v1 or v2) that holds all processes of one node of one run."""

    def __init__(self, name: str):
        self.is_v1 = MEMORY.is_dir()
        self.path = (MEMORY if self.is_v1 else UNIFIED) / name
        self.name = name
        self.path.mkdir(parents=True, exist_ok=True)

    def limit_bytes(self, size: int) -> None:
        """Set the hard limit."""
        file = "memory.limit_in_bytes" if self.is_v1 else "memory.max"
        (self.path / file).write_text(str(size))

    def pids(self) -> list[int]:
        """Return the processes in it."""
        try:
            return [int(word) for word in (self.path / "cgroup.procs").read_text().split()]
        except (FileNotFoundError, OSError):
            return []

    def close(self) -> None:
        """Kill what is left and remove the group."""
        for _ in range(50):
            pids = self.pids()
            if not pids:
                break
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
        for _ in range(20):
            try:
                self.path.rmdir()
                self.path.parent.rmdir()
            except OSError:
                time.sleep(0.05)
            else:
                return


class Network:
    """One namespace a node, and one with a bridge between them."""

    def __init__(self, tag: str, names: list[str]):
        self.names = names
        self.spaces = [f"{tag}n{index}" for index in range(len(names))]
        self.switch = f"{tag}sw"
        octet = 1 + int(tag[-4:], 16) % 250
        self.addresses = [f"10.77.{octet}.{index + 1}" for index in range(len(names))]
        self.hosts = "127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for address, name in zip(self.addresses, names, strict=True)
        )
        self._build()

    def _build(self) -> None:
        run_command("ip", "netns", "add", self.switch)
        self.at_switch("ip", "link", "add", "br0", "type", "bridge")
        self.at_switch("ip", "link", "set", "br0", "up")
        for index, space in enumerate(self.spaces):
            run_command("ip", "netns", "add", space)
            folder = Path("/etc/netns") / space
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts").write_text(self.hosts)
            (folder / "resolv.conf").write_text("options timeout:1 attempts:1\n")
            (folder / "nsswitch.conf").write_text("hosts: files dns\n")
            self.at(index, "ip", "link", "set", "lo", "up")
            run_command(
                "ip", "link", "add", "eth0", "netns", space, "type", "veth",
                "peer", "name", f"port{index}", "netns", self.switch,
            )  # fmt: skip
            self.at(index, "ip", "address", "add", f"{self.addresses[index]}/24", "dev", "eth0")
            self.at(index, "ip", "link", "set", "eth0", "up")
            self.at_switch("ip", "link", "set", f"port{index}", "master", "br0", "up")

    def at(self, index: int, *words: str, check: bool = True) -> str:
        """Run a command in a node's namespace."""
        return run_command("ip", "netns", "exec", self.spaces[index], *words, check=check).stdout

    def at_switch(self, *words: str) -> str:
        """Run a command in the bridge's namespace."""
        return run_command("ip", "netns", "exec", self.switch, *words).stdout

    def close(self) -> None:
        """Remove the namespaces."""
        for space in [*self.spaces, self.switch]:
            run_command("ip", "netns", "del", space, check=False)
            shutil.rmtree(Path("/etc/netns") / space, ignore_errors=True)


def kernel_lines(group: str, pids: set[int], since: float) -> list[str]:
    """Return the kernel's lines about this run, as `dmesg -T` prints them.

    Whole out-of-memory reports of its cgroup, and lines that carry the pid of one of its processes.
    `since` is a CLOCK_BOOTTIME moment in seconds.
    """
    raw = run_command("dmesg", check=False).stdout.splitlines()
    pretty = run_command("dmesg", "-T", check=False).stdout.splitlines()
    if len(raw) != len(pretty):
        pretty = raw
    mine, block = [], []
    for plain, shown in zip(raw, pretty, strict=True):
        stamp = DMESG_STAMP.match(plain)
        if stamp is None or float(stamp[1]) < since - 1:
            continue
        if BLOCK_START in plain:
            block = []
        if block or BLOCK_START in plain:
            block.append(shown)
            if BLOCK_END.search(plain):
                if any(group in line for line in block):
                    mine += block
                block = []
        elif any(f"[{pid}]" in plain or f"process {pid} " in plain for pid in pids):
            mine.append(shown)
    return [line for line in mine if "Hardware name" not in line]


def boot_seconds() -> float:
    """Return the seconds since boot, the kernel log's clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def utc_now() -> str:
    """Return the wall time as ISO text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
