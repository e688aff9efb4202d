"""What a watched window takes beyond the training: memory for a moment, and what is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

from tests.ledger.sums import Net, batch, sgd
from vlmguard_torch.ledger.gradients.leaves import Leaves
from vlmguard_torch.ledger.reader import Subject
from vlmguard_torch.ledger.watcher import account_of

MOST = 32
"""MB that a watched window may take for a moment."""
PROGRAM = """
import resource
import torch
import vlmguard.ledger
import vlmguard_torch.ledger.start
torch.set_num_threads(1)
kind = dict(dtype=torch.{dtype})
wide = torch.nn.Linear(4096, 4096, **kind)  # 16 M weights: 64 MB in float32
model = torch.nn.Sequential(wide, torch.nn.Linear(4096, 8, **kind))
model.turned = torch.nn.Parameter(torch.ones(4096, 4096, **kind))

optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

def steps(count):
    for _ in range(count):
        model(torch.ones(2, 4096, **kind) @ model.turned.t()).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

steps(3)
plain = steps(3)
vlmguard.ledger.watch(model, optimizer)
watched = steps(2)
print("RESULT", watched - plain)
"""


def _more(dtype):
    # Freed memory goes back at once: the peak is what lives at one time.
    around = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(dtype=dtype)],
        env=around, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return float(done.stdout.split("RESULT")[1])


def test_a_watched_window_holds_no_copy_of_a_gradient_in_float32():
    assert _more("float32") < MOST


def test_nor_one_of_a_gradient_in_bfloat16():
    assert _more("bfloat16") < MOST


def test_what_is_kept_is_less_than_a_kilobyte_a_tensor():
    model = Net()
    optimizer = sgd(model)
    parameters = tuple(model.parameters())
    leaves = Leaves(Subject(model, optimizer, parameters, account_of(model, optimizer)))
    leaves.open()
    for _ in range(3):
        leaves.batch()
        model(x=batch(model)).backward()
    leaves.before()
    leaves.after()
    leaves.close()
    sums = [each for each in vars(leaves).values() if isinstance(each, dict)]
    rows = [row for each in sums for row in each.values() if isinstance(row, torch.Tensor)]
    kept = sum(row.numel() * row.element_size() for row in rows)
    assert 0 < kept <= 1024 * len(parameters)
