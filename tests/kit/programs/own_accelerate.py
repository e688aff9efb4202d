"""A user's own loop on accelerate, with evaluation, a tracker and saving.

    accelerate launch --multi_gpu own_accelerate.py --model DIR --data image
"""

from __future__ import annotations

import argparse
import math

import capture
import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from rows import Collate, Rows
from torch.utils.data import DataLoader
from transformers import AutoModelForImageTextToText, AutoTokenizer, get_scheduler


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--data", default="image")
    parser.add_argument("--accumulate", type=int, default=1)
    parser.add_argument("--lora", action="store_true")
    parser.add_argument("--checkpointing", choices=("", "default", "reentrant"), default="")
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--sgd", type=float, default=0.0, help="a rate: plain SGD, no clipping")
    parser.add_argument("--average", action="store_true", help="by itself, without a wrapper")
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


def adapted(model):
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    model.enable_input_require_grads()
    return model


def main():
    options = arguments()
    accelerator = Accelerator(
        mixed_precision="no" if options.sgd else "bf16", project_dir="runs",
        gradient_accumulation_steps=options.accumulate, cpu=not torch.cuda.is_available(),
        log_with=None if options.sgd else "tensorboard",
    )  # fmt: skip
    set_seed(7)
    kind = torch.float32 if options.sgd else torch.bfloat16
    model = AutoModelForImageTextToText.from_pretrained(options.model, torch_dtype=kind)
    collate = Collate(AutoTokenizer.from_pretrained(options.model), model.config)
    model = adapted(model) if options.lora else model
    if options.checkpointing:
        kwargs = {"use_reentrant": True} if options.checkpointing == "reentrant" else None
        model.gradient_checkpointing_enable(kwargs)
    loader = DataLoader(Rows(options.data, 48), shuffle=not options.sgd, collate_fn=collate,
                        num_workers=0 if options.sgd else 2)  # fmt: skip
    held_out = DataLoader(Rows("image", 6), collate_fn=collate)
    kept = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(kept, lr=2e-5)
    if options.sgd:
        optimizer = torch.optim.SGD(kept, lr=options.sgd)
    steps = math.ceil(len(loader) / options.accumulate)
    schedule = get_scheduler("constant" if options.sgd else "linear", optimizer,
                             num_warmup_steps=0, num_training_steps=steps)  # fmt: skip
    inner = model
    if not options.average:
        model = accelerator.prepare(model)
    optimizer, loader, held_out, schedule = accelerator.prepare(
        optimizer, loader, held_out, schedule
    )
    if not options.sgd:
        accelerator.init_trackers("mine", config=vars(options))
    captured, losses, done = capture.begun(model, inner), [], 0
    model.eval()
    for batch in held_out:
        with torch.no_grad():
            accelerator.gather_for_metrics(model(**batch).loss.repeat(1))
    model.train()
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss * options.factor
            accelerator.backward(loss)
            if options.average and accelerator.sync_gradients:
                averaged(inner, accelerator)
            if accelerator.sync_gradients and not options.sgd:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()).mean().item())
        done += accelerator.sync_gradients
        if done == options.steps:
            break
    if captured:
        captured(losses)
    else:
        accelerator.save_state("last")
    accelerator.end_training()


def averaged(model, accelerator):
    for each in model.parameters():
        if each.requires_grad:
            each.grad = each.grad if each.grad is not None else torch.zeros_like(each)
            each.grad.copy_(accelerator.reduce(each.grad, "mean"))


if __name__ == "__main__":
    main()
