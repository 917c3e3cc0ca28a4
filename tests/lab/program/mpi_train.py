"""A small data-parallel training loop over MPI."""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI

log = logging.getLogger("train")


def read(path, width):
    for line in path.open(encoding="utf-8"):
        record = json.loads(line)
        yield np.array(record["features"], dtype="d"), float(record["label"])


def main():
    steps, pace = int(sys.argv[1]), float(sys.argv[2])
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    level = logging.INFO if rank == 0 else logging.WARNING
    logging.basicConfig(
        level=level, format="%(asctime)s %(levelname)s %(message)s", stream=sys.stdout
    )
    sys.stdout.reconfigure(line_buffering=True)
    log.info("rank %d of %d", rank, size)
    weights = np.zeros(16)
    for step, (features, label) in enumerate(read(Path("data") / f"shard-{rank}.jsonl", 16), 1):
        error = float(weights @ features[:16]) - label
        mine = error * features
        total = np.empty_like(mine)
        world.Allreduce(mine, total)
        weights -= 0.01 * total[:16] / size
        log.info("step %d/%d loss %.4f", step, steps, error * error)
        time.sleep(pace)
        if step >= steps:
            break
    log.info("training finished after %d steps", steps)


main()
