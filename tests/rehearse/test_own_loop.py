"""A loop of a user's own in a rank: its model, its rows' dealer, its reference, a CPU's answers."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from vlmguard.ranks import run
from vlmguard_transformers.rehearsal import loop_wrappers, own_loop, plain_wrappers


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower, self.head = nn.Linear(2, 2), nn.Linear(2, 2)


def test_the_model_is_the_outermost_module_around_what_the_optimizer_holds():
    one, other = Outer(), Outer()
    bare = type("DistributedDataParallel", (nn.Module,), {})()
    bare.module = one
    assert own_loop.holder(list(one.parameters())) is one
    assert own_loop.holder([one.head.weight]) is one
    assert own_loop.holder([one.head.weight, other.head.weight]) is None
    assert own_loop.holder([]) is None


def test_deepspeeds_batches_are_those_of_two_ranks_of_many():
    given = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "bf16": {"enabled": True},
             "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2}}  # fmt: skip
    found = loop_wrappers.configured(given, 1.0, 8)
    assert (found["gradient_accumulation_steps"], "train_batch_size" in found) == (4, False)
    assert (found["bf16"], "optimizer" in found) == ({"enabled": False}, False)
    assert loop_wrappers.configured({}, 1.0, 8)["train_micro_batch_size_per_gpu"] == 1


def averaged(rank):
    """What a parameter of each kind has for a gradient afterwards."""
    both, one, none = (nn.Parameter(torch.zeros(2)) for _ in range(3))
    frozen = nn.Parameter(torch.zeros(2), requires_grad=False)
    both.grad = torch.tensor([1.0, 2.0]) * (rank + 1)
    one.grad = torch.ones(2) if rank else None
    plain_wrappers.average([both, one, none, frozen])
    return [None if each.grad is None else each.grad.tolist() for each in (both, one, none, frozen)]


def test_gradients_are_averaged_and_one_that_a_rank_lacks_is_zero():
    result = run(averaged, 2, "gloo", 60)
    for outcome in result.outcomes:
        assert outcome.value == [[1.5, 3.0], [0.5, 0.5], [0.0, 0.0], None], outcome


def wrapped(rank):
    """What is left of DDP: the first rank's weights, no reduction, the script's own calls."""
    seen = []
    plain_wrappers._ddp(lambda kind, _: seen.append(kind))
    torch.manual_seed(rank)
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False), device_ids=[7])
    with model.no_sync():
        model(torch.ones(1, 2) * (rank + 1)).sum().backward()
    weights, gradient = model.module.weight, model.module.weight.grad
    return seen, weights.tolist(), gradient.tolist(), isinstance(model.train(), nn.Module)


def test_the_reference_has_no_wrapper():
    zero, one = (outcome.value for outcome in run(wrapped, 2, "gloo", 60).outcomes)
    assert zero[0] == one[0] == ["ddp"]
    assert zero[1] == one[1]
    assert (zero[2], one[2]) == ([[1.0, 1.0]], [[2.0, 2.0]])
    assert zero[3]


ANSWERS = """
import os, torch
from vlmguard_transformers.rehearsal import machine, on_cpu
told = []
machine.answers(False, True, (), told.append, in_float32=True)
on_cpu.answers(os.environ, told.append)
device = torch.device("cuda", 1)
assert torch.zeros(2, device=device, dtype=torch.bfloat16).dtype == torch.float32
assert torch.ones(2).to("cuda:0", non_blocking=True).to(1).to(torch.float16).device.type == "cpu"
assert torch.ones(2).half().dtype == torch.float32
assert torch.arange(3).to(device).dtype == torch.int64
with torch.autocast("cuda", dtype=torch.bfloat16):
    assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
with torch.device("meta"):
    assert torch.empty(2).is_meta and torch.nn.Linear(2, 2).weight.is_meta
weight = torch.nn.Parameter(torch.ones(2)); weight.grad = torch.ones(2) * 9
torch.nn.utils.clip_grad_norm_([weight], max_norm=0.1)
assert weight.grad.tolist() == [9, 9]
assert torch.compile(weight) is weight and told == ["torch.compile: left out"]
torch.cuda.synchronize()
print("fine")
"""


def test_a_cpu_answers_as_a_gpu_in_float32():
    done = subprocess.run([sys.executable, "-c", ANSWERS], capture_output=True, text=True,
                          check=False, timeout=120)  # fmt: skip
    assert done.stdout.strip() == "fine", done.stderr
