"""A real Prometheus with series of its own making, on loopback."""

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

BASE = 1_767_225_600  # 2026-01-01T00:00:00Z
STEP_S = 15


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def series(name, labels, value_at, *, seconds=1_200, kind="gauge", gap=None, step_s=STEP_S):
    """Return OpenMetrics lines of one series; `value_at` gives a value or None for a gap."""
    inner = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
    lines = []
    for offset in range(0, seconds, step_s):
        value = value_at(offset)
        if value is not None:
            lines.append(f"{name}{{{inner}}} {value} {BASE + offset}")
    return (name, kind, lines)


def open_metrics(found) -> str:
    """Return the text that promtool reads: samples of one family together, `# EOF` at the end."""
    families: dict[tuple[str, str], list[str]] = {}
    for name, kind, lines in found:
        families.setdefault((name, kind), []).extend(lines)
    text = ""
    for (name, kind), lines in sorted(families.items()):
        family = name.removesuffix("_total") if kind == "counter" else name
        text += f"# TYPE {family} {kind}\n" + "\n".join(lines) + "\n"
    return text + "# EOF\n"


class Prometheus:
    """A server over backfilled blocks; `scrapes` are addresses of exporters to read each second."""

    def __init__(self, folder: Path, found=(), *, scrapes=()):
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        data = folder / "data"
        data.mkdir(parents=True)
        if found:
            (folder / "om.txt").write_text(open_metrics(found))
            subprocess.run(
                ["promtool", "tsdb", "create-blocks-from", "openmetrics", folder / "om.txt", data],
                check=True,
                capture_output=True,
                timeout=60,
            )
        (folder / "prometheus.yml").write_text(
            "global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n"
            + "".join(
                f"  - job_name: node\n    static_configs: [{{targets: ['{each}']}}]\n"
                "    relabel_configs:\n"
                "      - {target_label: instance, replacement: 'n1:9100'}\n"
                for each in scrapes
            )
            if scrapes
            else "global: {}\n"
        )
        self.process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--storage.tsdb.retention.time=100y",
            ],
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("wb"),
        )
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{self.url}/-/ready", timeout=1).read()
                return
            time.sleep(0.1)
        self.stop()
        raise RuntimeError("prometheus did not start")

    def stop(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait(20)
