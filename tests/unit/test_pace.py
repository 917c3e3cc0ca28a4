"""The cycle collector's pace."""

import gc

from functions.collect.pace import collect_rarely


def test_the_cycle_collector_stays_on_and_runs_rarely() -> None:
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.isenabled()
        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*before)
