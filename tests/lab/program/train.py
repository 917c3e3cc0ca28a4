"""A small language-model-like trainer on CPU: data parallel over gloo, started by torchrun.

An ordinary program with ordinary bugs. It knows nothing of the fault lab: what goes wrong in it
goes wrong because of its data, its settings, or what happens to its process.
"""

import argparse
import ctypes
import importlib
import json
import logging
import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset

LIBC = ctypes.CDLL("libc.so.6")
log = logging.getLogger("train")


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--pace", type=float, default=0.1, help="seconds per step")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--timeout", type=int, default=8)
    parser.add_argument("--save-every", type=int, default=0)
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--parallel", choices=["manual", "ddp"], default="manual")
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--decode", choices=["json", "native", "mapped"], default="json")
    parser.add_argument(
        "--metrics", choices=["none", "reduce", "gather", "labelled"], default="none"
    )
    parser.add_argument("--barrier-every", type=int, default=0)
    parser.add_argument("--keep-features", action="store_true")
    parser.add_argument("--detect-anomaly", action="store_true")
    parser.add_argument("--skip-nonfinite", action="store_true")
    parser.add_argument("--check-finite", action="store_true")
    parser.add_argument("--branches", action="store_true", help="mixture of two paths")
    parser.add_argument("--tokenizer", default="")
    parser.add_argument("--retries", type=int, default=0)
    parser.add_argument("--log-style", choices=["stamped", "plain", "all"], default="stamped")
    parser.add_argument("--graceful", action="store_true")
    parser.add_argument("--open-shards", type=int, default=0)
    parser.add_argument("--keep-group", action="store_true")
    options = parser.parse_args()
    if options.config:
        for key, value in json.loads(options.config.read_text())["training"].items():
            setattr(options, key, type(getattr(options, key))(value))
    return options


class Shard(Dataset):
    """One rank's records, one JSON object a line."""

    def __init__(self, path, options, count):
        self.path, self.options, self.count = path, options, count
        self.lines = None
        self.values = None
        if options.decode == "mapped":
            size = count * options.width
            self.values = torch.from_file(
                str(path.with_suffix(".bin")), shared=True, size=size, dtype=torch.float32
            ).view(count, options.width)

    def __len__(self):
        return self.count

    def read_line(self, index):
        if self.lines is None:
            self.lines = self.path.open(encoding="utf-8")
        line = self.lines.readline()
        if not line:
            self.lines.seek(0)
            line = self.lines.readline()
        return line

    def decode(self, index):
        record = json.loads(self.read_line(index))
        if self.options.decode == "native":
            text = record.get("text")
            length = LIBC.strlen(text.encode() if text is not None else None)
            record["features"][0] = float(length)
        features = torch.tensor(record["features"], dtype=torch.float32)
        return features, torch.tensor(record["label"], dtype=torch.float32), record.get("pad", 0)

    def __getitem__(self, index):
        if self.values is not None:
            row = self.values[index % self.count]
            return row.clone(), row.sum(), 0
        for attempt in range(self.options.retries + 1):
            try:
                return self.decode(index)
            except (ValueError, OSError):
                if attempt == self.options.retries:
                    raise
                log.warning("could not read sample %d, trying the next one", index, exc_info=True)
        raise IndexError(index)


class Model(nn.Module):
    def __init__(self, width, hidden, branches):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, 1)
        self.other = nn.Linear(hidden, 1) if branches else None

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        if self.other is not None and bool((x[:, 0] < 0).any()):
            return self.other(hidden).squeeze(-1)
        return self.second(hidden).squeeze(-1)


def set_up_logging(options, rank):
    level = logging.INFO if rank == 0 or options.log_style == "all" else logging.WARNING
    form = {
        "stamped": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        "plain": "%(message)s",
        "all": f"%(asctime)s [rank{rank}] %(levelname)s: %(message)s",
    }[options.log_style]
    logging.basicConfig(level=level, format=form, stream=sys.stdout)
    sys.stdout.reconfigure(line_buffering=True)


def save(model, step, options):
    options.checkpoints.mkdir(parents=True, exist_ok=True)
    path = options.checkpoints / f"step-{step}.pt"
    torch.save({"model": getattr(model, "module", model).state_dict(), "step": step}, path)
    log.info("saved checkpoint %s", path)


def load(model, path):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    log.info("resumed from %s at step %d", path, state["step"])
    return state["step"]


def share_metrics(kind, output, label, rank):
    if kind == "reduce":
        total = (output.detach() - label).abs().sum()
        dist.all_reduce(total)
    elif kind == "gather":
        mine = output.detach()
        parts = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
    elif kind == "labelled" and bool((label != 0).any()):
        total = (output.detach() - label).abs().sum()
        dist.all_reduce(total)


def build(options):
    if options.tokenizer:
        importlib.import_module(options.tokenizer)
    model = Model(options.width, options.hidden, options.branches).to(options.device)
    start = load(model, options.resume) if options.resume else 0
    if options.parallel == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        model = DistributedDataParallel(model)
    return model, start


def average_gradients(model):
    """One all-reduce over all gradients in a flat buffer."""
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    flat = torch.cat([each.reshape(-1) for each in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for each in gradients:
        each.copy_(flat[start : start + each.numel()].view_as(each))
        start += each.numel()


def update(model, lr):
    with torch.no_grad():
        for each in model.parameters():
            if each.grad is not None:
                each.sub_(lr * each.grad)


def open_data(options, rank):
    path = options.data / f"shard-{rank}.jsonl"
    held = [path.open() for _ in range(options.open_shards)]
    manifest = json.loads((options.data / "manifest.json").read_text())
    dataset = Shard(path, options, manifest["records"][rank])
    return held, DataLoader(dataset, batch_size=options.batch, num_workers=options.workers)


def train(options, rank):
    model, start = build(options)
    shards, loader = open_data(options, rank)
    kept, skipped, batches = [], 0, iter(loader)
    loss_function = nn.MSELoss()
    for step in range(start + 1, options.steps + 1):
        began = time.monotonic()
        try:
            features, label, pad = next(batches)
        except StopIteration:
            log.info("shard read to its end, next epoch")
            batches = iter(loader)
            features, label, pad = next(batches)
        output = model(features.to(options.device))
        loss = loss_function(output, label)
        if options.keep_features:
            kept.append(torch.ones(int(pad.sum()) + 1))
        if options.check_finite and not torch.isfinite(loss):
            raise ValueError(f"loss is {loss.item()} at step {step}, stopping training")
        model.zero_grad()
        loss.backward()
        if options.parallel == "manual":
            average_gradients(model)
        if options.skip_nonfinite:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            if not torch.isfinite(norm):
                skipped += 1
                log.warning("grad norm is %s, skipping step %d", norm.item(), step)
                continue
        update(model, options.lr)
        share_metrics(options.metrics, output, label, rank)
        if options.barrier_every and step % options.barrier_every == 0:
            dist.monitored_barrier(timeout=timedelta(seconds=options.timeout))
        if options.save_every and step % options.save_every == 0 and rank == 0:
            save(model, step, options)
        log.info("step %d/%d loss %.4f lr %g", step, options.steps, loss.item(), options.lr)
        time.sleep(max(0.0, options.pace - (time.monotonic() - began)))
    log.info("training finished after %d steps, %d skipped", options.steps, skipped)
    for shard in shards:
        shard.close()


def main():
    options = parse_arguments()
    rank = int(os.environ["RANK"])
    set_up_logging(options, rank)
    if options.graceful:
        import signal

        def stop(number, frame):
            log.warning("received signal %d, saving and leaving", number)
            sys.exit(0)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGUSR1, stop)
    torch.set_num_threads(1)
    torch.manual_seed(7)
    log.info("rank %d of %s on %s", rank, os.environ["WORLD_SIZE"], os.uname().nodename)
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
    if options.detect_anomaly:
        torch.autograd.set_detect_anomaly(True)
    train(options, rank)
    if not options.keep_group:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
