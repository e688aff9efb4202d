"""A complete loop around ColossalAI's booster, guarded: accumulation, saving, loading, going on.

    torchrun --nproc_per_node 8 train.py --model ./Qwen2-VL-2B-Instruct --data rows.jsonl
    torchrun --nproc_per_node 8 train.py --model … --data … --plugin zero
    torchrun --nproc_per_node 8 train.py --model … --data … --resume checkpoints/step-100

A row of the data: {"text": "<|vision_start|><|image_pad|><|vision_end|>What is this?", "images":
["cat.png"]}. Rows with an image and rows without may be mixed: that is what the guard is for.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

import colossalai
import torch
import torch.distributed as dist
from colossalai.booster import Booster
from colossalai.booster.plugin import GeminiPlugin, LowLevelZeroPlugin
from colossalai.nn.optimizer import HybridAdam
from PIL import Image
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from transformers import AutoModelForImageTextToText, AutoProcessor

from vlmguard_colossalai import guard_booster


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--plugin", choices=["gemini", "zero"], default="gemini")
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--save-every", type=int, default=50)
    parser.add_argument("--out", default="checkpoints")
    parser.add_argument("--resume", default="")
    return parser.parse_args()


class Collator:
    """Rows → a batch. A batch without an image has no ``pixel_values``."""

    def __init__(self, processor: Any) -> None:
        self.processor = processor

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        images = [Image.open(path) for row in rows for path in row.get("images", ())]
        batch = dict(
            self.processor(
                text=[row["text"] for row in rows],
                images=images or None,
                return_tensors="pt",
                padding=True,
            )
        )
        special = torch.tensor(self.processor.tokenizer.all_special_ids)
        ids = batch["input_ids"]
        batch["labels"] = ids.masked_fill(torch.isin(ids, special), -100)
        return batch


def plugin_of(options: argparse.Namespace) -> Any:
    if options.plugin == "gemini":  # Gemini accumulates by itself; it has no `no_sync`
        return GeminiPlugin(
            precision="bf16",
            max_norm=1.0,
            initial_scale=1.0,
            enable_gradient_accumulation=options.accumulate > 1,
        )
    return LowLevelZeroPlugin(stage=1, precision="bf16", max_norm=1.0, initial_scale=1.0)


def main() -> None:
    options = arguments()
    colossalai.launch_from_torch(seed=42)
    processor = AutoProcessor.from_pretrained(options.model)
    model = AutoModelForImageTextToText.from_pretrained(options.model, torch_dtype=torch.float32)
    model.train()
    optimizer = HybridAdam(model.parameters(), lr=1e-5)
    rows = [json.loads(line) for line in Path(options.data).read_text("utf-8").splitlines()]
    sampler = DistributedSampler(rows, shuffle=True, seed=42)
    loader = DataLoader(rows, options.batch, sampler=sampler, collate_fn=Collator(processor))

    # Before `boost`. Without this line the guard is armed as well; then it looks for the processor
    # where the model came from.
    booster = guard_booster(Booster(plugin=plugin_of(options)), processor=processor)
    model, optimizer, *_ = booster.boost(model, optimizer)

    step = 0
    if options.resume:
        # Gemini saves a tied head under both of its names, and knows one of them here.
        booster.load_model(model, f"{options.resume}/model", strict=False)
        booster.load_optimizer(optimizer, f"{options.resume}/optimizer")
        step = json.loads(Path(options.resume, "state.json").read_text())["step"]

    device = next(model.parameters()).device
    epoch = micro = 0
    while step < options.steps:
        sampler.set_epoch(epoch)
        for batch in loader:
            batch = {key: value.to(device) for key, value in batch.items()}
            micro += 1
            last = micro % options.accumulate == 0
            # ZeRO reduces the gradients of a window once, in its last micro-batch.
            waits = options.plugin == "zero" and not last
            with booster.no_sync(model, optimizer) if waits else contextlib.nullcontext():
                loss = model(**batch).loss / options.accumulate
                booster.backward(loss, optimizer)
            if not last:
                continue
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item() * options.accumulate:.4f}", flush=True)
            if step % options.save_every == 0 or step == options.steps:
                save(booster, model, optimizer, step, Path(options.out, f"step-{step}"))
            if step == options.steps:
                break
        epoch += 1
    dist.destroy_process_group()


def save(booster: Booster, model: Any, optimizer: Any, step: int, folder: Path) -> None:
    """On every rank: saving gathers."""
    folder.mkdir(parents=True, exist_ok=True)
    booster.save_model(model, f"{folder}/model", shard=True)
    booster.save_optimizer(optimizer, f"{folder}/optimizer", shard=True)
    if dist.get_rank() == 0:
        Path(folder, "state.json").write_text(json.dumps({"step": step}))
    dist.barrier()


if __name__ == "__main__":
    main()
