"""A user's own training loop in plain torch: around DistributedDataParallel, FSDP2 or DeepSpeed, or
around nothing, with gradients that it averages itself.

    torchrun --nproc_per_node 2 plain.py --model DIR --data mixed
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from types import SimpleNamespace

import torch
import vlmguard_capture
import vlmguard_train
from rows import Collate, Rows
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForImageTextToText, AutoTokenizer

STEPS = 2
NAMES = {"fsdp2": "FSDP2", "none": "averaged by hand"}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--data", default="image")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--find_unused", action="store_true")
    parser.add_argument("--wrap", default="ddp", choices=("ddp", "fsdp2", "deepspeed", "none"))
    parser.add_argument("--config", default="", help="DeepSpeed's")
    parser.add_argument("--hand", action="store_true", help="vlmguard.guard_model")
    parser.add_argument("--cut", action="store_true", help="the tower runs without gradients")
    parser.add_argument("--reentrant", action="store_true")
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--reference", action="store_true", help="all rows on each rank")
    return parser.parse_args()


def deepspeed(model, optimizer, options):
    """ZeRO-2's config is given as a dict, ZeRO-3's in a file that the arguments name."""
    import deepspeed

    config = json.loads(Path(options.config).read_text()) | {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": options.accumulate,
    }
    told = {"config": config}
    if config["zero_optimization"]["stage"] == 3:
        rank = int(os.environ["LOCAL_RANK"])
        path = Path(f"config{rank}.json")
        path.write_text(json.dumps(config))
        told = {"args": SimpleNamespace(deepspeed_config=str(path), local_rank=rank)}
    return deepspeed.initialize(model=model, optimizer=optimizer, **told)[0]


def fsdp2(model):
    """Blocks first, then the whole."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    names = set(model._no_split_modules)
    for each in [m for m in model.modules() if type(m).__name__ in names]:
        fully_shard(each, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def averaged(model):
    """What DistributedDataParallel does, by hand."""
    for each in model.parameters():
        if each.grad is not None:
            torch.distributed.all_reduce(each.grad)
            each.grad /= torch.distributed.get_world_size()


def main():
    options = arguments()
    torch.distributed.init_process_group("gloo")
    rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    inner = AutoModelForImageTextToText.from_pretrained(
        options.model, attn_implementation="eager", torch_dtype=torch.float32
    ).train()
    if options.reentrant:
        inner.gradient_checkpointing_enable({"use_reentrant": True})
    if options.cut:
        inner.model.visual.forward = torch.no_grad()(inner.model.visual.forward)
    wrap = "none" if options.reference else options.wrap
    collate = Collate(AutoTokenizer.from_pretrained(options.model), inner.config)
    initial, losses = vlmguard_train._weights(inner), []
    data = Rows(options.data)
    rows = torch.utils.data.DataLoader(
        data, batch_size=1, collate_fn=collate,
        sampler=None if options.reference else range(rank, len(data), world),
    )  # fmt: skip
    model = fsdp2(inner) if wrap == "fsdp2" else inner
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.5, momentum=options.momentum)
    if wrap == "ddp":
        model = DistributedDataParallel(inner, find_unused_parameters=options.find_unused)
    elif wrap == "deepspeed":
        model = deepspeed(inner, optimizer, options)
    if options.hand:
        import vlmguard

        assert vlmguard.guard_model(inner, optimizer, data, collate) is inner
        assert vlmguard.guard_model(inner) is inner  # for the second time
    many = options.accumulate * (world if options.reference else 1)
    batches = iter(rows)
    for _ in range(STEPS):
        optimizer.zero_grad()
        for _ in range(many):
            loss = model(**next(batches)).loss
            if wrap == "deepspeed":
                model.backward(loss)
                model.step()
            else:
                (loss / many).backward()
            losses.append(loss.item())
        if wrap == "none" and not options.reference:
            averaged(inner)
        if wrap != "deepspeed":
            optimizer.step()
    left = vlmguard_capture.Rank(
        rank=rank, world=1 if options.reference else world,
        wrapped=NAMES.get(options.wrap) or vlmguard_train.wrapper(model, inner),
        initial=initial, final=vlmguard_train._weights(inner), losses=losses,
        digests=vlmguard_train._digests(inner),
    )  # fmt: skip
    vlmguard_capture.write(os.environ["VLMGUARD_TEST_CAPTURE"], left)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
