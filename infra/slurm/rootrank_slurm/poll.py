"""Asks accounting which jobs ended: for sites that may not change slurm.conf, and as a net."""

import time
from typing import Dict

from rootrank_slurm.records import SACCT, Slurm, is_settled, rows_of
from rootrank_slurm.spool import Spool

_STATE = "poll.json"
_FIRST_LOOK_S = 3600


def poll_once(settings: Dict[str, str], slurm: Slurm, spool: Spool, now: float) -> int:
    """Spool each attempt that ended since the last look; returns how many.

    Every look reaches back over the last one, since accounting is late; what was spooled is
    remembered. Where accounting does not answer, the next look begins where this one would have.
    """
    state = spool.read_state(_STATE)
    overlap = int(settings["poll_overlap_s"])
    since = float(state.get("until", now - _FIRST_LOOK_S)) - overlap
    text = slurm.ended_since(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since)))
    if text is None:
        return 0
    seen: Dict[str, float] = dict(state.get("seen") or {})
    count = 0
    for row in rows_of(text):
        name = "%s %s %s" % (row["JobIDRaw"], row["Start"], row["Submit"])
        if name in seen or not is_settled(row, now):
            continue
        table = "|".join(SACCT) + "\n" + "|".join(row[each] for each in SACCT)
        spool.add("poll", {"jobid": row["JobIDRaw"], "sacct": table})
        seen[name] = now
        count += 1
    # A job may end twice as late as we look back, not later: its row comes with the end.
    kept = {name: at for name, at in seen.items() if at > now - 2 * overlap - _FIRST_LOOK_S}
    spool.write_state(_STATE, {"until": now, "seen": kept})
    return count
