"""MiniCPM-V's own Trainer (finetune/trainer.py) on LLaVA: the code of MiniCPM's model class comes
with its weights. As there, the model takes a batch as ``data``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL import Image
from trainer import CPMTrainer

LENGTH = 64


class Model(transformers.LlavaForConditionalGeneration):
    """LLaVA, given a batch as MiniCPM is."""

    def forward(self, data: Any = None, **named: Any) -> Any:
        return super().forward(**(data or {}), **named)


@dataclass
class Arguments(transformers.TrainingArguments):
    """As finetune.py has them."""

    model: str = ""
    rows: str = ""
    tune_vision: bool = True
    use_lora: bool = False


@dataclass
class Rows(torch.utils.data.Dataset):
    """One row, tokenized."""

    folder: Path
    processor: Any
    told: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.told)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        row = self.told[number]
        asked, said = (turn["value"] for turn in row["conversations"])
        seen = [Image.open(self.folder / row["image"])] if "image" in row else None
        whole = dict(self.processor(images=seen, text=f"{asked} {said}", return_tensors="pt"))
        whole.pop("token_type_ids", None)  # LLaVA has none
        labels = torch.full_like(whole["input_ids"], -100)
        labels[:, -len(said) :] = whole["input_ids"][:, -len(said) :]
        # Its loss compares the logits at a place with the label at the same place.
        return {**whole, "labels": labels.roll(-1)}


def main() -> None:
    """Train as finetune.py does."""
    (told,) = transformers.HfArgumentParser(Arguments).parse_args_into_dataclasses()
    model = Model.from_pretrained(told.model)
    if not told.tune_vision:
        model.vision_tower.requires_grad_(False)
    if told.gradient_checkpointing:
        model.enable_input_require_grads()
    processor = transformers.AutoProcessor.from_pretrained(told.model)
    rows = Rows(Path(told.rows).parent, processor, json.loads(Path(told.rows).read_text()))
    trainer = CPMTrainer(
        model=model, args=told, train_dataset=rows, data_collator=lambda each: each[0]
    )
    trainer.train()
    trainer.save_state()


if __name__ == "__main__":
    main()
