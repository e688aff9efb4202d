"""A user's own loop in plain torch, as it is written for GPUs; on a CPU it trains with gloo.

    torchrun --nproc_per_node 2 own_loop.py --model DIR --data image --wrapper ddp
"""

from __future__ import annotations

import argparse
import contextlib
import os

import capture
import torch
import torch.distributed as dist
from rows import Collate, Rows
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoModelForImageTextToText, AutoTokenizer


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--data", default="image")
    parser.add_argument("--wrapper", choices=("ddp", "deepspeed", "fsdp", "none"), default="ddp")
    parser.add_argument("--stage", type=int, default=2)
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--mistake", default="",
                        choices=("", "inner", "sum", "unsynced", "scale", "kept"))  # fmt: skip
    parser.add_argument("--checkpointing", choices=("", "default", "reentrant"), default="")
    parser.add_argument("--sgd", type=float, default=0.0, help="a rate: plain SGD, no clipping")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", "0")))
    return parser.parse_args()


def wrapped(options, model, optimizer):
    if options.wrapper == "ddp":
        ids = [options.local_rank] if torch.cuda.is_available() else None
        return DistributedDataParallel(model, device_ids=ids), optimizer
    if options.wrapper == "deepspeed":
        import deepspeed

        config = {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": options.accumulate,
            "zero_optimization": {"stage": options.stage},
            "zero_allow_untested_optimizer": True,
            "gradient_clipping": 0.0 if options.sgd else 1.0,
            "bf16": {"enabled": not options.sgd},
        }
        return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[:2]
    if options.wrapper == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in model.model.language_model.layers:
            fully_shard(layer)
        fully_shard(model)
        return model, made(options, model)
    return model, optimizer


def made(options, model):
    if options.sgd:
        return torch.optim.SGD(model.parameters(), lr=options.sgd)
    return torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.1)


def averaged(options, model):
    """The script's own exchange."""
    for each in model.parameters():
        each.grad = each.grad if each.grad is not None else torch.zeros_like(each)
        dist.all_reduce(each.grad)
        if options.mistake != "sum":
            each.grad /= dist.get_world_size()


def main():
    options = arguments()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu", options.local_rank)
    torch.manual_seed(1)
    kind = torch.float32 if options.sgd else torch.bfloat16
    model = AutoModelForImageTextToText.from_pretrained(options.model, torch_dtype=kind).to(device)
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    if options.checkpointing:
        kwargs = {"use_reentrant": True} if options.checkpointing == "reentrant" else None
        model.gradient_checkpointing_enable(kwargs)
    model.train()
    rows = Rows(options.data, 64)
    sampler = DistributedSampler(rows, shuffle=not options.sgd)
    loader = DataLoader(rows, batch_size=1, sampler=sampler, num_workers=0 if options.sgd else 2,
                        collate_fn=Collate(tokenizer, model.config), drop_last=True)  # fmt: skip
    optimizer = made(options, model)
    engine, optimizer = wrapped(options, model, optimizer)
    captured, losses, done = capture.begun(engine, model), [], 0
    for number, batch in enumerate(loader):
        batch = {name: value.to(device, non_blocking=True) for name, value in batch.items()}
        if options.wrapper == "deepspeed":
            loss = engine(**batch).loss
            engine.backward(loss)
            losses.append(loss.item())
            done += engine.is_gradient_accumulation_boundary()
            engine.step()
        else:
            last = (number + 1) % options.accumulate == 0
            quiet = options.wrapper == "ddp" and (not last or options.mistake == "unsynced")
            with engine.no_sync() if quiet else contextlib.nullcontext():
                with torch.autocast(device.type, torch.bfloat16, enabled=not options.sgd):
                    called = model if options.mistake == "inner" else engine
                    loss = called(**batch).loss
                (loss if options.mistake == "scale" else loss / options.accumulate).backward()
            losses.append(loss.item())
            if not last:
                continue
            if options.wrapper == "none":
                averaged(options, model)
            if not options.sgd:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if options.mistake != "kept":
                optimizer.zero_grad()
            done += 1
        if done == options.steps:
            break
    if captured:
        captured(losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
