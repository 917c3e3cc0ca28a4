"""What this machine has and lends: ports, control groups, Slurm's plugins."""

import socket
from pathlib import Path


def has_memory_cgroup() -> bool:
    """Whether memory limits can be set here with control groups of version 1."""
    return Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists()


def has_jwt() -> bool:
    """Whether Slurm's JWT plugin is installed (slurm-wlm-jwt-plugin)."""
    return any(Path("/usr/lib").glob("*/slurm-wlm/auth_jwt.so"))


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def listens(port: int) -> bool:
    """Whether somebody listens on a port of loopback."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
