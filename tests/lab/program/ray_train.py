"""A small Ray Train run on CPU."""

import json
import os
import sys
import time
from pathlib import Path

import ray
import ray.train
import torch
import torch.distributed as dist
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

FOLDER = Path(sys.argv[0]).resolve().parent
WORKERS, STEPS = int(sys.argv[1]), int(sys.argv[2])


def train_loop(config):
    rank = ray.train.get_context().get_world_rank()
    (Path(config["folder"]) / f"worker-{rank}.pid").write_text(str(os.getpid()))
    weights = torch.zeros(16)
    lines = (Path(config["folder"]) / "data" / f"shard-{rank}.jsonl").open()
    for step in range(1, config["steps"] + 1):
        record = json.loads(lines.readline())
        features = torch.tensor(record["features"])
        gradient = (weights @ features - record["label"]) * features
        dist.all_reduce(gradient)
        weights -= 0.01 * gradient
        if rank == 0:
            print(f"step {step}/{config['steps']} norm {weights.norm().item():.4f}", flush=True)
        time.sleep(0.2)


ray.init(num_cpus=WORKERS + 1, include_dashboard=False, object_store_memory=100_000_000)
trainer = TorchTrainer(
    train_loop,
    train_loop_config={"steps": STEPS, "folder": str(FOLDER)},
    scaling_config=ScalingConfig(num_workers=WORKERS),
    run_config=RunConfig(storage_path=str(FOLDER / "results"), failure_config=FailureConfig(0)),
)
print(trainer.fit())
