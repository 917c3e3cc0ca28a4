"""`python3 -m rootrank_slurm COMMAND`: what slurmctld and the services run."""

import argparse
import os
import subprocess
import sys
import threading
import time
from typing import Any, Dict, List, Optional

from rootrank_slurm.bus import Bus
from rootrank_slurm.deliver import Deliverer, say
from rootrank_slurm.poll import poll_once
from rootrank_slurm.records import EPILOG, JOBCOMP, SIGNALS, Slurm, job_of, taken
from rootrank_slurm.request import RequestError, request_record
from rootrank_slurm.serve import make_server
from rootrank_slurm.settings import SettingsError, read_settings
from rootrank_slurm.spool import Spool

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(argv: Optional[List[str]] = None) -> int:
    """Run one command; returns the exit code.

    The programs that slurmctld runs return 0 whatever happens: a monitoring tool must not hold or
    fail a job.
    """
    parser = argparse.ArgumentParser(prog="rootrank_slurm")
    parser.add_argument("command", choices=sorted([*_COMMANDS, "request"]))
    parser.add_argument("job", nargs="?", help="of request: the job that still runs")
    parser.add_argument("--signal", choices=SIGNALS, help="of request: what was noticed")
    parser.add_argument("--conf", help="settings (default: /etc/rootrank/slurm.conf)")
    options = parser.parse_args(argv)
    if (options.command == "request") != bool(options.job and options.signal):
        parser.error("request, and only request, takes a job and --signal")
    from_slurmctld = options.command in ("epilog", "jobcomp")
    try:
        settings = read_settings(options.conf)
        spool = Spool(settings["spool"])
        if options.command == "request":
            return _request(settings, spool, options.job, options.signal)
        code: int = _COMMANDS[options.command](settings, spool)
    except (SettingsError, RequestError, OSError) as error:
        say(str(error))
        return 0 if from_slurmctld else 2
    return 0 if from_slurmctld else code


def _epilog(settings: Dict[str, str], spool: Spool) -> int:
    return _spooled(settings, spool, "epilog", taken(os.environ, EPILOG))


def _jobcomp(settings: Dict[str, str], spool: Spool) -> int:
    return _spooled(settings, spool, "jobcomp", taken(os.environ, JOBCOMP))


def _spooled(settings: Dict[str, str], spool: Spool, kind: str, record: Dict[str, Any]) -> int:
    if not job_of(record):
        say("%s: no job in the environment; slurmctld runs this" % kind)
        return 2
    spool.add(kind, record)
    # slurmctld must not wait: the delivery is a process of its own.
    subprocess.Popen(  # noqa: S603  this very program
        [sys.executable, "-m", "rootrank_slurm", "drain", "--conf", settings["path"]],
        cwd=_HERE, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, close_fds=True,
    )  # fmt: skip
    return 0


def _request(settings: Dict[str, str], spool: Spool, job: str, signal: str) -> int:
    deliverer = _deliverer(settings, spool)
    spool.add("request", request_record(deliverer.slurm, job, signal))
    if deliverer.drain():
        print("attribution of job %s is requested" % job)  # noqa: T201
    else:
        print("the request for job %s is spooled and will be delivered" % job)  # noqa: T201
    return 0


def _drain(settings: Dict[str, str], spool: Spool) -> int:
    return 0 if _deliverer(settings, spool).drain() else 1


def _deliver(settings: Dict[str, str], spool: Spool) -> int:
    _deliverer(settings, spool).drain_for_ever()
    return 0


def _poll(settings: Dict[str, str], spool: Spool) -> int:
    deliverer = _deliverer(settings, spool)
    while True:
        poll_once(settings, deliverer.slurm, spool, time.time())
        deliverer.drain()
        time.sleep(int(settings["poll_s"]))


def _poll_once(settings: Dict[str, str], spool: Spool) -> int:
    deliverer = _deliverer(settings, spool)
    poll_once(settings, deliverer.slurm, spool, time.time())
    return 0 if deliverer.drain() else 1


def _serve(settings: Dict[str, str], spool: Spool) -> int:
    server = make_server(settings["listen"], spool)
    threading.Thread(target=_deliverer(settings, spool).drain_for_ever, daemon=True).start()
    server.serve_forever()
    return 0


def _status(settings: Dict[str, str], spool: Spool) -> int:
    names = spool.names()
    dead = [name for name in os.listdir(spool.dead) if name.endswith(".json")]
    print("%d events wait, %d were refused" % (len(names), len(dead)))  # noqa: T201
    return 1 if dead else 0


def _deliverer(settings: Dict[str, str], spool: Spool) -> Deliverer:
    return Deliverer(settings, Slurm(settings), Bus(settings), spool)


_COMMANDS = {
    "epilog": _epilog,
    "jobcomp": _jobcomp,
    "drain": _drain,
    "deliver": _deliver,
    "poll": _poll,
    "poll-once": _poll_once,
    "serve": _serve,
    "status": _status,
}

if __name__ == "__main__":
    sys.exit(main())
