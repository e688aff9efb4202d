"""The reference of a loop: one process, plain torch, the batches of all ranks, gradients averaged.

    python repository_replay.py FOLDER    # of the run with the guard off
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from repository_loop import write
from vlmguard_train import _weights

RATE = 0.1


def main(folder: Path) -> None:
    """Train as the loop did; then leave what the oracle reads."""
    sys.path.insert(0, ".")
    model = torch.load(folder / "begun0.module", weights_only=False).train()
    files = sorted(folder.glob("batches*.list"))
    ranks = [torch.load(file, weights_only=False) for file in files]
    initial, losses = _weights(model), []
    for step in zip(*ranks, strict=True):
        model.zero_grad()
        for args, named in step:
            loss = model(*args, **named)[1]
            losses.append(float(loss))
            (loss / len(ranks)).backward()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.requires_grad and weight.grad is not None:
                    weight -= RATE * weight.grad
    write(model, initial, losses, "none")


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "capture")
