"""Trains a toy in two real ranks with the ledger on, and says what it found: one JSON line a cell.

    python tests/frameworks/torch/ledger_ranks.py CELL…     CELL: strategy/fault

Imports everything once and forks the ranks of each cell. No line of a loop calls the ledger.
"""

from __future__ import annotations

import functools
import gc
import json
import sys
import weakref
from typing import Any

import deepspeed
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import LlamaConfig, LlamaForCausalLM

from tests.plugins.ledger_toys import Toy, batch
from vlmguard.ranks import run
from vlmguard_torch.ledger import start, watcher

STEPS = 6
FOUND: list[tuple[int, str, str, list[str], str]] = []


def note(number: int, verdicts: Any) -> None:
    for each in verdicts:
        codes = [entry.code for entry in each.entries if entry.level == "warning"]
        FOUND.append((number, each.station, each.state, codes, each.reason))


def zero(model: Any, stage: int, bf16: bool, rate: float) -> Any:
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], rate)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {
            "stage": stage, "reduce_bucket_size": 2000, "stage3_param_persistence_threshold": 0,
        },
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "gradient_clipping": 0.0,
        "bf16": {"enabled": bf16},
    }  # fmt: skip
    return deepspeed.initialize(
        model=model, optimizer=optimizer, config=config, dist_init_required=False
    )[0]


def text() -> Any:
    """A language model without a tower."""
    config = LlamaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2,
    )  # fmt: skip
    return LlamaForCausalLM(config)


def wrap(strategy: str, model: Any, fault: str) -> tuple[Any, Any]:
    """The wrapped model and its optimizer; None where an engine has it."""
    rate = 0.0 if fault == "lr 0" else 1e-2
    if strategy.startswith("zero"):
        return zero(model, int(strategy[4]), strategy.endswith("bf16"), rate), None
    early = torch.optim.AdamW(model.parameters(), rate)
    if strategy == "fsdp2":
        mesh = init_device_mesh("cpu", (2,))
        for each in model.model.layers if fault == "text" else (model.layer, model.visual):
            fully_shard(each, mesh=mesh)
        model = fully_shard(model, mesh=mesh)
        return model, early if fault == "early" else torch.optim.AdamW(model.parameters(), rate)
    groups = [torch.distributed.new_group([each]) for each in (0, 1)] if fault == "two runs" else []
    group = groups[torch.distributed.get_rank()] if groups else None
    return DistributedDataParallel(model, process_group=group), early


def train(strategy: str, fault: str, rank: int) -> Any:
    torch.manual_seed(rank if fault == "two runs" else 0)
    model = Toy() if fault != "text" else text()
    if fault == "frozen":
        model.visual.requires_grad_(False)
    wrapped, optimizer = wrap(strategy, model, fault)
    for n in range(STEPS):
        inputs = batch(n + 10 * rank, fault != "text")
        if fault == "text":
            inputs = {"input_ids": inputs["ids"], "labels": inputs["ids"]}
        elif strategy.endswith("bf16"):
            inputs["pixel_values"] = inputs["pixel_values"].bfloat16()
        called = model if fault == "past the wrapper" else wrapped
        loss = called(**inputs)
        loss = loss if fault != "text" else loss.loss
        if optimizer is None:
            wrapped.backward(loss)
            wrapped.step()
        else:
            loss.backward()
            optimizer.step()
            wrapped.zero_grad()
        if fault == "drift" and n == 0 and rank == 1:
            with torch.no_grad():
                model.layer.bias.data[0] += 1e-3
    return wrapped, optimizer


def work(cell: str, rank: int) -> Any:
    strategy, fault = cell.split("/")
    start.watch = functools.partial(start.watch, on_verdicts=note, stations=("update", "ranks"))
    wrapped, optimizer = train(strategy, fault, rank)
    watching = len(watcher.everyone())
    for each in watcher.everyone():
        each.close()
    gone = weakref.ref(wrapped)
    del wrapped, optimizer
    gc.collect()
    return {"found": FOUND, "watching": watching, "let go": gone() is None}


def main() -> None:
    for cell in sys.argv[1:]:
        result = run(functools.partial(work, cell), 2, limit=90)
        told = {"cell": cell, "verdict": result.verdict}
        cause = result.cause
        told |= {"message": f"{cause.error}: {cause.message}" if cause else ""}
        told |= {"ranks": [each.value for each in result.outcomes]}
        told |= {"output": "\n".join(each.output for each in result.outcomes)[-3000:]}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
