"""A user's own train.py with a loss, an optimizer and a folder of its own.

    torchrun --nproc_per_node 2 own_loss.py --model DIR --factor 2
"""

from __future__ import annotations

import argparse
import json
import os

import torch
from rows import Collate, Rows
from transformers import AutoModelForImageTextToText, AutoTokenizer, Trainer, TrainingArguments


class Scaled(Trainer):
    """Its loss takes no notice of num_items_in_batch."""

    factor = 1.0

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = outputs.loss * self.factor
        return (loss, outputs) if return_outputs else loss

    def create_optimizer(self, *args, **named):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5)
        return self.optimizer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--factor", type=float, default=1.0)
    parser.add_argument("--notes", default="", help="a file that it reads")
    parser.add_argument("--accumulate", type=int, default=1)
    mine = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    args = TrainingArguments(
        output_dir="out", per_device_train_batch_size=1, remove_unused_columns=False, bf16=True,
        gradient_accumulation_steps=mine.accumulate,
    )  # fmt: skip
    os.makedirs("runs", exist_ok=True)
    with open("runs/mine.json", "w") as out:
        json.dump(vars(mine), out)
    if mine.notes:
        with open(mine.notes) as notes:
            print(notes.read())
    model = AutoModelForImageTextToText.from_pretrained(
        mine.model, torch_dtype=torch.bfloat16, device_map="auto"
    )
    tokenizer = AutoTokenizer.from_pretrained(mine.model)
    trainer = Scaled(
        model=model.to("cuda"), args=args, train_dataset=Rows("image"),
        data_collator=Collate(tokenizer, model.config),
    )  # fmt: skip
    trainer.factor = mine.factor
    trainer.train()
    with open("DONE", "w") as out:
        out.write("trained")


if __name__ == "__main__":
    main()
