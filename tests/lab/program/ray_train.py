"""A small data-parallel training run with Ray actors on CPU."""

import json
import os
import sys
import time
from pathlib import Path

import ray
import torch
import torch.distributed as dist

FOLDER = Path(__file__).resolve().parent
WORKERS, STEPS = int(sys.argv[1]), int(sys.argv[2])


@ray.remote(num_cpus=1)
class TrainWorker:
    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def pid(self):
        return os.getpid()

    def train(self, folder, steps):
        dist.init_process_group(
            "gloo", init_method="tcp://127.0.0.1:29517", rank=self.rank, world_size=self.size
        )
        weights = torch.zeros(16)
        lines = (Path(folder) / "data" / f"shard-{self.rank}.jsonl").open()
        for step in range(1, steps + 1):
            record = json.loads(lines.readline())
            features = torch.tensor(record["features"])
            gradient = (weights @ features - record["label"]) * features
            dist.all_reduce(gradient)
            weights -= 0.01 * gradient
            if self.rank == 0:
                print(f"step {step}/{steps} norm {weights.norm().item():.4f}", flush=True)
            time.sleep(0.2)
        return weights.norm().item()


def main():
    ray.init(num_cpus=WORKERS, include_dashboard=False, object_store_memory=100_000_000)
    workers = [TrainWorker.remote(rank, WORKERS) for rank in range(WORKERS)]
    pids = ray.get([worker.pid.remote() for worker in workers])
    (FOLDER / "workers.pid").write_text(json.dumps(pids))
    norms = ray.get([worker.train.remote(str(FOLDER), STEPS) for worker in workers])
    print(f"training finished, norm {norms[0]:.4f}")


main()
