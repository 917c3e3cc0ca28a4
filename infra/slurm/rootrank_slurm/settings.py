"""Settings from a file of `key = value` lines; see docs/slurm.md for each."""

import os
from typing import Dict, Optional

DEFAULT_FILE = "/etc/rootrank/slurm.conf"
DEFAULTS = {
    "spool": "/var/spool/rootrank",
    "cluster": "",
    "bus": "default",
    "region": "",
    "endpoint": "",
    "credentials_file": "",
    "sacct": "/usr/bin/sacct",
    "scontrol": "/usr/bin/scontrol",
    "slurm_conf": "",
    "settle_s": "60",
    "retry_s": "15",
    "poll_s": "30",
    "poll_overlap_s": "600",
    "listen": "127.0.0.1:9880",
    "instances": "",
}


class SettingsError(Exception):
    """A settings file that cannot be used."""


def read_settings(path: Optional[str] = None) -> Dict[str, str]:
    """Return the settings; raises `SettingsError` that names the line."""
    path = path or os.environ.get("ROOTRANK_SLURM_CONF") or DEFAULT_FILE
    found = dict(DEFAULTS)
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise SettingsError("%s: cannot be read (%s)" % (path, error.strerror)) from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, sign, value = (part.strip() for part in text.partition("="))
        if not sign or key not in DEFAULTS:
            known = ", ".join(sorted(DEFAULTS))
            raise SettingsError(
                "%s:%d: unknown setting %r; known are %s" % (path, number, key, known)
            )
        found[key] = value
    for key in ("settle_s", "retry_s", "poll_s", "poll_overlap_s"):
        if not found[key].isdigit():
            raise SettingsError("%s: %s must be a number of seconds" % (path, key))
    found["path"] = path
    return found
