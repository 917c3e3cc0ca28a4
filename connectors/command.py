"""Reading from a program on this machine: bounded in time and size, without a shell.

A connector gets a `CommandRunner` passed in; tests pass a fake, a login node passes
`LocalCommands`.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Final, Protocol

from connectors.protocol import ConnectorError, SourceNotConfiguredError, SourceUnreachableError

MAX_OUTPUT_BYTES: Final = 256 * 1024 * 1024
_PIECE: Final = 256 * 1024


class CommandFailedError(ConnectorError):
    """A program that said no: its exit code and what it wrote to stderr."""


class CommandRunner(Protocol):
    """Runs one program and returns what it printed."""

    def run(self, argv: Sequence[str], *, timeout_s: float) -> bytes:
        """Return stdout; raises `ConnectorError`s that say which program and why."""


@dataclass(slots=True, frozen=True)
class LocalCommands:
    """Programs of this machine, with a small environment of their own.

    Times come out in UTC and messages in English, whatever the user's settings are.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    max_bytes: int = MAX_OUTPUT_BYTES

    def run(self, argv: Sequence[str], *, timeout_s: float) -> bytes:
        """Return stdout; raises `CommandFailedError`, `SourceUnreachableError` on a timeout."""
        fixed = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "SLURM_TIME_FORMAT": "standard"}
        try:
            process = subprocess.Popen(  # noqa: S603  a fixed program, no shell
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": os.defpath, **fixed, **self.environment},
            )
        except OSError as error:
            raise SourceNotConfiguredError(
                f"{argv[0]}: cannot be run ({error.strerror}); install it or name its path"
            ) from error
        with process:
            try:
                out, err = _drain(process, self.max_bytes, time.monotonic() + timeout_s)
                process.wait(max(0.1, timeout_s))
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                process.kill()
                raise SourceUnreachableError(
                    f"{argv[0]}: no end after {timeout_s:g} s; is its daemon up?"
                ) from error
            except ConnectorError:
                process.kill()
                raise
        if process.returncode != 0:
            told = " ".join(err.decode("utf-8", "replace").split())[:400]
            raise CommandFailedError(f"{argv[0]}: exit code {process.returncode} ({told})")
        return out


def _drain(
    process: "subprocess.Popen[bytes]", max_bytes: int, deadline: float
) -> tuple[bytes, bytes]:
    """Read both pipes to their end; raises `TimeoutError`, and `ConnectorError` when too much."""
    pipes: list[IO[bytes]] = [pipe for pipe in (process.stdout, process.stderr) if pipe]
    taken: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in pipes}
    order = list(taken)
    size = 0
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            for key, _ in selector.select(left):
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                    continue
                taken[key.fd].append(piece)
                size += len(piece)
                if size > max_bytes:
                    raise ConnectorError(f"{process.args!r}: printed more than {max_bytes} bytes")
    return b"".join(taken[order[0]]), b"".join(taken[order[1]])
