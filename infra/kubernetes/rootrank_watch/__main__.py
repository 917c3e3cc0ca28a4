"""`python -m rootrank_watch`: settings from the environment, see docs/kubernetes.md."""

import os
import signal
import sys
import time
from collections.abc import Mapping

from rootrank_slurm.bus import Bus
from rootrank_slurm.settings import DEFAULTS
from rootrank_slurm.spool import Spool

from connectors.allowance import Allowance
from connectors.command import LocalCommands
from connectors.http_source import HttpSource
from connectors.protocol import SourceNotConfiguredError
from connectors.schedulers.kubernetes_api import KubernetesApi
from connectors.schedulers.kubernetes_door import open_door
from connectors.site import InCluster, Kubeconfig
from engine.model.plan import Budget
from rootrank_watch.tracker import Tracker
from rootrank_watch.watching import Watching

_WITHOUT_END = Budget(bytes=1 << 62, seconds=1 << 40, requests=1 << 40)


def build(environment: Mapping[str, str]) -> Watching:
    """Return the watcher; raises `SourceNotConfiguredError` where a setting is missing."""
    cluster = environment.get("ROOTRANK_CLUSTER")
    if not cluster:
        raise SourceNotConfiguredError("ROOTRANK_CLUSTER is not set: the name of this cluster")
    path = environment.get("KUBECONFIG")
    settings = InCluster() if path is None else Kubeconfig(path=path)

    def make() -> KubernetesApi:
        # Made again for each connection: the pod's token is replaced every hour.
        door = open_door(settings, environment, LocalCommands)
        allowance = Allowance(_WITHOUT_END, time.monotonic)
        return KubernetesApi(
            HttpSource(door.client(), f"kubernetes {door.url}", allowance, time.sleep)
        )

    bus = Bus(
        {
            **DEFAULTS,
            "bus": environment.get("ROOTRANK_BUS", "default"),
            "region": environment.get("AWS_REGION", ""),
            "endpoint": environment.get("ROOTRANK_ENDPOINT", ""),
            "credentials_file": environment.get("AWS_SHARED_CREDENTIALS_FILE", ""),
        }
    )
    spool = Spool(environment.get("ROOTRANK_SPOOL", "/var/spool/rootrank"))
    names = environment.get("ROOTRANK_NAMESPACES", "").split(",")
    return Watching(
        Tracker(cluster, has_kueue=environment.get("ROOTRANK_KUEUE", "true") == "true"),
        make,
        spool,
        bus,
        say,
        namespaces=tuple(name.strip() for name in names if name.strip()),
    )


def say(text: str) -> None:
    """Tell on stderr, which is the pod's log."""
    sys.stderr.write(f"rootrank: {text}\n")
    sys.stderr.flush()


def main() -> int:
    """Watch until told to stop."""
    try:
        watching = build(os.environ)
    except SourceNotConfiguredError as error:
        say(str(error))
        return 2
    signal.signal(signal.SIGTERM, lambda *_: watching.stopped.set())
    watching.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
