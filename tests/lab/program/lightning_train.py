"""A small Lightning training run on CPU over gloo."""

import json
import sys
from pathlib import Path

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, path):
        self.lines = path.read_text().splitlines()

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        record = json.loads(self.lines[index])
        return torch.tensor(record["features"]), torch.tensor(record["label"])


class Regression(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, index):
        features, label = batch
        loss = nn.functional.mse_loss(self.layers(features).squeeze(-1), label)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main():
    loader = DataLoader(Records(Path("data/shard-0.jsonl")), batch_size=4)
    trainer = L.Trainer(
        accelerator="cpu", devices=int(sys.argv[1]), strategy="ddp", max_epochs=int(sys.argv[2]),
        enable_checkpointing=False, logger=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Regression(), loader)


if __name__ == "__main__":
    main()
