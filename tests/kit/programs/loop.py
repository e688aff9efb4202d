"""A user's own training loop on accelerate, without a Trainer.

    torchrun --nproc_per_node 2 loop.py --model DIR --data mixed --checkpointing
"""

from __future__ import annotations

import argparse
import os

import torch
import vlmguard_capture
import vlmguard_train
from accelerate import (
    Accelerator,
    DeepSpeedPlugin,
    DistributedDataParallelKwargs,
    FullyShardedDataParallelPlugin,
    PartialState,
)
from rows import Collate, Rows
from train import adapted
from transformers import AutoModelForImageTextToText, AutoTokenizer

STEPS = 2


def accelerator(options):
    if options.deepspeed:
        PartialState(cpu=True)  # as TrainingArguments does; else one rank on its own, on CPU
        plugin = DeepSpeedPlugin(hf_ds_config=options.deepspeed)
        plugin.hf_ds_config.config |= {
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": options.accumulate,
            "train_batch_size": int(os.environ["WORLD_SIZE"]) * options.accumulate,
        }
        return Accelerator(deepspeed_plugin=plugin)
    if options.fsdp:
        return Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(
            fsdp_version=2, reshard_after_forward=True, auto_wrap_policy="transformer_based_wrap",
            cpu_ram_efficient_loading=False, state_dict_type="SHARDED_STATE_DICT",
        ), gradient_accumulation_steps=options.accumulate)  # fmt: skip
    handler = DistributedDataParallelKwargs(find_unused_parameters=options.find_unused)
    return Accelerator(cpu=True, kwargs_handlers=[handler],
                       gradient_accumulation_steps=options.accumulate)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--data", default="image")
    parser.add_argument("--lora", default="")
    parser.add_argument("--deepspeed", default="")
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--find_unused", action="store_true")
    parser.add_argument("--checkpointing", choices=("default", "reentrant"))
    options = parser.parse_args()
    torch.manual_seed(1)
    accelerate = accelerator(options)
    model = AutoModelForImageTextToText.from_pretrained(
        options.model, attn_implementation="eager", torch_dtype=torch.float32
    )
    config, tokenizer = model.config, AutoTokenizer.from_pretrained(options.model)
    if options.lora:
        model = adapted(model, options.lora, options.checkpointing)
    if options.checkpointing:
        kwargs = {"use_reentrant": True} if options.checkpointing == "reentrant" else None
        model.gradient_checkpointing_enable(kwargs)
    model.train()
    trainable = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trainable, lr=0.5)
    rows = torch.utils.data.DataLoader(
        Rows(options.data), batch_size=1, collate_fn=Collate(tokenizer, config), shuffle=False
    )
    model, optimizer, rows = accelerate.prepare(model, optimizer, rows)
    inner, losses = accelerate.unwrap_model(model), []
    initial = vlmguard_train._weights(inner)
    for _, batch in zip(range(STEPS * options.accumulate), rows, strict=False):
        with accelerate.accumulate(model):
            loss = model(**batch).loss
            accelerate.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(float(loss))
    rank = vlmguard_capture.Rank(
        rank=accelerate.process_index,
        world=accelerate.num_processes,
        wrapped=vlmguard_train.wrapper(model, inner),
        initial=initial,
        final=vlmguard_train._weights(inner),
        losses=losses,
        digests=vlmguard_train._digests(inner),
    )
    vlmguard_capture.write(os.environ["VLMGUARD_TEST_CAPTURE"], rank)


if __name__ == "__main__":
    main()
